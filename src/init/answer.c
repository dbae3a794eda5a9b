/* See answer.h. */
#include "init/answer.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static enum inside_error error_of(int os_error)
{
	switch (os_error) {
	case ENOENT:
		return INSIDE_NOT_FOUND;
	case EISDIR:
		return INSIDE_IS_DIRECTORY;
	case ENOTDIR:
		return INSIDE_NOT_DIRECTORY;
	case EACCES:
	case EPERM:
	case EROFS:
	case EBUSY: /* a mount point */
	case EXDEV:
		return INSIDE_FORBIDDEN;
	case ENXIO: /* a socket, or a FIFO without a reader */
	case ENODEV:
		return INSIDE_SPECIAL;
	case ELOOP:
		return INSIDE_LOOP;
	case ENAMETOOLONG:
		return INSIDE_BAD_PATH;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return INSIDE_NO_SPACE;
	case EAGAIN: /* no process, or somebody holds a lease on the file */
		return INSIDE_BUSY;
	default:
		return INSIDE_FAILED;
	}
}

bool answer_fail(struct inside_file_answer *answer, enum inside_error error)
{
	*answer = (struct inside_file_answer){ .error = error };
	return false;
}

bool answer_fail_os(struct inside_file_answer *answer, int os_error)
{
	answer_fail(answer, error_of(os_error));
	answer->os_error = os_error;
	return false;
}

bool answer_send(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;
	while (size > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(send(fd, at, size, MSG_NOSIGNAL));
		if (n < 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

bool answer_is_hung_up(int fd)
{
	struct pollfd watched = { .fd = fd };
	return poll(&watched, 1, 0) > 0 && watched.revents & (POLLHUP | POLLERR | POLLNVAL);
}
