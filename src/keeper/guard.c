/*
 * The guard: a child of the keeper that does nothing until the keeper is gone. Then the kernel
 * kills all that is below the keeper; but on control groups version 1 what is frozen does not die
 * until somebody thaws it, and whoever waits for its end waits for ever. The guard thaws it, and
 * removes the control groups, as the keeper does when it ends by itself.
 *
 * It is told by the end of a pipe, whose other end only the keeper has. It reads nothing else.
 */
#include "base/fd.h"
#include "base/log.h"
#include "jail/freezer.h"
#include "jail/groups.h"
#include "jail/lockdown.h"
#include "jail/process.h"
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define ROUND_MS 20
#define ROUNDS 500

static void wait_for_end(int fd)
{
	char byte;
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
}

static _Noreturn void watch_over(struct keeper *keeper, int end_fd)
{
	struct error err;
	const struct timespec pause = { .tv_nsec = ROUND_MS * 1000000L };
	int keep[] = { end_fd, freezer_folder(&keeper->cgroups) };
	lockdown_signals();
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_IGN); /* it ends after the keeper, and then soon */
	signal(SIGINT, SIG_IGN);
	if (!process_close_standard(true, &err) || !process_keep_descriptors(keep, 2, &err))
		_exit(1);
	wait_for_end(3);
	for (unsigned round = 0; round < ROUNDS; round++) {
		freezer_thaw_boxes(4);
		cgroup_tree_remove(&keeper->cgroups); /* what is empty by now */
		if (faccessat(4, "cgroup.procs", F_OK, 0) < 0)
			break;
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

bool guard_start(struct keeper *keeper, struct error *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_from_os(err, errno, "cannot make a pipe");
	pid_t pid = process_clone(0, NULL, err);
	if (pid == 0) {
		close(ends[1]);
		watch_over(keeper, ends[0]);
	}
	close(ends[0]);
	keeper->guard_fd = ends[1];
	keeper->guard_pid = MAX(pid, 0);
	return pid > 0;
}

void guard_end(struct keeper *keeper)
{
	fd_close(&keeper->guard_fd);
	if (keeper->guard_pid > 0)
		waitpid(keeper->guard_pid, NULL, 0);
	keeper->guard_pid = 0;
}
