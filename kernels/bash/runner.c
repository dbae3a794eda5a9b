/*
 * The runner of a bash session: speaks frames on descriptor 3 and drives one bash.
 *
 * The shell reads commands from a pipe of ours, two lines a cell. The first sources the cell, which
 * lies in a memory file of this process, with /dev/null to read and the session's pipes to write
 * to; so what the cell does to descriptors 0, 1 and 2 ends with it. Between cells the shell's own
 * output is /dev/null: nothing of prompts and traces of ours is seen. The second line tells number,
 * status and the code of an `exit` on a third pipe. setup.sh has the rest of the story.
 *
 * An interrupt can hit the shell while it reads the second line, and drops that line; so with each
 * interrupt the second line is sent once more. Answers of earlier numbers are ignored. One that
 * comes before the shell has begun the cell waits until it has.
 *
 * The shell and what it starts are a process group of their own, without job control: background
 * jobs ignore SIGINT by what POSIX demands, so the group's SIGINT stops the foreground only. The
 * second interrupt of a cell kills what the cell has started, again and again until the shell
 * answers.
 *
 * A shell that is killed by a signal takes the runner with it, by the same signal, so the warden
 * tells why (the memory limit has counters, a signal is none). A shell that ends otherwise, by exec
 * for one, is replaced, and DONE says so.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "common/processes.h"
#include "wire/frames.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SOCKET 3
#define SHELL "/bin/bash"
/* As the shell sees them; low, so that `ulimit -n` does not hurt, and above what people use. */
#define SHELL_OUT 30
#define SHELL_ERR 31
#define SHELL_TELL 32
#define AGAIN_MS 50      /* between rounds */
#define MISSED_ROUNDS 8  /* as many after the first interrupt */
#define SPARING_ROUNDS 4 /* after the second, as many leave background jobs alone */
#define BEGIN_US 2000    /* an interrupt that comes earlier waits so long */
#define START_LIMIT_MS 10000
#define LOST "the shell ended; its variables, functions and working folder are gone"

struct runner {
	const char *setup;               /* path of setup.sh */
	int cell_fd, null_fd, signal_fd; /* owned, as all here */
	char cell_path[64];
	pid_t shell;              /* 0: none */
	int commands_fd, told_fd; /* to and from the shell */
	char told[256];           /* what it said, up to an end of line */
	size_t told_size;
	uint32_t number; /* counts cells; 0: the set-up */
	char version[64];
};

/* A cell under way. */
struct cell {
	bool is_done;
	int exit;
	unsigned interrupts, rounds; /* rounds: since the last interrupt */
	bool is_deferred;            /* an interrupt that waits for the shell to begin */
	uint64_t started;            /* in ticks */
	int64_t begun_us;
	int size;         /* of what the shell was told to do */
	const char *lost; /* why the shell was replaced, or NULL */
};

static _Noreturn void fail(const char *what)
{
	dprintf(STDERR_FILENO, "sandglass: %s: %s\n", what, strerror(errno));
	_exit(70);
}

/* ---- frames ---- */

static void send_frame(uint32_t run, uint16_t kind, const char *json)
{
	char packet[512];
	struct frame_header header = { .run = run, .kind = kind };
	size_t size = strlen(json);
	memcpy(packet, &header, sizeof(header));
	memcpy(packet + sizeof(header), json, size);
	if (send(SOCKET, packet, sizeof(header) + size, MSG_NOSIGNAL) < 0)
		_exit(0); /* nobody is there any more */
}

/* In poll: a process that waits in recv and was killed meanwhile would still take the packet along, and
 * whoever sent it could not tell that its cell had not begun. */
static ssize_t receive(char *packet, size_t size)
{
	struct pollfd arrival = { .fd = SOCKET, .events = POLLIN };
	if (TEMP_FAILURE_RETRY(poll(&arrival, 1, -1)) < 0)
		return -1;
	return TEMP_FAILURE_RETRY(recv(SOCKET, packet, size, 0));
}

