/*
 * Two processes serve a command. The supervisor keeps init's uid, so user code cannot touch it, and
 * is a child subreaper: whatever the command leaves behind, however often forked and in whatever
 * session, comes back to it. The command's own process enters the work cgroup, then the user's
 * walls, then runs the shell.
 *
 * Three ends: the command's own process ends, and what it left in the background lives on as a
 * child of init; or the limit comes; or the answer socket hangs up. In the last two the command's
 * process group gets SIGTERM and COMMAND_GRACE_MS, so that git or a package manager can remove its
 * locks; then everything is stopped and killed until wait() knows of no child. An answer that says
 * `timed_out` is never sent before.
 *
 * The supervisor waits in poll() only. It does not even read the pipe on which a failed start is
 * reported before the process is reaped: between entering the user's uid and execve, user code may
 * stop that process, and the limit must hold all the same.
 *
 * A terminal is the same with a login shell, or a text of its own, at it: the master end goes to
 * the api at once, and only the shell's process keeps the other one. When the api closes the master
 * the kernel hangs up on the shell; the answer socket, closed with it, ends what does not heed
 * that.
 */
#include "init/command.h"

#include "base/clock.h"
#include "base/fd.h"
#include "init/child.h"
#include "init/terminal.h"
#include "init/tree.h"
#include "jail/cgroup.h"
#include "jail/environment.h"
#include "jail/lockdown.h"
#include "wire/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ARGUMENT_LIMIT (128 * 1024 - 1) /* the kernel's MAX_ARG_STRLEN without the NUL */
#define SCRIPT_FD 9                     /* the highest that a plain sh can close by number */
#define FIRST_OWN_FD 10                 /* ours stay clear of those the command gets */
#define KILL_PAUSE_MS 5                 /* between rounds of killing, unless a child ends earlier */
#define KILL_PAUSE_MOST_MS 100          /* what is frozen does not end before it is thawed */
#define HANG_UP_MS 500 /* from the death of a shell by SIGHUP to the answer socket's end */
#define POLL_LIMIT_MS (3600 * 1000)

static char *const terminal_environment[] = { USER_SURROUNDINGS, "TERM=xterm-256color", NULL };

enum { FD_ANSWER, FD_TEXT, FD_STDOUT, FD_STDERR, FD_STDIN };

struct command {
	const struct serve_config *config; /* not owned */
	const int *fds;                    /* FD_*, not owned */
	char *argument;                    /* owned; what follows `-c` */
	int script_fd;                     /* the text when it is too long for an argument, or -1 */
	int slave_fd;                      /* owned; a terminal's end, or -1 */
	bool is_fed;                       /* it has an FD_STDIN */
	int signal_fd;                     /* SIGCHLD */
	int start_fds[2];                  /* pipe: the errno of a failed start */
	pid_t pid;
	bool has_ended;
	int64_t due_ms;  /* when the limit comes; INT64_MAX: none */
	int64_t left_ms; /* while the clock stands still: what is left; else -1 */
	struct inside_command_answer answer;
	int64_t cpu_us;
};

/* ---- the text ---- */

static bool read_exactly(int fd, char *bytes, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = TEMP_FAILURE_RETRY(pread(fd, bytes + at, size - at, (off_t)at));
		if (n == 0)
			errno = EINVAL; /* shorter than was said */
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* Too long for an argument: the shell reads it as a script. That keeps $0 and standard input as
 * they are with `-c`. The script's first line closes its descriptor (the shell reads from a copy),
 * so that the command's processes do not inherit it. */
static bool make_script(struct command *command, const char *text, size_t size)
{
	static const char head[] = "exec 9<&-; ";
	cleanup_close int fd = memfd_create("command", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || !fd_write_all(fd, head, sizeof(head) - 1) || !fd_write_all(fd, text, size) ||
		!fd_seal(fd))
		return false;
	command->script_fd = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OWN_FD);
	command->argument = strdup(". /proc/self/fd/9");
	return command->script_fd >= 0 && command->argument;
}

static bool load_text(struct command *command, uint64_t size)
{
	if (size > COMMAND_TEXT_LIMIT) {
		errno = E2BIG;
		return false;
	}
	cleanup_free char *text = malloc(size + 1);
	if (!text || !read_exactly(command->fds[FD_TEXT], text, size))
		return false;
	text[size] = '\0';
	if (strlen(text) != size) {
		errno = EINVAL;
		return false;
	}
	if (size > ARGUMENT_LIMIT)
		return make_script(command, text, size);
	command->argument = TAKE(&text);
	return true;
}

/* ---- the command's own process ---- */

