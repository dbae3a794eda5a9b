/*
 * See copy.h: from the sandbox to here. What it names its files is its own choice, so every name is
 * looked at, and every step goes through the folder's descriptor without following links: nothing
 * outside of the target can be reached. A file is written beside its place and renamed.
 */
#include "cli/copy.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct sink {
	int fd; /* not owned */
	int os_error;
};

static bool write_sink(void *data, const char *bytes, size_t size)
{
	struct sink *sink = data;
	if (fd_write_all(sink->fd, bytes, size))
		return true;
	sink->os_error = errno;
	return false;
}

bool copy_down_stream(struct copy *copy, const char *path, int fd, struct error *err)
{
	cleanup_buf struct buf address = buf_make(4 * COPY_PATH);
	struct sink sink = { .fd = fd };
	struct http_answer answer;
	if (!copy_address(copy, "fs", path, &address, err))
		return false;
	struct http_call call = { .method = "GET",
		.path = buf_text(&address),
		.stop_fd = copy->daemon->signal_fd,
		.on_bytes = write_sink,
		.on_bytes_data = &sink };
	bool is_answered = http_call(copy->daemon->client, &call, &answer, err);
	if (sink.os_error)
		return error_from_os(err, sink.os_error, "cannot write it");
	if (!is_answered)
		return false;
	bool is_good = answer.is_stopped ? error_set(err, ERROR_INVALID, "interrupted")
					 : answer.status == 200 || http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	return is_good;
}

/* ---- a file ---- */

/* The mode of the file that is replaced, else what the umask says. */
static mode_t mode_for(int dir_fd, const char *name)
{
	struct stat old;
	if (fstatat(dir_fd, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(old.st_mode))
		return old.st_mode & 07777;
	mode_t mask = umask(0);
	umask(mask);
	return 0666 & ~mask;
}

bool copy_down_file(
	struct copy *copy, const char *path, int dir_fd, const char *name, struct error *err)
{
	uint8_t bytes[SHORT_ID_SIZE];
	char random[SHORT_ID_TEXT], beside[64];
	struct stat old;
	id_random(bytes, sizeof(bytes));
	id_to_text(bytes, sizeof(bytes), random);
	snprintf(beside, sizeof(beside), ".sandglass-cp-%s", random);
	if (fstatat(dir_fd, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(old.st_mode))
		return error_set(err, ERROR_INVALID, "'%s' is a folder here", name);
	cleanup_close int fd =
		openat(dir_fd, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_from_os(err, errno, "cannot write '%s'", name);
	bool is_good = copy_down_stream(copy, path, fd, err);
	if (is_good && (fchmod(fd, mode_for(dir_fd, name)) < 0 ||
			       renameat(dir_fd, beside, dir_fd, name) < 0))
		is_good = error_from_os(err, errno, "cannot write '%s'", name);
	if (!is_good)
		unlinkat(dir_fd, beside, 0);
	return is_good;
}

/* ---- a folder ---- */

static bool is_safe_name(const char *name, size_t size)
{
	return size > 0 && size <= NAME_MAX && strlen(name) == size && !strchr(name, '/') &&
	       strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool take_folder(struct copy *copy, const char *path, int dir_fd, const char *name,
	unsigned depth, struct error *err)
{
	if (mkdirat(dir_fd, name, 0777) < 0 && errno != EEXIST)
		return error_from_os(err, errno, "cannot make the folder '%s'", name);
	cleanup_close int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_from_os(err, errno, "cannot use the folder '%s'", name);
	return copy_down_folder(copy, path, fd, depth, err);
}

static bool take_entry(struct copy *copy, const json_t *entry, const char *folder, int dir_fd,
	unsigned depth, struct error *err)
{
	char path[COPY_PATH];
	const json_t *name_json = json_object_get(entry, "name");
	const char *name = json_string_value(name_json);
	const char *mode = json_string_value(json_object_get(entry, "mode"));
	bool is_damaged = json_is_true(json_object_get(entry, "name_is_damaged"));
	if (!name || !mode || is_damaged || !is_safe_name(name, json_string_length(name_json))) {
		copy_skip(copy, name ? name : "", "its name cannot be used");
		return true;
	}
	if (!copy_join(path, folder, name, err))
		return false;
	if (*mode == 'd')
		return take_folder(copy, path, dir_fd, name, depth + 1, err);
	if (*mode == 'f')
		return copy_count(copy, &copy->files, depth, err) &&
		       (copy_down_file(copy, path, dir_fd, name, err) ||
			       error_context(err, "%s", name));
	copy_skip(copy, path, *mode == 'l' ? "a link" : "no file");
	return true;
}

bool copy_down_folder(
	struct copy *copy, const char *path, int dir_fd, unsigned depth, struct error *err)
{
	cleanup_buf struct buf address = buf_make(4 * COPY_PATH);
	json_t *list = NULL, *entry;
	size_t i;
	if (!copy_count(copy, &copy->folders, depth, err) ||
		!copy_address(copy, "fs/dir", path, &address, err) ||
		!daemon_get(copy->daemon, buf_text(&address), &list, err))
		return false;
	bool is_good = !json_is_true(json_object_get(list, "truncated")) ||
		       error_set(err, ERROR_INVALID, "'%s' has too many entries", path);
	json_array_foreach(json_object_get(list, "entries"), i, entry)
	{
		is_good = is_good && take_entry(copy, entry, path, dir_fd, depth, err);
	}
	json_decref(list);
	return is_good;
}