/* Puts the next cell into its file. Returns its run. */
static uint32_t receive_cell(const struct runner *runner)
{
	static char packet[FRAME_SIZE];
	if (ftruncate(runner->cell_fd, 0) < 0 || lseek(runner->cell_fd, 0, SEEK_SET) < 0)
		fail("cannot empty the cell's file");
	for (;;) {
		struct frame_header header;
		ssize_t size = receive(packet, sizeof(packet));
		if (size <= 0)
			_exit(0);
		if ((size_t)size < sizeof(header))
			continue;
		memcpy(&header, packet, sizeof(header));
		if (header.kind != FRAME_RUN)
			continue;
		if (!fd_write_all(runner->cell_fd, packet + sizeof(header),
			    (size_t)size - sizeof(header)))
			fail("cannot keep the cell");
		if (!(header.flags & FRAME_MORE))
			return header.run;
	}
}

/* Is there a program inside of another? Arithmetic, $((1 + 1)), is none. */
static bool is_nested(const char *text, size_t size)
{
	const char *end = text + size;
	for (const char *at = text; (at = memchr(at, '(', (size_t)(end - at))) != NULL; at++)
		if (at > text && strchr("$<>", at[-1]) && (at + 1 == end || at[1] != '('))
			return true;
	return false;
}

/* See __sandglass_parses of setup.sh. A cell that cannot be looked at counts as one. */
static bool has_nested(const struct runner *runner)
{
	off_t size = lseek(runner->cell_fd, 0, SEEK_END);
	void *text = mmap(NULL, (size_t)size + 1, PROT_READ, MAP_PRIVATE, runner->cell_fd, 0);
	if (text == MAP_FAILED)
		return true;
	bool is_found = is_nested(text, (size_t)size);
	munmap(text, (size_t)size + 1);
	return is_found;
}

/* ---- the shell ---- */

/* In the child. Descriptors of ours are all closed by exec. */
static _Noreturn void become_shell(
	const struct runner *runner, pid_t parent, int commands, int tell)
{
	sigset_t nothing;
	sigemptyset(&nothing);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0); /* it died before that: nobody would end us */
	setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(STDOUT_FILENO, SHELL_OUT) < 0 || dup2(STDERR_FILENO, SHELL_ERR) < 0 ||
		dup2(tell, SHELL_TELL) < 0 || dup2(commands, STDIN_FILENO) < 0 ||
		dup2(runner->null_fd, STDOUT_FILENO) < 0 ||
		dup2(runner->null_fd, STDERR_FILENO) < 0)
		_exit(126);
	sigprocmask(SIG_SETMASK, &nothing, NULL);
	setenv("PS1", "", 1);
	setenv("PS2", "", 1);
	setenv("VIRTUAL_ENV_DISABLE_PROMPT", "1", 1);
	execl(SHELL, "bash", "--noprofile", "--norc", "--noediting", "-i", (char *)NULL);
	_exit(127);
}

/* A shell that does not read is dead or busy with itself: what is lost here is asked for again. */
static void command(struct runner *runner, const char *line)
{
	if (write(runner->commands_fd, line, strlen(line)) < 0 && errno != EPIPE && errno != EAGAIN)
		fail("cannot ask the shell");
}

#define CELL_LINE "%s %s </dev/null >&%d 2>&%d %d>&- %d>&- %d>&-\n"
#define END_LINE "{ __sandglass_end %u $?; } >&%d 2>/dev/null\n"

/* Once more: what the shell reads right after an interrupt may lose its beginning, so that is
 * empty. */
static void ask_end(struct runner *runner)
{
	char lines[128];
	snprintf(lines, sizeof(lines), "\n" END_LINE, (unsigned)runner->number, SHELL_TELL);
	command(runner, lines);
}

static void forget_shell(struct runner *runner)
{
	fd_close(&runner->commands_fd);
	fd_close(&runner->told_fd);
	runner->told_size = 0;
	runner->shell = 0;
}

/* The next line that the shell said; false when there is none yet. */
static bool next_told(struct runner *runner, char line[256])
{
	for (;;) {
		char *end = memchr(runner->told, '\n', runner->told_size);
		if (end) {
			size_t size = (size_t)(end - runner->told);
			memcpy(line, runner->told, size);
			line[size] = '\0';
			runner->told_size -= size + 1;
			memmove(runner->told, end + 1, runner->told_size);
			return true;
		}
		if (runner->told_size == sizeof(runner->told) - 1)
			runner->told_size = 0; /* no line of ours */
		ssize_t n = read(runner->told_fd, runner->told + runner->told_size,
			sizeof(runner->told) - 1 - runner->told_size);
		if (n <= 0)
			return false;
		runner->told_size += (size_t)n;
	}
}

