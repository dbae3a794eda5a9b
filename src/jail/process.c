/* See process.h. */
#include "jail/process.h"

#include "base/fd.h"
#include "base/kernel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

pid_t process_clone(uint64_t flags, int *ret_pidfd, struct error *err)
{
	int pidfd = -1;
	struct kernel_clone_args args = {
		.flags = flags | (ret_pidfd ? CLONE_PIDFD : 0),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0) {
		error_from_os(err, errno, "cannot start a process");
		if (errno == ENOSPC || errno == EUSERS)
			error_hint(
				err, "raise user.max_user_namespaces and its neighbours (sysctl)");
		return -1;
	}
	if (pid > 0 && ret_pidfd)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}

bool process_write_maps(pid_t pid, const char *map, struct error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
	if (!fd_write_kernel_file(AT_FDCWD, path, map, err))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	return fd_write_kernel_file(AT_FDCWD, path, map, err);
}

#define MOST_KEPT 16

bool process_keep_descriptors(const int *keep, unsigned count, struct error *err)
{
	int high[MOST_KEPT];
	assert(count <= MOST_KEPT);
	/* First out of the way of each other, then down to their places. */
	for (unsigned i = 0; i < count; i++) {
		high[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, 3 + MOST_KEPT + 8);
		if (high[i] < 0)
			return error_from_os(err, errno, "cannot move a descriptor");
	}
	for (unsigned i = 0; i < count; i++)
		if (dup2(high[i], 3 + (int)i) < 0)
			return error_from_os(err, errno, "cannot move a descriptor");
	if (syscall(SYS_close_range, 3 + count, ~0u, 0) < 0)
		return error_from_os(err, errno, "cannot close descriptors");
	return true;
}

bool process_close_standard(bool is_stderr_too, struct error *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
		(is_stderr_too && dup2(null, 2) < 0))
		return error_from_os(err, errno, "cannot open /dev/null");
	if (null > 2)
		close(null);
	return true;
}

bool process_exec(int program_fd, char *const arguments[], struct error *err)
{
	static char *const nothing[] = { NULL };
	syscall(SYS_execveat, program_fd, "", arguments, nothing, AT_EMPTY_PATH);
	return error_from_os(err, errno, "cannot execute '%s'", arguments[0]);
}
