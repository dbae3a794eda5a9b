/*
 * The process above a Node session: what JavaScript cannot do for itself.
 *
 * Node cannot hear a signal while it computes, ask how full a pipe is, or put a descriptor back. So
 * the kernel's process is this one, and Node (runner.js) is its only child. It
 *   - passes on each SIGINT as a byte on a pipe that a thread of Node's reads; and while Node waits
 * for a program that it has started (execSync and the like), interrupts, then kills that program;
 *   - waits, when Node asks for it, until the reader has emptied what was written, so that prints
 * and frames are read in the order of writing (see streams.py of the Python kernel);
 *   - ends as Node has ended, so the warden tells why.
 * Runs and frames do not come through here: Node has the socket.
 *
 * Asked on ASK, a SEQPACKET socket: { 'b', number, queues } is answered with { number } once the
 * queues are empty; 's' and 'e': a program is waited for, no longer.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "common/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SOCKET 3
/* In Node, where runner.js and interrupts.js have the same numbers. */
#define NODE_ASK 4
#define NODE_WAKE 5
#define NODE_OUT 6
#define NODE_ERR 7

#define WAIT_US \
	2000000 /* for a reader that does not read; then order is given up, not the cell \
		 */
#define WAIT_AGAIN_US 20000 /* for one that was waited for in vain before */
#define YIELDS 200
#define PAUSE_MS 1
#define AGAIN_MS 50
#define MISSED_ROUNDS 8
#define FRESH_US \
	300000 /* an interrupt still counts for a program that is started so soon after it */

struct runner {
	int signal_fd, ask_fd, wake_fd;
	pid_t node;
	bool waits_for_program, is_stuck;
	uint64_t waits_since; /* in ticks */
	int64_t waits_from_us;
	int64_t interrupted_us; /* the last time */
	unsigned interrupts;    /* while it waits */
	unsigned rounds;        /* since the last interrupt */
};

static const struct {
	int fd;
	unsigned long request;
} queues[] = { { STDOUT_FILENO, FIONREAD }, { STDERR_FILENO, FIONREAD }, { SOCKET, SIOCOUTQ } };

static _Noreturn void fail(const char *what)
{
	dprintf(STDERR_FILENO, "sandglass: %s: %m\n", what);
	_exit(70);
}

/* ---- signals ---- */

static void interrupt(struct runner *runner)
{
	if (write(runner->wake_fd, "i", 1) < 0 && errno != EAGAIN)
		return; /* it is ending */
	runner->interrupted_us = clock_monotonic_us();
	runner->rounds = 0;
	if (runner->waits_for_program)
		processes_signal(runner->node, runner->waits_since, SPARED_NONE,
			runner->interrupts++ == 0 ? SIGINT : SIGKILL);
}

/* A program that was only just being started may have missed it. */
static void insist(struct runner *runner)
{
	runner->rounds++;
	processes_signal(runner->node, runner->waits_since, SPARED_LISTENING, SIGINT);
}

static int patience(const struct runner *runner)
{
	bool insists = runner->waits_for_program && runner->rounds < MISSED_ROUNDS &&
		       runner->interrupted_us + FRESH_US > runner->waits_from_us;
	return insists ? AGAIN_MS : -1;
}

static _Noreturn void follow(int status)
{
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	signal(WTERMSIG(status), SIG_DFL);
	sigset_t nothing;
	sigemptyset(&nothing);
	sigprocmask(SIG_SETMASK, &nothing, NULL);
	kill(getpid(), WTERMSIG(status));
	_exit(128 + WTERMSIG(status));
}

static void take_signals(struct runner *runner)
{
	struct signalfd_siginfo info;
	int status;
	while (read(runner->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGINT)
			interrupt(runner);
	if (waitpid(runner->node, &status, WNOHANG) == runner->node)
		follow(status);
}

/* ---- order ---- */

static bool are_empty(unsigned mask)
{
	for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
		int size;
		if (mask >> i & 1 && ioctl(queues[i].fd, queues[i].request, &size) == 0 && size > 0)
			return false;
	}
	return true;
}

