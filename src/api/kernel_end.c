/* See kernel_end.h. */
#include "api/kernel_end.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static void describe_memory(const struct warden_kernel_ended *ended, char *text, size_t size)
{
	snprintf(text, size,
		"memory limit reached: the sandbox may use %llu MiB, its peak was %llu MiB",
		(unsigned long long)(ended->memory_limit >> 20),
		(unsigned long long)((ended->memory_peak + (1 << 20) - 1) >> 20));
}

void kernel_end_describe(
	const struct warden_kernel_ended *ended, const char *broken, char *text, size_t size)
{
	int status = ended->status;
	if (ended->reason == KERNEL_END_MEMORY)
		describe_memory(ended, text, size);
	else if (broken[0])
		snprintf(text, size, "kernel replaced: %s", broken);
	else if (ended->reason == KERNEL_END_TIMEOUT)
		snprintf(text, size, "kernel killed at the time limit of its cell");
	else if (WIFSIGNALED(status))
		snprintf(text, size, "kernel died: signal %d (SIG%s)", WTERMSIG(status),
			sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
	else
		snprintf(text, size, "kernel died: exit code %d", WEXITSTATUS(status));
}

enum cell_outcome kernel_end_outcome(
	const struct cell *cell, const struct warden_kernel_ended *ended)
{
	if (ended->reason == KERNEL_END_MEMORY)
		return CELL_MEMORY;
	if (ended->reason == KERNEL_END_TIMEOUT || cell->is_late)
		return CELL_KILLED;
	return CELL_DIED;
}

int kernel_end_exit(const struct warden_kernel_ended *ended)
{
	if (WIFSIGNALED(ended->status))
		return 128 + WTERMSIG(ended->status);
	return WEXITSTATUS(ended->status) ? WEXITSTATUS(ended->status) : 1;
}