static void await_setup(struct runner *runner)
{
	char line[256];
	struct pollfd watched = { .fd = runner->told_fd, .events = POLLIN };
	while (!next_told(runner, line))
		if (poll(&watched, 1, START_LIMIT_MS) == 0 ||
			waitpid(runner->shell, NULL, WNOHANG) > 0) {
			errno = ETIME;
			fail("the shell does not start");
		}
	snprintf(runner->version, sizeof(runner->version), "%.*s", (int)strcspn(line, "("), line);
}

static void start_shell(struct runner *runner)
{
	int commands[2], tell[2];
	char line[256];
	if (pipe2(commands, O_CLOEXEC) < 0 || pipe2(tell, O_CLOEXEC) < 0)
		fail("cannot make a pipe");
	pid_t self = getpid();
	runner->shell = fork();
	if (runner->shell < 0)
		fail("cannot start the shell");
	if (runner->shell == 0)
		become_shell(runner, self, commands[0], tell[1]);
	setpgid(runner->shell, runner->shell);
	close(commands[0]);
	close(tell[1]);
	runner->commands_fd = commands[1];
	runner->told_fd = tell[0];
	fd_set_nonblocking(runner->commands_fd, true);
	fd_set_nonblocking(runner->told_fd, true);
	snprintf(line, sizeof(line), ". %s </dev/null\necho $BASH_VERSION >&%d\n", runner->setup,
		SHELL_TELL);
	command(runner, line);
	await_setup(runner);
}

/* Dies as the shell did. */
static _Noreturn void follow(int status)
{
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	signal(WTERMSIG(status), SIG_DFL);
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	kill(getpid(), WTERMSIG(status));
	_exit(128 + WTERMSIG(status));
}

/* ---- a cell ---- */

static void take_told(struct runner *runner, struct cell *cell)
{
	char line[256];
	while (next_told(runner, line)) {
		unsigned number;
		int status;
		if (sscanf(line, "%u %d", &number, &status) != 2 || number != runner->number)
			continue;
		cell->is_done = true;
		cell->exit = status & 255;
	}
}

static void interrupt_shell(struct runner *runner, bool with_group)
{
	kill(with_group ? -runner->shell : runner->shell, SIGINT);
	kill(runner->shell, SIGURG);  /* setup.sh has a trap */
	kill(runner->shell, SIGCONT); /* one that has stopped itself */
	ask_end(runner);
}

/* Once more, while the shell does not answer. */
static void insist(struct runner *runner, struct cell *cell)
{
	cell->rounds++;
	if (cell->interrupts > 1) {
		processes_signal(runner->shell, cell->started,
			cell->rounds <= SPARING_ROUNDS ? SPARED_IGNORING : SPARED_NONE, SIGKILL);
		interrupt_shell(runner, true);
		return;
	}
	/* a program that was only just being started may have missed the first */
	processes_signal(runner->shell, cell->started, SPARED_LISTENING, SIGINT);
	interrupt_shell(runner, false);
}

/* The shell has read what it was told to do, and had time to begin. */
static bool has_begun(const struct runner *runner, const struct cell *cell)
{
	int left = 0;
	ioctl(runner->commands_fd, FIONREAD, &left);
	return left < cell->size && clock_monotonic_us() - cell->begun_us > BEGIN_US;
}

static void interrupt(struct runner *runner, struct cell *cell)
{
	if (cell->interrupts == 0 && !has_begun(runner, cell)) {
		cell->is_deferred = true;
		return;
	}
	cell->is_deferred = false;
	cell->rounds = 0;
	if (++cell->interrupts > 1)
		insist(runner, cell);
	else
		interrupt_shell(runner, true);
}

/* Milliseconds to wait for its answer; -1: for ever. */
static int patience(const struct cell *cell)
{
	if (cell->is_deferred)
		return 1;
	bool insists =
		cell->interrupts > 1 || (cell->interrupts == 1 && cell->rounds < MISSED_ROUNDS);
	return insists ? AGAIN_MS : -1;
}

