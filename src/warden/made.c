/* See made.h. Both facts are the system's own: the parent, and the pid namespace. Of all processes in a
 * sandbox only its init and its kernels are children of the warden. */
#include "warden/made.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool pid_namespace(pid_t pid, struct stat *ret_about)
{
	char path[48];
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat(path, ret_about) == 0;
}

static bool is_our_child(pid_t pid)
{
	char path[48], ours[32];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	snprintf(ours, sizeof(ours), "\nPPid:\t%d\n", (int)getpid());
	cleanup_free char *status = fd_read_file(AT_FDCWD, path, 8192, NULL, NULL);
	return status && strstr(status, ours);
}

enum made made_look(struct sandbox *sandbox, pid_t pid)
{
	struct stat own, theirs;
	if (sandbox->init_pid == 0)
		return MADE_GONE; /* with its init all of it is */
	if (pid <= 1 || table_find_child(&sandbox->warden->table, pid))
		return MADE_FALSE;
	if (!pid_namespace(pid, &theirs))
		return errno == ENOENT || errno == ESRCH ? MADE_GONE : MADE_FALSE;
	if (!pid_namespace(sandbox->init_pid, &own))
		return MADE_GONE;
	bool is_inside = own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino;
	return is_inside && is_our_child(pid) ? MADE_TRUE : MADE_FALSE;
}