static bool place_descriptors(const struct command *command)
{
	if (command->slave_fd >= 0)
		return terminal_take(command->slave_fd) &&
		       child_keep_only(&command->start_fds[1], 1);
	if (dup2(command->fds[FD_STDOUT], STDOUT_FILENO) < 0 ||
		dup2(command->fds[FD_STDERR], STDERR_FILENO) < 0 ||
		(command->is_fed && dup2(command->fds[FD_STDIN], STDIN_FILENO) < 0))
		return false;
	if (command->script_fd >= 0 && dup2(command->script_fd, SCRIPT_FD) < 0)
		return false;
	int keep[] = { command->start_fds[1], command->script_fd >= 0 ? SCRIPT_FD : -1 };
	return child_keep_only(keep, ARRAY_SIZE(keep));
}

static bool lock_down(const struct command *command)
{
	struct error err = { 0 };
	if (command->config->lock_down(&err)) {
		/* This is still a copy of init's memory; other user code must not look into it.
		 * execve makes the process dumpable. */
		prctl(PR_SET_DUMPABLE, 0);
		return true;
	}
	errno = err.os_error ? err.os_error : EPERM;
	return false;
}

/* Images differ in the shells they have. */
static void execute(const struct command *command)
{
	static char *const shells[][3] = { { "/bin/bash", "-l", NULL }, { "/bin/sh", "-l", NULL } };
	char *const arguments[] = { "/bin/sh", "-c", command->argument, NULL };
	if (command->argument)
		execve(arguments[0], arguments,
			environment_with_image(
				command->slave_fd < 0 ? user_environment : terminal_environment));
	for (size_t i = 0; !command->argument && i < ARRAY_SIZE(shells); i++)
		execve(shells[i][0], shells[i], environment_with_image(terminal_environment));
}

static _Noreturn void run_command(const struct command *command)
{
	umask(022);
	const struct serve_config *config = command->config;
	if (cgroup_enter(config->cgroup_fds, config->cgroup_count, NULL) && setsid() >= 0 &&
		place_descriptors(command) && lock_down(command) &&
		lockdown_enter_workspace(&(struct error){ 0 })) {
		lockdown_signals();
		execute(command);
	}
	int start_error = errno;
	fd_write_all(command->start_fds[1], &start_error, sizeof(start_error));
	_exit(127);
}

/* ---- the supervisor ---- */

/* Made before the fork: the end of the process must find the descriptor there. */
static bool prepare(struct command *command)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	int ends[2];
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
		pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		command->start_fds[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, FIRST_OWN_FD);
		close(ends[i]);
	}
	command->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return command->start_fds[0] >= 0 && command->start_fds[1] >= 0 && command->signal_fd >= 0;
}

static bool hand_over_terminal(struct command *command, const struct inside_request *request)
{
	const struct serve_config *config = command->config;
	struct inside_handover handover = { 0 };
	cleanup_close int master = -1;
	if (!terminal_open(config->user_uid, config->user_gid, request->rows, request->columns,
		    &master, &command->slave_fd))
		handover.os_error = errno;
	return wire_send(command->fds[FD_ANSWER], &handover, sizeof(handover), &master,
		       master >= 0 ? 1 : 0, NULL) &&
	       master >= 0;
}

/* What is to run at a terminal; without one the login shell does. */
static bool load_terminal_text(struct command *command, const struct inside_request *request)
{
	size_t size = strnlen(request->path, sizeof(request->path));
	if (size == 0)
		return true;
	if (size < sizeof(request->path))
		command->argument = strdup(request->path);
	return command->argument;
}

static bool start_with(struct command *command, const struct inside_request *request)
{
	if (request->op != INSIDE_TERMINAL)
		return load_text(command, request->size);
	return load_terminal_text(command, request) && hand_over_terminal(command, request);
}

static bool start(struct command *command, const struct inside_request *request)
{
	if (!prepare(command) || !start_with(command, request))
		return false;
	command->pid = fork();
	if (command->pid < 0)
		return false;
	if (command->pid == 0)
		run_command(command);
	free(TAKE(&command->argument));
	fd_close(&command->slave_fd);
	const int keep[] = { command->fds[FD_ANSWER], command->signal_fd, command->start_fds[0] };
	if (child_keep_only(keep, ARRAY_SIZE(keep)) && child_limit_capabilities(1u << CAP_KILL))
		return true;
	kill(command->pid, SIGKILL);
	return false;
}

static void on_end(struct command *command, int status)
{
	command->has_ended = true;
	command->answer.status = status;
	int start_error;
	if (read(command->start_fds[0], &start_error, sizeof(start_error)) == sizeof(start_error))
		command->answer.start_error = start_error;
}

