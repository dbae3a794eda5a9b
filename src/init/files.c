/*
 * Reading, listing, and the choice among the file calls. The process is the user's towards files
 * and init's towards signals (child.h); it works for one request and ends, so it may block: on a
 * slow reader for the stall limit, on a file never (path.c).
 */
#include "init/files.h"

#include "base/fd.h"
#include "base/macros.h"
#include "init/answer.h"
#include "init/path.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

static void describe(struct inside_file_answer *answer, const struct stat *status)
{
	*answer = (struct inside_file_answer){ .size = (uint64_t)status->st_size,
		.mtime_s = status->st_mtim.tv_sec,
		.mode = status->st_mode };
}

/* ---- read ---- */

/* Never more than was stated; less where the file shrank or the reader is gone. Copied: sendfile()
 * into a unix socket takes twice as long, measured on 6.18. */
static void send_content(int answer_fd, int fd, uint64_t size)
{
	static char bytes[FILES_CHUNK];
	while (size > 0) {
		ssize_t n = read(fd, bytes, MIN(size, (uint64_t)sizeof(bytes)));
		if (n <= 0 || !answer_send(answer_fd, bytes, (size_t)n))
			return;
		size -= (uint64_t)n;
	}
}

static bool serve_read(const char *path, int answer_fd, struct inside_file_answer *answer)
{
	struct stat status;
	cleanup_close int fd = path_open_type(path, S_IFREG, &status, answer);
	if (fd < 0)
		return false;
	describe(answer, &status);
	if (answer_send(answer_fd, answer, sizeof(*answer)))
		send_content(answer_fd, fd, answer->size);
	return true;
}

/* ---- list ---- */

/* Entries on their way out. The newest waits in `last`, for only its successor tells if it is the
 * last one, and that one carries the flag. */
struct listing {
	int answer_fd, dir_fd;
	unsigned seen; /* entries met, also those that vanished before they were looked at */
	bool has_last;
	struct inside_entry last;
	char last_name[NAME_MAX + 1];
	size_t used;
	char bytes[FILES_CHUNK];
};

static bool listing_flush(struct listing *listing)
{
	size_t size = listing->used;
	listing->used = 0;
	return answer_send(listing->answer_fd, listing->bytes, size);
}

static bool listing_put_last(struct listing *listing)
{
	if (!listing->has_last)
		return true;
	size_t size = sizeof(listing->last) + listing->last.name_size;
	if (listing->used + size > sizeof(listing->bytes) && !listing_flush(listing))
		return false;
	char *at = listing->bytes + listing->used;
	memcpy(at, &listing->last, sizeof(listing->last));
	memcpy(at + sizeof(listing->last), listing->last_name, listing->last.name_size);
	listing->used += size;
	listing->has_last = false;
	return true;
}

static bool is_directory(const struct listing *listing, const char *name, mode_t mode)
{
	if (!S_ISLNK(mode))
		return S_ISDIR(mode);
	cleanup_close int fd = path_open(listing->dir_fd, name, O_PATH | O_DIRECTORY, 0);
	return fd >= 0;
}

/* False when the reader is gone. */
static bool listing_add(struct listing *listing, const struct dirent64 *found)
{
	struct stat status = { .st_mode = DTTOIF(found->d_type) };
	if (fstatat(listing->dir_fd, found->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 &&
		errno == ENOENT)
		return true; /* gone meanwhile; where it may not be looked at, the type is all */
	if (!listing_put_last(listing))
		return false;
	size_t size = strlen(found->d_name);
	memcpy(listing->last_name, found->d_name, size);
	listing->last = (struct inside_entry){ .size = (uint64_t)status.st_size,
		.mtime_s = status.st_mtim.tv_sec,
		.mode = status.st_mode,
		.name_size = (uint16_t)size,
		.is_directory = is_directory(listing, found->d_name, status.st_mode) };
	return listing->has_last = true;
}

/* The entries of one getdents; false at the limit or when the reader is gone. */
static bool listing_add_all(struct listing *listing, const char *bytes, ssize_t size)
{
	for (ssize_t at = 0; at < size;) {
		const struct dirent64 *found = (const void *)(bytes + at);
		at += found->d_reclen;
		if (path_is_dots(found->d_name))
			continue;
		if (listing->seen++ == INSIDE_LIST_LIMIT) {
			listing->last.flags = INSIDE_FLAG_MORE;
			return false;
		}
		if (!listing_add(listing, found))
			return false;
	}
	return true;
}

static bool serve_list(const char *path, int answer_fd, struct inside_file_answer *answer)
{
	static struct listing listing; /* large, and one to a process */
	static union {
		char bytes[FILES_CHUNK];
		struct dirent64 align;
	} found;
	struct stat status;
	cleanup_close int fd = path_open_type(path, S_IFDIR, &status, answer);
	if (fd < 0)
		return false;
	describe(answer, &status);
	listing = (struct listing){ .answer_fd = answer_fd, .dir_fd = fd };
	if (!answer_send(answer_fd, answer, sizeof(*answer)))
		return true;
	ssize_t n;
	do
		n = getdents64(fd, found.bytes, sizeof(found.bytes));
	while (n > 0 && listing_add_all(&listing, found.bytes, n));
	if (listing_put_last(&listing))
		listing_flush(&listing);
	return true;
}

/* ---- stat ---- */

static bool serve_stat(const char *path, struct inside_file_answer *answer)
{
	struct stat status;
	cleanup_close int fd = path_reach(AT_FDCWD, path, &status, answer);
	if (fd < 0)
		return false;
	describe(answer, &status);
	return true;
}

/* ---- all of them ---- */

static void limit_stall(int fd, uint32_t stall_ms)
{
	struct timeval limit = { .tv_sec = stall_ms / 1000, .tv_usec = stall_ms % 1000 * 1000 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	fd_set_nonblocking(fd, false);
}

/* Fills the answer. True when it was sent already, with what follows it. */
static bool serve(
	const struct inside_request *request, int answer_fd, struct inside_file_answer *answer)
{
	if (!path_check(request->path, answer))
		return false;
	switch (request->op) {
	case INSIDE_READ:
		return serve_read(request->path, answer_fd, answer);
	case INSIDE_LIST:
		return serve_list(request->path, answer_fd, answer);
	case INSIDE_STAT:
		serve_stat(request->path, answer);
		break;
	case INSIDE_WRITE:
		files_write(request, answer_fd, answer);
		break;
	case INSIDE_DELETE:
		files_delete(request, answer_fd, answer);
		break;
	}
	return false;
}

void files_serve(const struct inside_request *request, int answer_fd, uint32_t stall_ms)
{
	struct inside_file_answer answer = { 0 };
	limit_stall(answer_fd, stall_ms ? stall_ms : FILES_STALL_MS);
	if (!serve(request, answer_fd, &answer))
		answer_send(answer_fd, &answer, sizeof(answer));
}
