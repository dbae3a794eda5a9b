/* See fd.h. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int fd_duplicate(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

bool fd_write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;
	while (size > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(write(fd, at, size));
		if (n < 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

char *fd_read_file(int dir_fd, const char *path, size_t limit, size_t *ret_size, struct error *err)
{
	cleanup_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		error_from_os(err, errno, "cannot open '%s'", path);
		return NULL;
	}
	cleanup_free char *text = malloc(limit + 1);
	if (!text)
		return error_no_memory(err);
	size_t used = 0;
	while (used < limit) {
		ssize_t n = TEMP_FAILURE_RETRY(read(fd, text + used, limit - used));
		if (n < 0) {
			error_from_os(err, errno, "cannot read '%s'", path);
			return NULL;
		}
		if (n == 0)
			break;
		used += (size_t)n;
	}
	if (used == limit) {
		error_set(err, ERROR_INVALID, "'%s' is larger than %zu bytes", path, limit - 1);
		return NULL;
	}
	text[used] = '\0';
	if (ret_size)
		*ret_size = used;
	return TAKE(&text);
}

bool fd_replace_file(int dir_fd, const char *path, const void *bytes, size_t size, mode_t mode,
	struct error *err)
{
	char beside[PATH_MAX];
	snprintf(beside, sizeof(beside), "%s.new", path);
	unlinkat(dir_fd, beside, 0);
	cleanup_close int fd =
		openat(dir_fd, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return error_from_os(err, errno, "cannot make '%s'", beside);
	if (!fd_write_all(fd, bytes, size) || fchmod(fd, mode) < 0 || fsync(fd) < 0 ||
		renameat(dir_fd, beside, dir_fd, path) < 0) {
		error_from_os(err, errno, "cannot write '%s'", path);
		unlinkat(dir_fd, beside, 0);
		return false;
	}
	return true;
}

bool fd_write_kernel_file(int dir_fd, const char *path, const char *text, struct error *err)
{
	cleanup_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return error_from_os(err, errno, "cannot open '%s'", path);
	size_t size = strlen(text);
	if (write(fd, text, size) != (ssize_t)size)
		return error_from_os(err, errno, "cannot write '%s' to '%s'", text, path);
	return true;
}

bool fd_set_nonblocking(int fd, bool is_nonblocking)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return false;
	flags = is_nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) == 0;
}

bool fd_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ==
		       0 &&
	       lseek(fd, 0, SEEK_SET) == 0;
}

size_t fd_raise_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1024; /* what a system gives that says nothing */
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_max;
}
