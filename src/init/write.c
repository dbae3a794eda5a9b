/*
 * Writing a file: all of it or nothing.
 *
 * The content goes to a hidden file beside the target and is renamed over it when the api commits,
 * so a reader inside sees the old file or the new one, and a program that is being run can be
 * replaced. What follows from that:
 * - Links are followed here, by hand, since the new file must come to lie beside the final target.
 * - A file in a folder that the user may not write is refused, also where the file itself could be
 *   written: writing in place could not be taken back when the content stops half way.
 * - A file that the user may not write is refused, though its folder would allow to replace it.
 * - Old and new need room together.
 * - Another hard link to the old file keeps the old content; owner and times are those of a new
 * file.
 * - Should init be killed meanwhile, the hidden file stays; its name says whose it was.
 */
#include "base/fd.h"
#include "base/id.h"
#include "base/macros.h"
#include "init/answer.h"
#include "init/files.h"
#include "init/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>

#define LINKS_LIMIT 40 /* the kernel's own MAXSYMLINKS */
#define OPEN_TRIES 8
#define NEW_MODE 0644

struct target {
	int dir_fd; /* owned: the folder the file lies in */
	char name[NAME_MAX + 1];
	mode_t mode;
	/* Folders made on the way, so that they can be taken back. */
	int made_fd;      /* owned: where `made` begins, or -1 */
	size_t made_from; /* so much of it was there before */
	char made[INSIDE_PATH_SIZE];
	char beside[64]; /* the file the content goes to */
};

static void target_deinit(struct target *target)
{
	fd_close(&target->dir_fd);
	fd_close(&target->made_fd);
}

/* ---- folders on the way ---- */

/* Removes what was made, innermost first; stops by itself at what is in use by now. */
static void target_take_back(struct target *target)
{
	if (target->made_fd < 0)
		return;
	size_t size = strlen(target->made);
	while (size > target->made_from) {
		unlinkat(target->made_fd, target->made, AT_REMOVEDIR);
		while (size > target->made_from && target->made[size - 1] == '/')
			target->made[--size] = '\0';
		while (size > target->made_from && target->made[size - 1] != '/')
			target->made[--size] = '\0';
	}
}

static int make_and_open(struct target *target, int dir_fd, const char *name, size_t before)
{
	if (mkdirat(dir_fd, name, 0755) == 0)
		target->made_from = MIN(target->made_from, before);
	else if (errno != EEXIST)
		return -1;
	return path_open(dir_fd, name, O_PATH | O_DIRECTORY, 0);
}

/* Walks target->made from made_fd, making what is missing; an O_PATH descriptor, or -1 and errno.
 */
