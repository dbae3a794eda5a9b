/*
 * Deleting a file or a whole tree while user code may be changing it.
 *
 * Only names relative to an open folder are used, links are never followed and mount points never
 * entered, so nothing but the tree is touched. Its depth has no bound but memory: one descriptor is
 * held, of the folder being emptied, and for each folder above it 16 bytes that recognise it when
 * ".." leads back. A folder is entered only when it cannot be removed as empty; coming back, the
 * folder above is read anew from its beginning, so no names are kept. Stops at the first thing that
 * cannot be removed; what went before is gone.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/macros.h"
#include "init/answer.h"
#include "init/files.h"
#include "init/path.h"

#include <dirent.h>
#include <errno.h>
#include <linux/openat2.h>
#include <string.h>

#define DEPTH_LIMIT (1024 * 1024) /* 16 MiB of places */
#define NAMES_SIZE 4096           /* small, since a folder is read anew after each that was in it */
#define TIME_LIMIT_MS 120000      /* against somebody who makes files as fast as they go */

struct place {
	dev_t device;
	ino_t inode;
};

struct removal {
	int answer_fd;
	int64_t due_ms;
	int dir_fd;           /* owned: the folder being emptied */
	struct place *places; /* owned: of the folders above it, outermost first */
	size_t depth, capacity;
};

/* Removes a name; false and errno, ENOTEMPTY for a folder that must be emptied first. */
static bool remove_name(int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return true;
	if (errno != EISDIR)
		return false;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return true;
	if (errno == EEXIST)
		errno = ENOTEMPTY;
	else if (errno == ENOTDIR)
		errno = EAGAIN; /* it became a file meanwhile */
	return false;
}

static int open_folder(int dir_fd, const char *name)
{
	return path_open(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
		RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
}

static bool place_of(int fd, struct place *ret_place)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return false;
	*ret_place = (struct place){ .device = status.st_dev, .inode = status.st_ino };
	return true;
}

static bool removal_has_room(struct removal *removal)
{
	if (removal->depth < removal->capacity)
		return true;
	size_t capacity = MAX(removal->capacity * 2, (size_t)64);
	struct place *places = capacity > DEPTH_LIMIT
				       ? NULL
				       : realloc(removal->places, capacity * sizeof(*places));
	if (!places) {
		errno = ENOMEM;
		return false;
	}
	removal->places = places;
	removal->capacity = capacity;
	return true;
}

static bool removal_descend(struct removal *removal, const char *name)
{
	if (!removal_has_room(removal) ||
		!place_of(removal->dir_fd, &removal->places[removal->depth]))
		return false;
	int fd = open_folder(removal->dir_fd, name);
	if (fd < 0)
		return false;
	close(removal->dir_fd);
	removal->dir_fd = fd;
	removal->depth++;
	return true;
}

static bool removal_ascend(struct removal *removal)
{
	const struct place *above = &removal->places[removal->depth - 1];
	struct place place;
	cleanup_close int fd = open_folder(removal->dir_fd, "..");
	if (fd < 0 || !place_of(fd, &place))
		return false;
	if (place.device != above->device || place.inode != above->inode) {
		errno = ESTALE; /* the folder was moved elsewhere meanwhile */
		return false;
	}
	close(removal->dir_fd);
	removal->dir_fd = fd_take(&fd);
	removal->depth--;
	return true;
}

enum step { STEP_EMPTIED, STEP_DESCENDED, STEP_FAILED };

static enum step remove_all(struct removal *removal, const char *bytes, ssize_t size)
{
	for (ssize_t at = 0; at < size;) {
		const struct dirent64 *found = (const void *)(bytes + at);
		at += found->d_reclen;
		if (path_is_dots(found->d_name) || remove_name(removal->dir_fd, found->d_name))
			continue;
		if (errno != ENOTEMPTY || !removal_descend(removal, found->d_name))
			return STEP_FAILED;
		return STEP_DESCENDED;
	}
	return STEP_EMPTIED;
}

/* Empties the current folder, up to the first folder in it that must be emptied before. */
static enum step removal_step(struct removal *removal)
{
	static union {
		char bytes[NAMES_SIZE];
		struct dirent64 align;
	} found;
	if (clock_monotonic_ms() >= removal->due_ms || answer_is_hung_up(removal->answer_fd)) {
		errno = ETIMEDOUT;
		return STEP_FAILED;
	}
	if (lseek(removal->dir_fd, 0, SEEK_SET) < 0)
		return STEP_FAILED;
	for (;;) {
		ssize_t n = getdents64(removal->dir_fd, found.bytes, sizeof(found.bytes));
		if (n <= 0)
			return n < 0 ? STEP_FAILED : STEP_EMPTIED;
		enum step step = remove_all(removal, found.bytes, n);
		if (step != STEP_EMPTIED)
			return step;
	}
}

/* Empties the folder it was opened on; false and errno. */
static bool removal_run(struct removal *removal)
{
	for (;;) {
		enum step step = removal_step(removal);
		if (step == STEP_FAILED)
			return false;
		if (step == STEP_EMPTIED && removal->depth == 0)
			return true;
		if (step == STEP_EMPTIED && !removal_ascend(removal))
			return false;
	}
}

static bool remove_tree(struct removal *removal, int dir_fd, const char *name)
{
	while (!remove_name(dir_fd, name)) {
		if (errno != ENOTEMPTY)
			return false;
		fd_close(&removal->dir_fd);
		removal->dir_fd = open_folder(dir_fd, name);
		if (removal->dir_fd < 0 || !removal_run(removal))
			return false;
	}
	return true;
}

/* Trailing slashes go: "/a/b/" is the folder "b", also to whom "b" is a link to one. */
static void strip(char *path)
{
	size_t size = strlen(path);
	while (size > 1 && path[size - 1] == '/')
		path[--size] = '\0';
}

bool files_delete(
	const struct inside_request *request, int answer_fd, struct inside_file_answer *answer)
{
	char path[INSIDE_PATH_SIZE], folder[INSIDE_PATH_SIZE];
	strcpy(path, request->path);
	strip(path);
	path_folder(path, folder);
	struct stat status;
	cleanup_close int dir_fd = path_reach(AT_FDCWD, folder, &status, answer);
	if (dir_fd < 0)
		return false;
	const char *name = path_last_name(path);
	if (path_is_dots(name))
		return answer_fail(answer, INSIDE_FORBIDDEN);
	if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return answer_fail_os(answer, errno);
	struct removal removal = {
		.answer_fd = answer_fd, .due_ms = clock_monotonic_ms() + TIME_LIMIT_MS, .dir_fd = -1
	};
	bool is_done = remove_tree(&removal, dir_fd, name) || answer_fail_os(answer, errno);
	fd_close(&removal.dir_fd);
	free(removal.places);
	return is_done;
}
