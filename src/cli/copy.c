/* See copy.h: what both directions need. */
#include "cli/copy.h"

#include "cli/human.h"

#include <stdio.h>
#include <string.h>

void copy_deinit(struct copy *copy)
{
	buf_deinit(&copy->orders);
}

bool copy_address(const struct copy *copy, const char *what, const char *path, struct buf *ret,
	struct error *err)
{
	if (buf_printf(ret, "/sandboxes/%s/%s?", copy->id, what) && http_query(ret, "path", path))
		return true;
	return error_set(err, ERROR_INVALID, "the path is too long");
}

bool copy_look(struct copy *copy, const char *path, enum copy_kind *ret_kind, struct error *err)
{
	cleanup_buf struct buf address = buf_make(4 * COPY_PATH);
	json_t *about = NULL;
	bool is_there = copy_address(copy, "fs/stat", path, &address, err) &&
			daemon_get(copy->daemon, buf_text(&address), &about, err);
	bool is_folder = json_is_true(json_object_get(about, "is_dir"));
	*ret_kind = !is_there ? COPY_NOTHING : is_folder ? COPY_FOLDER : COPY_FILE;
	json_decref(about);
	return is_there || err->code == ERROR_FILE_NOT_FOUND;
}

bool copy_count(struct copy *copy, unsigned *counter, unsigned depth, struct error *err)
{
	if (depth > COPY_DEPTH)
		return error_set(
			err, ERROR_INVALID, "more than %d folders within each other", COPY_DEPTH);
	if (copy->files + copy->folders + copy->skipped >= COPY_MOST)
		return error_set(err, ERROR_INVALID, "more than %u files and folders", COPY_MOST);
	++*counter;
	return true;
}

void copy_skip(struct copy *copy, const char *path, const char *why)
{
	cleanup_buf struct buf clean = buf_make(2 * COPY_PATH);
	human_clean(&clean, path, strnlen(path, COPY_PATH), HUMAN_PLAIN);
	fprintf(stderr, "sandglass cp: left out: %s: %s\n", clean.size ? buf_text(&clean) : "",
		why);
	copy->skipped++;
}

bool copy_join(char path[COPY_PATH], const char *folder, const char *name, struct error *err)
{
	size_t size = strlen(folder);
	const char *between = size > 0 && folder[size - 1] == '/' ? "" : "/";
	int n = snprintf(path, COPY_PATH, "%s%s%s", folder, between, name);
	return n < (int)COPY_PATH || error_set(err, ERROR_INVALID, "a path is too long");
}