/* Reaps what has ended; false when there is no child left. */
static bool reap(struct command *command)
{
	struct signalfd_siginfo info[8];
	while (read(command->signal_fd, info, sizeof(info)) > 0)
		;
	for (;;) {
		int status;
		struct rusage usage;
		pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
		if (pid <= 0)
			return pid == 0;
		command->cpu_us += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
				   usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
		if (pid == command->pid)
			on_end(command, status);
	}
}

static bool is_clock_stopped(const struct command *command)
{
	return command->left_ms >= 0;
}

static void set_clock(struct command *command, bool is_stopped)
{
	if (is_stopped == is_clock_stopped(command) || command->due_ms == INT64_MAX)
		return;
	int64_t now_ms = clock_monotonic_ms();
	if (!is_stopped)
		command->due_ms = now_ms + command->left_ms;
	command->left_ms = is_stopped ? MAX(command->due_ms - now_ms, (int64_t)0) : -1;
}

/* False when nobody waits for the answer. */
static bool take_order(struct command *command)
{
	struct inside_command_order order;
	ssize_t n = recv(command->fds[FD_ANSWER], &order, sizeof(order), MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n != (ssize_t)sizeof(order) ||
		(order.clock != INSIDE_CLOCK_STOPS && order.clock != INSIDE_CLOCK_GOES_ON))
		return false;
	set_clock(command, order.clock == INSIDE_CLOCK_STOPS);
	return true;
}

/* Waits for a child's end or an order, at most until the limit; false when nobody waits for the
 * answer. */
static bool wait_for_news(struct command *command)
{
	struct pollfd watched[] = { { .fd = command->signal_fd, .events = POLLIN },
		{ .fd = command->fds[FD_ANSWER], .events = POLLIN } };
	int64_t left_ms = is_clock_stopped(command)
				  ? POLL_LIMIT_MS
				  : MAX(command->due_ms - clock_monotonic_ms(), (int64_t)0);
	poll(watched, ARRAY_SIZE(watched), (int)MIN(left_ms, (int64_t)POLL_LIMIT_MS));
	return watched[1].revents == 0 || take_order(command);
}

static void pause_for_child(const struct command *command, int64_t due_ms)
{
	struct pollfd watched = { .fd = command->signal_fd, .events = POLLIN };
	poll(&watched, 1, (int)MAX(due_ms - clock_monotonic_ms(), (int64_t)0));
}

/* Ends all of it, and returns when nothing is left. */
static void end_tree(struct command *command)
{
	kill(-command->pid, SIGTERM);
	int64_t due_ms = clock_monotonic_ms() + COMMAND_GRACE_MS, pause_ms = KILL_PAUSE_MS;
	while (reap(command)) {
		if (clock_monotonic_ms() >= due_ms) {
			tree_kill_descendants();
			pause_ms = MIN(pause_ms * 2, (int64_t)KILL_PAUSE_MOST_MS);
		}
		pause_for_child(command, MAX(due_ms, clock_monotonic_ms() + pause_ms));
	}
}

/* Whether nobody waits any more for a command that has ended. The end of a terminal's client hangs
 * up on the shell, and the shell may be dead before we hear of it. */
static bool is_left(struct command *command)
{
	struct pollfd watched = { .fd = command->fds[FD_ANSWER], .events = POLLIN };
	int status = command->answer.status;
	bool may_follow = WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP;
	return poll(&watched, 1, may_follow ? HANG_UP_MS : 0) > 0 && !take_order(command);
}

static void supervise(struct command *command, uint32_t timeout_ms)
{
	command->due_ms = timeout_ms ? clock_monotonic_ms() + timeout_ms : INT64_MAX;
	command->left_ms = -1;
	for (;;) {
		reap(command);
		if (command->has_ended && is_left(command))
			end_tree(command);
		if (command->has_ended)
			return;
		command->answer.timed_out =
			!is_clock_stopped(command) && clock_monotonic_ms() >= command->due_ms;
		if (command->answer.timed_out || !wait_for_news(command)) {
			end_tree(command);
			return;
		}
	}
}

void command_serve(
	const struct serve_config *config, const struct inside_request *request, const int *fds)
{
	struct command command = { .config = config,
		.fds = fds,
		.is_fed = request->op == INSIDE_FED_COMMAND,
		.script_fd = -1,
		.slave_fd = -1,
		.signal_fd = -1,
		.start_fds = { -1, -1 } };
	setsid();
	if (start(&command, request))
		supervise(&command, request->timeout_ms);
	else
		command.answer.start_error = errno;
	command.answer.cpu_ms = (uint32_t)MIN(command.cpu_us / 1000, (int64_t)UINT32_MAX);
	send(fds[FD_ANSWER], &command.answer, sizeof(command.answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}
