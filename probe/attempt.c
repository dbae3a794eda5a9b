/*
 * Attempts: each in a child of its own, so that one that succeeds, kills or hangs spoils no other.
 * The child hands its errno over through a pipe; no word from it means that it died or hung.
 *
 * A child mostly shares its parent's memory (but nothing else): to copy the page tables of a Python
 * kernel for each of some thousand calls takes minutes.
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 2000

const char *errno_name(int error)
{
	static char number[32];
	const char *name = error ? strerrorname_np(error) : "OK";
	if (name)
		return name;
	snprintf(number, sizeof(number), "errno %d", error);
	return number;
}

const char *signal_name(int status)
{
	static char text[32];
	const char *name = sigabbrev_np(WTERMSIG(status));
	snprintf(text, sizeof(text), "SIG%s", name ? name : "?");
	return text;
}

struct child {
	int answer_fd;
	attempt run;
	const void *argument;
};

static int attempt_in_child(void *context)
{
	const struct child *child = context;
	for (int signal_number = 1; signal_number < 32; signal_number++)
		signal(signal_number, SIG_DFL); /* the Python kernel catches some */
	errno = 0;
	int error = child->run(child->argument) < 0 ? errno : 0;
	_exit(write(child->answer_fd, &error, sizeof(error)) != sizeof(error));
}

static pid_t start(struct child *child, bool is_sharing_memory)
{
	static char stack[256 * 1024] __attribute__((aligned(16)));
	if (is_sharing_memory)
		return clone(attempt_in_child, stack + sizeof(stack), CLONE_VM | SIGCHLD, child);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		attempt_in_child(child);
	return pid;
}

static const char *outcome(attempt run, const void *argument, bool is_sharing_memory)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return "no pipe";
	struct child child = { .answer_fd = ends[1], .run = run, .argument = argument };
	pid_t pid = start(&child, is_sharing_memory);
	close(ends[1]);
	struct pollfd wait = { .fd = ends[0], .events = POLLIN };
	int ready = pid < 0 ? 0 : poll(&wait, 1, PATIENCE_MS);
	int error = 0, status = 0;
	ssize_t n = ready > 0 ? read(ends[0], &error, sizeof(error)) : 0;
	close(ends[0]);
	if (pid < 0)
		return "no process";
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (n == sizeof(error))
		return errno_name(error);
	if (ready == 0)
		return "hangs";
	return WIFSIGNALED(status) ? signal_name(status) : "vanished";
}

void try(const char *name, attempt run, const void *argument)
{
	json_text(name, outcome(run, argument, true));
}

void try_forked(const char *name, attempt run, const void *argument)
{
	json_text(name, outcome(run, argument, false));
}

void report(const char *name, long result)
{
	json_text(name, errno_name(result < 0 ? errno : 0));
}
