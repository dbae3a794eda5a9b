/*
 * COPY: which file of the context goes where. Folders are followed here, so that the builder gets a
 * plain list of files and places.
 */
#include "api/dockerfile_private.h"

#include <stdio.h>
#include <string.h>

#define TARGET_SIZE 600
#define HINT "files may go below /workspace, /home/user, /opt, /srv, /app, /data and /usr/local"

/* The builder has the same list. */
static const char *const places[] = { "/workspace", "/home/user", "/opt", "/srv", "/app", "/data",
	"/usr/local" };

bool dockerfile_path_is_plain(const char *path)
{
	if (!*path || strlen(path) > 255)
		return false;
	for (const char *at = path; *at; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			return false;
	for (const char *at = path;;) {
		size_t size = strcspn(at, "/");
		if (size == 0 || (size == 1 && at[0] == '.') ||
			(size == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		if (!at[size])
			return true;
		at += size + 1;
	}
}

static bool is_allowed(const char *target)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		size_t size = strlen(places[i]);
		if (strncmp(target, places[i], size) == 0 && target[size] == '/' &&
			dockerfile_path_is_plain(target + 1))
			return true;
	}
	return false;
}

static bool put(struct reader *reader, size_t file, const char *target)
{
	json_t *copies = json_object_get(reader->recipe, "copy");
	if (!is_allowed(target))
		return dockerfile_refuse(
			reader, HINT, "'%.100s' is no place for a file of yours", target);
	if (json_array_size(copies) >= COPIES_LIMIT)
		return dockerfile_refuse(
			reader, NULL, "more than %u files are copied", COPIES_LIMIT);
	json_t *copy = json_pack("{s:I, s:s}", "file", (json_int_t)file, "to", target);
	if (!copy)
		return dockerfile_refuse(reader, NULL, "'%.100s' is no UTF-8", target);
	json_array_append_new(copies, copy);
	return true;
}

/* "." and "./a/" become "" and "a". */
static void strip(char *source)
{
	size_t size;
	while (strncmp(source, "./", 2) == 0)
		memmove(source, source + 2, strlen(source + 2) + 1);
	while ((size = strlen(source)) > 0 && source[size - 1] == '/')
		source[size - 1] = '\0';
	if (strcmp(source, ".") == 0)
		*source = '\0';
}

/* All files below the folder; how many there were, or -1. */
static int copy_folder(struct reader *reader, const char *folder, const char *target)
{
	int count = 0;
	size_t size = strlen(folder);
	char full[TARGET_SIZE];
	for (size_t i = 0; i < reader->context->count; i++) {
		const char *path = reader->context->files[i].path;
		if (size > 0 && (strncmp(path, folder, size) != 0 || path[size] != '/'))
			continue;
		snprintf(full, sizeof(full), "%s/%s", target, size > 0 ? path + size + 1 : path);
		if (!put(reader, i, full))
			return -1;
		count++;
	}
	return count;
}

static bool copy_one(struct reader *reader, char *source, const char *target, bool is_into)
{
	char full[TARGET_SIZE];
	if (strpbrk(source, "*?["))
		return dockerfile_refuse(reader, "name the files, or their folder",
			"'%.80s': patterns are not followed", source);
	strip(source);
	for (size_t i = 0; i < reader->context->count; i++) {
		if (strcmp(reader->context->files[i].path, source) != 0)
			continue;
		const char *slash = strrchr(source, '/');
		snprintf(full, sizeof(full), is_into ? "%s/%s" : "%s", target,
			slash ? slash + 1 : source);
		return put(reader, i, full);
	}
	int count = copy_folder(reader, source, target);
	if (count == 0)
		return dockerfile_refuse(reader,
			"send it along with the Dockerfile, under that path (command line: "
			"--context FOLDER)",
			"'%.80s' is not in the context", source);
	return count > 0;
}

/* Absolute and without a slash at the end; what is relative is so to /workspace. */
static bool find_target(struct reader *reader, char *word, char target[TARGET_SIZE])
{
	if (strlen(word) > 255)
		return dockerfile_refuse(reader, HINT, "the place to copy to is too long");
	if (word[0] != '/') {
		strip(word);
		snprintf(target, TARGET_SIZE, *word ? "/workspace/%s" : "/workspace", word);
	} else {
		snprintf(target, TARGET_SIZE, "%s", word);
	}
	size_t size = strlen(target);
	while (size > 1 && target[size - 1] == '/')
		target[--size] = '\0';
	return true;
}

static bool is_place(const char *target)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (strcmp(target, places[i]) == 0)
			return true;
	return false;
}

bool dockerfile_copy(struct reader *reader)
{
	struct words *words = &reader->words;
	char target[TARGET_SIZE];
	for (unsigned i = 0; i < words->count; i++)
		if (strncmp(words->text[i], "--", 2) == 0 || words->is_and[i])
			return dockerfile_refuse(reader,
				"files belong to root, and may be executed where they begin with "
				"#!",
				"COPY takes no '%.40s'", words->is_and[i] ? "&&" : words->text[i]);
	if (words->count < 2)
		return dockerfile_refuse(
			reader, "COPY app.py /workspace/", "COPY needs a source and a place");
	char *last = words->text[words->count - 1];
	size_t size = strlen(last);
	bool is_into =
		words->count > 2 || (size > 0 && last[size - 1] == '/') || strcmp(last, ".") == 0;
	if (!find_target(reader, last, target))
		return false;
	is_into = is_into || is_place(target);
	for (unsigned i = 0; i + 1 < words->count; i++)
		if (!copy_one(reader, words->text[i], target, is_into))
			return false;
	return true;
}
