/*
 * See path.h. Each path is opened twice: as O_PATH to see what it is, which neither wakes the other
 * end of a FIFO nor asks a device anything, then for real. In between user code may put something
 * else there, so the second open does not block either, and its result is looked at again.
 */
#include "init/path.h"

#include "base/fd.h"
#include "base/macros.h"
#include "init/answer.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#ifndef MQUEUE_MAGIC
#define MQUEUE_MAGIC 0x19800202
#endif

bool path_check(const char path[INSIDE_PATH_SIZE], struct inside_file_answer *answer)
{
	if (path[0] != '/' || !memchr(path, '\0', INSIDE_PATH_SIZE))
		return answer_fail(answer, INSIDE_BAD_PATH);
	return true;
}

static int open_with(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)flags | O_CLOEXEC, .resolve = resolve };
	if (!(flags & O_PATH))
		how.flags |= O_NONBLOCK | O_NOCTTY;
	return (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
}

int path_open(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	return open_with(dir_fd, path, flags, resolve | RESOLVE_NO_MAGICLINKS);
}

bool path_is_special(int fd)
{
	static const uint32_t refused[] = { PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,
		SECURITYFS_MAGIC, BPF_FS_MAGIC, NSFS_MAGIC, BINFMTFS_MAGIC, MQUEUE_MAGIC };
	struct statfs place;
	if (fstatfs(fd, &place) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if ((uint32_t)place.f_type == refused[i])
			return true;
	return false;
}

/* The kernel says ELOOP both for too many links and for a refused link of /proc. */
bool path_fail(int dir_fd, const char *path, int os_error, struct inside_file_answer *answer)
{
	if (os_error == ELOOP) {
		cleanup_close int fd = open_with(dir_fd, path, O_PATH, 0);
		if (fd >= 0)
			return answer_fail(answer, INSIDE_SPECIAL);
	}
	return answer_fail_os(answer, os_error);
}

int path_reach(
	int dir_fd, const char *path, struct stat *ret_stat, struct inside_file_answer *answer)
{
	cleanup_close int fd = path_open(dir_fd, path, O_PATH, 0);
	if (fd < 0) {
		path_fail(dir_fd, path, errno, answer);
		return -1;
	}
	if (path_is_special(fd)) {
		answer_fail(answer, INSIDE_SPECIAL);
		return -1;
	}
	if (fstat(fd, ret_stat) < 0) {
		answer_fail_os(answer, errno);
		return -1;
	}
	return fd_take(&fd);
}

static bool check_type(mode_t mode, mode_t type, struct inside_file_answer *answer)
{
	if ((mode & S_IFMT) == type)
		return true;
	if (S_ISDIR(mode))
		return answer_fail(answer, INSIDE_IS_DIRECTORY);
	return answer_fail(answer, S_ISREG(mode) ? INSIDE_NOT_DIRECTORY : INSIDE_SPECIAL);
}

int path_open_type(
	const char *path, mode_t type, struct stat *ret_stat, struct inside_file_answer *answer)
{
	cleanup_close int seen = path_reach(AT_FDCWD, path, ret_stat, answer);
	if (seen < 0 || !check_type(ret_stat->st_mode, type, answer))
		return -1;
	cleanup_close int fd = path_open(AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0 || fstat(fd, ret_stat) < 0) {
		answer_fail_os(answer, errno);
		return -1;
	}
	if (path_is_special(fd)) {
		answer_fail(answer, INSIDE_SPECIAL);
		return -1;
	}
	return check_type(ret_stat->st_mode, type, answer) ? fd_take(&fd) : -1;
}

const char *path_last_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool path_is_dots(const char *name)
{
	return name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

void path_folder(const char *path, char ret_folder[INSIDE_PATH_SIZE])
{
	size_t size = (size_t)(path_last_name(path) - path);
	if (size == 0) {
		strcpy(ret_folder, ".");
		return;
	}
	memcpy(ret_folder, path, size);
	ret_folder[size] = '\0';
}
