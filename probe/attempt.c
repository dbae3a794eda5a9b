/*
 * Attempts: each in a child of its own, so that one that succeeds, kills or hangs spoils no other.
 * The child hands its errno over through a pipe; no word from it means that it died or hung.
 */
#include "probe.h"

#include <errno.h>
#include <poll.h>
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

static _Noreturn void attempt_in_child(int answer_fd, attempt run, const void *argument)
{
	for (int signal_number = 1; signal_number < 32; signal_number++)
		signal(signal_number, SIG_DFL); /* the Python kernel catches some */
	errno = 0;
	int error = run(argument) < 0 ? errno : 0;
	if (write(answer_fd, &error, sizeof(error)) != sizeof(error))
		_exit(1);
	_exit(0);
}

const char *try_quietly(attempt run, const void *argument)
{
	int ends[2];
	if (pipe(ends) < 0)
		return "no pipe";
	fflush(stdout);
	pid_t pid = fork();
	if (pid < 0)
		return "no process";
	if (pid == 0) {
		close(ends[0]);
		attempt_in_child(ends[1], run, argument);
	}
	close(ends[1]);
	struct pollfd wait = { .fd = ends[0], .events = POLLIN };
	int ready = poll(&wait, 1, PATIENCE_MS);
	int error = 0;
	ssize_t n = ready > 0 ? read(ends[0], &error, sizeof(error)) : 0;
	close(ends[0]);
	kill(pid, SIGKILL);
	int status = 0;
	waitpid(pid, &status, 0);
	if (n == sizeof(error))
		return errno_name(error);
	if (ready == 0)
		return "hangs";
	return WIFSIGNALED(status) ? signal_name(status) : "vanished";
}

void try(const char *name, attempt run, const void *argument)
{
	json_text(name, try_quietly(run, argument));
}

void report(const char *name, long result)
{
	json_text(name, errno_name(result < 0 ? errno : 0));
}
