/* Descriptors: closed by their owner, CLOEXEC from birth, -1 when there is none. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

static inline void cleanup_close_function(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define cleanup_close __attribute__((cleanup(cleanup_close_function)))

/* Hands on a descriptor that a cleanup_close variable holds. */
static inline int fd_take(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

/* Closes (if there is one) and sets to -1. */
void fd_close(int *fd);

/* A descriptor's duplicate, CLOEXEC; -1 and errno on failure. */
int fd_duplicate(int fd);

/* Writes all of it, through interruptions; false and errno on failure. Blocking descriptors
 * only. */
bool fd_write_all(int fd, const void *bytes, size_t size);

/* Reads a whole small file below `limit` bytes into fresh memory, NUL-terminated.
 * NULL and err (NOT a missing file's own code: os_error says ENOENT) on failure. */
char *fd_read_file(int dir_fd, const char *path, size_t limit, size_t *ret_size, struct error *err);

/* Writes a small file whole: beside, synced, renamed. */
bool fd_replace_file(int dir_fd, const char *path, const void *bytes, size_t size, mode_t mode,
	struct error *err);

/* Writes text to an existing kernel file (cgroup, proc) in one write. */
bool fd_write_kernel_file(int dir_fd, const char *path, const char *text, struct error *err);

bool fd_set_nonblocking(int fd, bool is_nonblocking);

/* Closes a memfd to every change, and goes to its begin; false and errno on failure. */
bool fd_seal(int fd);

/* Lets this process have as many descriptors as it may; returns how many. */
size_t fd_raise_limit(void);

#endif