static void on_shell_exit(struct runner *runner, struct cell *cell, int status)
{
	if (WIFSIGNALED(status))
		follow(status);
	take_told(runner, cell);
	bool had_ended = cell->is_done;
	forget_shell(runner);
	start_shell(runner);
	cell->lost = LOST;
	cell->is_done = true;
	if (!had_ended)
		cell->exit = WEXITSTATUS(status);
	dprintf(STDERR_FILENO, "sandglass: %s\n", LOST);
}

/* `cell`: the one under way, or NULL between cells. */
static void take_signals(struct runner *runner, struct cell *cell)
{
	struct signalfd_siginfo info;
	int status;
	while (read(runner->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGINT && cell)
			interrupt(runner, cell);
	while (runner->shell > 0 && waitpid(runner->shell, &status, WNOHANG) == runner->shell) {
		if (!cell)
			follow(status);
		on_shell_exit(runner, cell, status);
	}
}

/* What the shell is told to do. Returns the size. */
static int write_lines(const struct runner *runner, char *lines, size_t room)
{
	char first[128] = "";
	const char *verb = ".";
	if (has_nested(runner)) {
		snprintf(first, sizeof(first), "__sandglass_parses %s %d; ", runner->cell_path,
			SHELL_ERR);
		verb = "\"$__sandglass_verb\"";
	}
	return snprintf(lines, room, "%s" CELL_LINE END_LINE, first, verb, runner->cell_path,
		SHELL_OUT, SHELL_ERR, SHELL_OUT, SHELL_ERR, SHELL_TELL, (unsigned)runner->number,
		SHELL_TELL);
}

static struct cell run_cell(struct runner *runner)
{
	struct cell cell = { .started = processes_now() };
	char lines[512];
	runner->number++;
	cell.size = write_lines(runner, lines, sizeof(lines));
	command(runner, lines);
	cell.begun_us = clock_monotonic_us();
	while (!cell.is_done) {
		struct pollfd watched[] = { { .fd = runner->told_fd, .events = POLLIN },
			{ .fd = runner->signal_fd, .events = POLLIN } };
		int n = poll(watched, ARRAY_SIZE(watched), patience(&cell));
		take_told(runner, &cell);
		if (n == 0 && !cell.is_done && cell.is_deferred)
			interrupt(runner, &cell);
		else if (n == 0 && !cell.is_done)
			insist(runner, &cell);
		if (watched[1].revents)
			take_signals(runner, &cell);
	}
	return cell;
}

static void serve_cell(struct runner *runner)
{
	char json[256];
	uint32_t run = receive_cell(runner);
	struct cell cell = run_cell(runner);
	if (cell.lost)
		snprintf(json, sizeof(json), "{\"exit\":%d,\"restarted\":\"%s\"}", cell.exit,
			cell.lost);
	else
		snprintf(json, sizeof(json), "{\"exit\":%d}", cell.exit);
	send_frame(run, FRAME_DONE, json);
}

/* ---- all of it ---- */

static void prepare(struct runner *runner)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	fcntl(SOCKET, F_SETFD, FD_CLOEXEC);
	runner->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	runner->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	runner->cell_fd = memfd_create("cell", MFD_CLOEXEC);
	if (runner->signal_fd < 0 || runner->null_fd < 0 || runner->cell_fd < 0 ||
		fchmod(runner->cell_fd, 0600) < 0)
		fail("cannot set up the runner");
	snprintf(runner->cell_path, sizeof(runner->cell_path), "/proc/%d/fd/%d", (int)getpid(),
		runner->cell_fd);
}

/* sandglass-bash-runner PATH_OF_SETUP */
int main(int count, char *arguments[])
{
	static struct runner runner = { .commands_fd = -1, .told_fd = -1 };
	char json[128];
	if (count != 2)
		return 64;
	runner.setup = arguments[1];
	prepare(&runner);
	start_shell(&runner);
	snprintf(json, sizeof(json), "{\"language\":\"bash\",\"version\":\"%s\"}", runner.version);
	send_frame(0, FRAME_READY, json);
	for (;;) {
		struct pollfd watched[] = { { .fd = SOCKET, .events = POLLIN },
			{ .fd = runner.signal_fd, .events = POLLIN } };
		poll(watched, ARRAY_SIZE(watched), -1);
		if (watched[1].revents)
			take_signals(&runner, NULL);
		if (watched[0].revents)
			serve_cell(&runner);
	}
}