static int make_folders(struct target *target)
{
	char text[INSIDE_PATH_SIZE];
	strcpy(text, target->made);
	target->made_from = strlen(text);
	cleanup_close int dir_fd =
		path_open(target->made_fd, text[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0);
	char *rest = NULL;
	for (char *name = strtok_r(text, "/", &rest); name && dir_fd >= 0;
		name = strtok_r(NULL, "/", &rest)) {
		int next = path_open(dir_fd, name, O_PATH | O_DIRECTORY, 0);
		if (next < 0 && errno == ENOENT && !path_is_special(dir_fd))
			next = make_and_open(target, dir_fd, name, (size_t)(name - text));
		close(dir_fd);
		dir_fd = next;
	}
	return fd_take(&dir_fd);
}

/* Opens the folder a path lies in, making it where it is missing. */
static bool target_enter(
	struct target *target, int base_fd, const char *path, struct inside_file_answer *answer)
{
	char folder[INSIDE_PATH_SIZE];
	path_folder(path, folder);
	int dir_fd = path_open(base_fd, folder, O_PATH | O_DIRECTORY, 0);
	if (dir_fd < 0 && errno == ENOENT && target->made_fd < 0) {
		target->made_fd = path_open(base_fd, ".", O_PATH | O_DIRECTORY, 0);
		strcpy(target->made, folder);
		dir_fd = target->made_fd < 0 ? -1 : make_folders(target);
	}
	if (dir_fd < 0)
		return path_fail(base_fd, folder, errno, answer);
	fd_close(&target->dir_fd);
	target->dir_fd = dir_fd;
	return !path_is_special(dir_fd) || answer_fail(answer, INSIDE_SPECIAL);
}

/* ---- the target ---- */

/* What is there may be replaced: a file that the user may write. */
static bool target_check(struct target *target, struct inside_file_answer *answer)
{
	struct stat status;
	if (fstatat(target->dir_fd, target->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || answer_fail_os(answer, errno);
	if (S_ISDIR(status.st_mode))
		return answer_fail(answer, INSIDE_IS_DIRECTORY);
	if (!S_ISREG(status.st_mode))
		return answer_fail(answer, INSIDE_SPECIAL);
	if (faccessat(target->dir_fd, target->name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0)
		return answer_fail_os(answer, errno);
	target->mode = status.st_mode & 0777;
	return true;
}

static bool target_set_name(
	struct target *target, const char *path, struct inside_file_answer *answer)
{
	const char *name = path_last_name(path);
	if (path_is_dots(name))
		return answer_fail(answer, INSIDE_IS_DIRECTORY);
	if (strlen(name) > NAME_MAX)
		return answer_fail(answer, INSIDE_BAD_PATH);
	strcpy(target->name, name);
	return true;
}

/* Follows links until the name is none; a link's missing target is what will be made. */
static bool target_find(
	struct target *target, const char *request_path, struct inside_file_answer *answer)
{
	char path[INSIDE_PATH_SIZE];
	strcpy(path, request_path);
	int base_fd = AT_FDCWD;
	for (unsigned links = 0; links <= LINKS_LIMIT; links++) {
		if (!target_enter(target, base_fd, path, answer) ||
			!target_set_name(target, path, answer))
			return false;
		ssize_t n = readlinkat(target->dir_fd, target->name, path, sizeof(path));
		if (n < 0)
			return target_check(target, answer);
		if ((size_t)n == sizeof(path))
			return answer_fail(answer, INSIDE_BAD_PATH);
		path[n] = '\0';
		base_fd = target->dir_fd;
	}
	return answer_fail(answer, INSIDE_LOOP);
}

/* ---- the content ---- */

static bool has_room(const struct target *target, uint64_t size)
{
	struct statfs place;
	if (size == INSIDE_SIZE_UNKNOWN || fstatfs(target->dir_fd, &place) < 0 ||
		place.f_blocks == 0)
		return true;
	return size / (uint64_t)place.f_bsize <= place.f_bavail;
}

/* The content, until the writing side is shut down: that is the commit. */
static bool receive(int answer_fd, int fd, uint64_t size, struct inside_file_answer *answer)
{
	static char bytes[FILES_CHUNK];
	uint64_t total = 0;
	ssize_t n;
	while ((n = TEMP_FAILURE_RETRY(read(answer_fd, bytes, sizeof(bytes)))) != 0) {
		if (n < 0 || (uint64_t)n > size - total)
			return answer_fail(answer, INSIDE_ABORTED);
		if (!fd_write_all(fd, bytes, (size_t)n))
			return answer_fail_os(answer, errno);
		total += (uint64_t)n;
	}
	if ((size != INSIDE_SIZE_UNKNOWN && total != size) || answer_is_hung_up(answer_fd))
		return answer_fail(answer, INSIDE_ABORTED);
	*answer = (struct inside_file_answer){ .size = total };
	return true;
}

static int make_beside(struct target *target)
{
	uint8_t random[SHORT_ID_SIZE];
	char text[SHORT_ID_TEXT];
	id_random(random, sizeof(random));
	id_to_text(random, sizeof(random), text);
	snprintf(target->beside, sizeof(target->beside), ".sandglass-%s", text);
	return openat(target->dir_fd, target->beside,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Finds the target and opens the file beside it; -1 and the answer. The folder may vanish in
 * between: another write that made it is being taken back. */
static int target_open(struct target *target, const struct inside_request *request,
	struct inside_file_answer *answer)
{
	for (unsigned tries = 0; tries < OPEN_TRIES; tries++) {
		if (!target_find(target, request->path, answer))
			return -1;
		if (!has_room(target, request->size)) {
			answer_fail_os(answer, ENOSPC);
			return -1;
		}
		int fd = make_beside(target);
		if (fd >= 0)
			return fd;
		answer_fail_os(answer, errno);
		if (errno != ENOENT)
			return -1;
		fd_close(&target->made_fd);
	}
	return -1;
}

static bool target_write(struct target *target, const struct inside_request *request, int answer_fd,
	struct inside_file_answer *answer)
{
	cleanup_close int fd = target_open(target, request, answer);
	if (fd < 0)
		return false;
	bool is_done = receive(answer_fd, fd, request->size, answer);
	if (is_done && (fchmod(fd, target->mode) < 0 || renameat(target->dir_fd, target->beside,
								target->dir_fd, target->name) < 0))
		is_done = answer_fail_os(answer, errno);
	if (!is_done)
		unlinkat(target->dir_fd, target->beside, 0);
	return is_done;
}

bool files_write(
	const struct inside_request *request, int answer_fd, struct inside_file_answer *answer)
{
	struct target target = { .dir_fd = -1, .made_fd = -1, .mode = NEW_MODE };
	bool is_done = target_write(&target, request, answer_fd, answer);
	if (!is_done)
		target_take_back(&target);
	target_deinit(&target);
	return is_done;
}
