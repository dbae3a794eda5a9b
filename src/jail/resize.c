/*
 * See mounts.h. A mount that was never attached anywhere the warden can walk to is changed through
 * a descriptor of its root: fspick (5.2) asks only for power over the file system's user namespace,
 * and the warden made that.
 */
#include "jail/mounts.h"

#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

static bool set_number(int context, const char *key, uint64_t number)
{
	char text[32];
	snprintf(text, sizeof(text), "%ju", (uintmax_t)number);
	return syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, key, text, 0) == 0;
}

bool mounts_resize(int files_fd, uint64_t bytes, uint32_t inodes, struct error *err)
{
	struct statfs seen;
	cleanup_close int context =
		(int)syscall(SYS_fspick, files_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	if (context < 0 || !set_number(context, "size", bytes) ||
		!set_number(context, "nr_inodes", inodes) ||
		syscall(SYS_fsconfig, context, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		return error_from_os(err, errno, "cannot resize the files of a sandbox");
	if (fstatfs(files_fd, &seen) < 0)
		return error_from_os(err, errno, "cannot read the size of a sandbox's files");
	uint64_t block = (uint64_t)seen.f_bsize;
	if (seen.f_blocks != (bytes + block - 1) / block || seen.f_files != inodes)
		return error_set(err, ERROR_INTERNAL, "the files of a sandbox were not resized");
	return true;
}
