/*
 * See copy.h: from here to the sandbox. The API writes files and makes the folders above them; what
 * it cannot do is gathered as orders for a shell inside, run once at the end.
 */
#include "cli/copy.h"

#include "cli/shell_text.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ORDERS_LIMIT ((size_t)512 << 10) /* below what a command may have */
#define ORDERS_TIMEOUT_S 60

struct source {
	int fd;        /* not owned */
	int64_t left;  /* -1: until its end */
	bool is_short; /* it ended before all had come */
};

static size_t read_source(void *data, char *bytes, size_t size)
{
	struct source *source = data;
	if (source->left >= 0)
		size = (size_t)MIN((int64_t)size, source->left);
	if (size == 0)
		return 0;
	ssize_t n = TEMP_FAILURE_RETRY(read(source->fd, bytes, size));
	source->is_short = n <= 0 && source->left > 0;
	if (n < 0 || source->is_short)
		return HTTP_NO_BYTES;
	if (source->left >= 0)
		source->left -= n;
	return (size_t)n;
}

static bool send_source(
	struct copy *copy, struct source *source, const char *path, struct error *err)
{
	cleanup_buf struct buf address = buf_make(4 * COPY_PATH);
	struct http_answer answer;
	if (!copy_address(copy, "fs", path, &address, err))
		return false;
	struct http_call call = { .method = "PUT",
		.path = buf_text(&address),
		.stop_fd = -1,
		.on_read = read_source,
		.on_read_data = source,
		.read_size = source->left };
	bool is_answered = http_call(copy->daemon->client, &call, &answer, err);
	if (source->is_short)
		return error_set(err, ERROR_INVALID, "it changed or cannot be read to its end");
	if (!is_answered)
		return false;
	bool is_good = answer.status == 200 || http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	return is_good;
}

bool copy_up_stream(struct copy *copy, int fd, const char *path, struct error *err)
{
	struct source source = { .fd = fd, .left = -1 };
	return send_source(copy, &source, path, err);
}

/* ---- orders ---- */

bool copy_up_finish(struct copy *copy, struct error *err)
{
	char path[DAEMON_PATH];
	json_t *answer = NULL;
	if (copy->orders.size == 0)
		return true;
	json_t *text = json_stringn(copy->orders.bytes, copy->orders.size);
	if (!text)
		return error_set(err, ERROR_INVALID, "a name is no UTF-8 text");
	json_t *body = json_pack("{s:o, s:i}", "cmd", text, "timeout_seconds", ORDERS_TIMEOUT_S);
	daemon_path(path, copy->id, "/exec");
	bool is_good = daemon_call(copy->daemon, "POST", path, body, &answer, err);
	json_decref(body);
	copy->orders.size = 0;
	const char *said = json_string_value(json_object_get(answer, "stderr"));
	if (is_good && json_integer_value(json_object_get(answer, "exit_code")) != 0)
		is_good = error_set(
			err, ERROR_INTERNAL, "folders or modes were not set: %s", said ? said : "");
	json_decref(answer);
	return is_good;
}

static bool order(struct copy *copy, const char *what, const char *path, struct error *err)
{
	if (!copy->orders.limit)
		copy->orders = buf_make(ORDERS_LIMIT);
	if (copy->orders.size + 4 * COPY_PATH + 16 > ORDERS_LIMIT && !copy_up_finish(copy, err))
		return false;
	if (buf_printf(&copy->orders, "%s -- ", what) && shell_text_word(&copy->orders, path) &&
		buf_append(&copy->orders, " || exit; ", 10))
		return true;
	return error_no_memory(err), false;
}

/* ---- files and folders ---- */

static bool send_file(struct copy *copy, int fd, const struct stat *about, const char *path,
	unsigned depth, struct error *err)
{
	struct source source = { .fd = fd, .left = S_ISREG(about->st_mode) ? about->st_size : -1 };
	if (!copy_count(copy, &copy->files, depth, err) || !send_source(copy, &source, path, err))
		return false;
	return !S_ISREG(about->st_mode) || !(about->st_mode & 0111) ||
	       order(copy, "chmod +x", path, err);
}

static bool send_folder(
	struct copy *copy, int fd, const char *path, unsigned depth, struct error *err);

/* One entry of a folder. */
static bool send_entry(struct copy *copy, int dir_fd, const char *name, const char *folder,
	unsigned depth, struct error *err)
{
	char path[COPY_PATH];
	struct stat about;
	if (!copy_join(path, folder, name, err))
		return false;
	if (fstatat(dir_fd, name, &about, AT_SYMLINK_NOFOLLOW) < 0)
		return error_from_os(err, errno, "cannot look at '%s'", name);
	if (!S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) {
		copy_skip(copy, name, S_ISLNK(about.st_mode) ? "a link" : "no file");
		return true;
	}
	cleanup_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &about) < 0)
		return error_from_os(err, errno, "cannot read '%s'", name);
	bool is_good = S_ISDIR(about.st_mode) ? send_folder(copy, fd, path, depth, err)
					      : send_file(copy, fd, &about, path, depth, err);
	return is_good || error_context(err, "%s", name);
}

static bool send_entries(
	struct copy *copy, DIR *folder, const char *path, unsigned depth, struct error *err)
{
	bool is_empty = true;
	for (struct dirent *entry; (entry = readdir(folder));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		is_empty = false;
		if (!send_entry(copy, dirfd(folder), entry->d_name, path, depth + 1, err))
			return false;
	}
	return !is_empty || order(copy, "mkdir -p", path, err);
}

static bool send_folder(
	struct copy *copy, int fd, const char *path, unsigned depth, struct error *err)
{
	if (!copy_count(copy, &copy->folders, depth, err))
		return false;
	DIR *folder = fdopendir(fd_duplicate(fd));
	if (!folder)
		return error_from_os(err, errno, "cannot list it");
	bool is_good = send_entries(copy, folder, path, depth, err);
	closedir(folder);
	return is_good;
}

bool copy_up(struct copy *copy, const char *from, const char *path, struct error *err)
{
	struct stat about;
	cleanup_close int fd = open(from, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &about) < 0)
		return error_from_os(err, errno, "cannot read '%s'", from);
	return S_ISDIR(about.st_mode) ? send_folder(copy, fd, path, 0, err)
				      : send_file(copy, fd, &about, path, 0, err);
}