static void wait_until_empty(struct runner *runner, unsigned mask)
{
	int64_t end_us = clock_monotonic_us() + (runner->is_stuck ? WAIT_AGAIN_US : WAIT_US);
	for (unsigned n = 0; !are_empty(mask); n++) {
		if (clock_monotonic_us() > end_us) {
			runner->is_stuck = true;
			return;
		}
		struct pollfd watched = { .fd = runner->signal_fd, .events = POLLIN };
		if (poll(&watched, 1, n < YIELDS ? 0 : PAUSE_MS) > 0)
			take_signals(runner);
	}
	runner->is_stuck = false;
}

static void take_question(struct runner *runner)
{
	unsigned char question[3];
	ssize_t n = recv(runner->ask_fd, question, sizeof(question), MSG_DONTWAIT);
	if (n < 1)
		return;
	if (question[0] == 'b' && n == sizeof(question)) {
		wait_until_empty(runner, question[2]);
		send(runner->ask_fd, question + 1, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	} else if (question[0] == 's' || question[0] == 'e') {
		runner->waits_for_program = question[0] == 's';
		runner->waits_since = processes_now();
		runner->waits_from_us = clock_monotonic_us();
		runner->interrupts = 0;
	}
}

/* ---- all of it ---- */

static void place(int from, int to)
{
	if (dup2(from, to) < 0)
		_exit(126);
}

static _Noreturn void become_node(pid_t parent, int ask, int wake, char *arguments[])
{
	sigset_t nothing;
	sigemptyset(&nothing);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0); /* it died before that: nobody would end us */
	place(ask, NODE_ASK);
	place(wake, NODE_WAKE);
	place(STDOUT_FILENO, NODE_OUT);
	place(STDERR_FILENO, NODE_ERR);
	sigprocmask(SIG_SETMASK, &nothing, NULL);
	/* An interrupt stops code wherever it runs. Node's check would take that for a fault of its
	 * own. */
	char *words[] = { arguments[1], "--no-force-async-hooks-checks", arguments[2], NULL };
	execv(words[0], words);
	dprintf(STDERR_FILENO, "sandglass: cannot execute '%s': %m\n", words[0]);
	_exit(127);
}

static int high(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, NODE_ERR + 1); /* clear of the places in Node */
	if (moved < 0)
		fail("cannot move a descriptor");
	close(fd);
	return moved;
}

static void start(struct runner *runner, char *arguments[])
{
	int ask[2], wake[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ask) < 0 ||
		pipe2(wake, O_CLOEXEC) < 0)
		fail("cannot make a channel");
	for (unsigned i = 0; i < 2; i++) {
		ask[i] = high(ask[i]);
		wake[i] = high(wake[i]);
	}
	pid_t self = getpid();
	runner->node = fork();
	if (runner->node < 0)
		fail("cannot start node");
	if (runner->node == 0)
		become_node(self, ask[1], wake[0], arguments);
	close(ask[1]);
	close(wake[0]);
	runner->ask_fd = ask[0];
	runner->wake_fd = wake[1];
	fd_set_nonblocking(runner->wake_fd, true);
}

/* sandglass-node-runner NODE PATH_OF_RUNNER_JS */
int main(int count, char *arguments[])
{
	struct runner runner = { .interrupted_us = -FRESH_US };
	sigset_t signals;
	if (count != 3)
		return 64;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	runner.signal_fd = high(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
	start(&runner, arguments);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		struct pollfd watched[] = { { .fd = runner.signal_fd, .events = POLLIN },
			{ .fd = runner.ask_fd, .events = POLLIN } };
		if (poll(watched, ARRAY_SIZE(watched), patience(&runner)) == 0)
			insist(&runner);
		if (watched[0].revents)
			take_signals(&runner);
		if (watched[1].revents & POLLIN)
			take_question(&runner);
		else if (watched[1].revents)
			poll(watched, 1, -1); /* Node has closed it and is ending */
	}
}
