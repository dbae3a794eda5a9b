/* See dockerfile.h. Lines are put together, split into words, and given to their instruction. */
#include "api/dockerfile_private.h"

#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ALLOWED "there are FROM, RUN, COPY, ENV, LABEL and WORKDIR /workspace"

bool dockerfile_refuse(struct reader *reader, const char *hint, const char *format, ...)
{
	char text[200];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	error_set(reader->err, ERROR_DOCKERFILE, "Dockerfile, line %u: %s", reader->line, text);
	return hint ? error_hint(reader->err, "%s", hint) : false;
}

bool dockerfile_add(struct reader *reader, const char *list, const char *text)
{
	json_t *array = json_object_get(reader->recipe, list), *value;
	size_t i;
	json_array_foreach(
		array, i, value) if (strcmp(json_string_value(value), text) == 0) return true;
	if (json_array_size(array) >= PACKAGES_LIMIT)
		return dockerfile_refuse(
			reader, NULL, "more than %u packages are wanted", PACKAGES_LIMIT);
	return json_array_append_new(array, json_string(text)) == 0 ||
	       (error_no_memory(reader->err), false);
}

/* ---- instructions ---- */

static bool take_from(struct reader *reader)
{
	static const char *const known[][2] = { { "base", "base" }, { "minimal", "base" },
		{ "debian:bookworm", "base" }, { "debian:bookworm-slim", "base" },
		{ "debian:12", "base" }, { "debian:12-slim", "base" }, { "python:3.11", "base" },
		{ "python:3.11-slim", "base" }, { "python:3.11-bookworm", "base" },
		{ "python:3.11-slim-bookworm", "base" }, { "code-interpreter", "code-interpreter" },
		{ "default", "code-interpreter" }, { "python", "code-interpreter" },
		{ "ubuntu-24.04", "code-interpreter" }, { "ubuntu:24.04", "code-interpreter" } };
	const struct words *words = &reader->words;
	for (size_t i = 0; words->count == 1 && i < ARRAY_SIZE(known); i++) {
		if (strcmp(words->text[0], known[i][0]) != 0)
			continue;
		json_object_set_new(reader->recipe, "from", json_string(known[i][0]));
		json_object_set_new(reader->recipe, "base", json_string(known[i][1]));
		return true;
	}
	return dockerfile_refuse(reader,
		"FROM base, debian:bookworm-slim or python:3.11-slim (Python and IPython), or "
		"code-interpreter (with the data libraries)",
		"'FROM %.60s' cannot be built on", words->count ? words->text[0] : "");
}

static bool is_variable(const char *name, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	if (size == 0 || size > 100 || !strchr(letters, name[0]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!name[i] || (!strchr(letters, name[i]) && !strchr("0123456789", name[i])))
			return false;
	return true;
}

static bool is_label(const char *name, size_t size)
{
	return size > 0 && size <= 100 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") >=
		       size;
}

/* What every session has of its own. */
static bool is_reserved(const char *name, size_t size)
{
	static const char *const reserved[] = { "HOME", "USER", "LOGNAME", "SHELL", "PATH", "TZ" };
	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
		if (strlen(reserved[i]) == size && memcmp(reserved[i], name, size) == 0)
			return true;
	return false;
}

static bool set_pair(struct reader *reader, const char *object, char *word, bool is_env)
{
	json_t *pairs = json_object_get(reader->recipe, object);
	size_t size = strcspn(word, "=");
	bool is_named = is_env ? is_variable(word, size) : is_label(word, size);
	if (!is_named || word[size] != '=')
		return dockerfile_refuse(reader, "write it as NAME=value, NAME=\"a value\"",
			"'%.80s' sets nothing", word);
	if (is_env && is_reserved(word, size))
		return dockerfile_refuse(reader,
			"HOME, USER, LOGNAME, SHELL, PATH and TZ are fixed",
			"'%.80s' cannot be set", word);
	const char *value = word + size + 1;
	word[size] = '\0';
	if (strlen(value) > VALUE_LIMIT || strpbrk(value, "\r\n"))
		return dockerfile_refuse(reader, NULL, "the value of '%.80s' is too long", word);
	if (json_object_size(pairs) >= VARIABLES_LIMIT)
		return dockerfile_refuse(
			reader, NULL, "there are more than %u of them", VARIABLES_LIMIT);
	return json_object_set_new(pairs, word, json_string(value)) == 0 ||
	       dockerfile_refuse(reader, NULL, "the value of '%.80s' is no UTF-8", word);
}

static bool take_pairs(struct reader *reader, const char *object, bool is_env)
{
	struct words *words = &reader->words;
	for (unsigned i = 0; i < words->count; i++)
		if (!set_pair(reader, object, words->text[i], is_env))
			return false;
	return words->count > 0 ||
	       dockerfile_refuse(reader, "write it as NAME=value", "nothing is set");
}

static bool take_env(struct reader *reader)
{
	return take_pairs(reader, "env", true);
}

static bool take_label(struct reader *reader)
{
	return take_pairs(reader, "labels", false);
}

static bool take_workdir(struct reader *reader)
{
	const struct words *words = &reader->words;
	if (words->count == 1 && (strcmp(words->text[0], "/workspace") == 0 ||
					 strcmp(words->text[0], "/workspace/") == 0))
		return true;
	return dockerfile_refuse(reader, "write WORKDIR /workspace, or leave it out",
		"sessions begin in /workspace, and nowhere else");
}

static const struct instruction {
	const char *name;
	bool (*take)(struct reader *reader);
	const char *advice; /* for those that are not taken */
} instructions[] = {
	{ "FROM", take_from, NULL },
	{ "RUN", dockerfile_run, NULL },
	{ "COPY", dockerfile_copy, NULL },
	{ "ENV", take_env, NULL },
	{ "LABEL", take_label, NULL },
	{ "WORKDIR", take_workdir, NULL },
	{ "ADD", NULL, "use COPY for files of the context" },
	{ "CMD", NULL, "leave it out: a sandbox runs what it is asked to run" },
	{ "ENTRYPOINT", NULL, "leave it out: a sandbox runs what it is asked to run" },
	{ "EXPOSE", NULL, "leave it out: every port inside can be reached by its number" },
	{ "USER", NULL, "leave it out: code always runs as the user 'user'" },
	{ "VOLUME", NULL, "leave it out: the sandbox's own files can be written to" },
	{ "ARG", NULL, "write the value itself where it is used" },
	{ "SHELL", NULL, "leave it out: no shell runs while a template is built" },
};

static bool take_instruction(struct reader *reader)
{
	char *rest = reader->text + strcspn(reader->text, " \t");
	size_t size = (size_t)(rest - reader->text);
	rest += strspn(rest, " \t");
	const struct instruction *found = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(instructions) && !found; i++)
		if (strlen(instructions[i].name) == size &&
			strncasecmp(instructions[i].name, reader->text, size) == 0)
			found = &instructions[i];
	if (!found || !found->take)
		return dockerfile_refuse(reader, found ? found->advice : ALLOWED,
			"'%.*s' cannot be built here", (int)MIN(size, 40), reader->text);
	bool is_first = !json_object_get(reader->recipe, "base");
	if (is_first != (found->take == take_from))
		return dockerfile_refuse(reader, "FROM base, FROM code-interpreter",
			is_first ? "it has to begin with FROM" : "there is one FROM only");
	if (*rest == '[')
		return dockerfile_refuse(
			reader, "write the words without brackets", "lists are not read");
	return dockerfile_split(reader, rest) && found->take(reader);
}

/* ---- lines ---- */

struct lines {
	const char *at, *end;
	unsigned next; /* number of the line at `at` */
};

/* One line without blanks at its ends; false behind the last. */
static bool next_line(struct lines *lines, const char **ret_text, size_t *ret_size)
{
	if (lines->at >= lines->end)
		return false;
	const char *text = lines->at;
	const char *stop = memchr(text, '\n', (size_t)(lines->end - text));
	size_t size = (size_t)((stop ? stop : lines->end) - text);
	lines->at += size + 1;
	lines->next++;
	while (size > 0 && strchr(" \t\r", text[size - 1]))
		size--;
	while (size > 0 && strchr(" \t", text[0])) {
		text++;
		size--;
	}
	*ret_text = text;
	*ret_size = size;
	return true;
}

/* The next instruction with its continuation lines, into reader->text; *ret_size 0: there is none.
 */
static bool next_instruction(struct reader *reader, struct lines *lines, size_t *ret_size)
{
	const char *line;
	size_t size, used = 0;
	bool is_open = true;
	while (is_open && next_line(lines, &line, &size)) {
		if (size == 0 || line[0] == '#')
			continue; /* also between continuation lines */
		if (used == 0)
			reader->line = lines->next - 1;
		is_open = line[size - 1] == '\\';
		size -= is_open;
		if (used + size + 1 > LINE_LIMIT)
			return dockerfile_refuse(reader, "make several instructions of it",
				"it is longer than %zu bytes", LINE_LIMIT);
		memcpy(reader->text + used, line, size);
		used += size;
		reader->text[used++] = ' ';
	}
	while (used > 0 && reader->text[used - 1] == ' ')
		used--;
	reader->text[used] = '\0';
	*ret_size = used;
	return true;
}

static bool read_all(struct reader *reader, struct lines lines)
{
	size_t size = 0;
	do {
		if (!next_instruction(reader, &lines, &size))
			return false;
		if (size > 0 && !take_instruction(reader))
			return false;
	} while (lines.at < lines.end);
	reader->line = lines.next;
	return json_object_get(reader->recipe, "base") ||
	       dockerfile_refuse(reader, "begin with FROM base", "it has no FROM");
}

json_t *dockerfile_read(
	const char *text, size_t size, const struct context *context, struct error *err)
{
	if (size > DOCKERFILE_LIMIT || memchr(text, '\0', size)) {
		error_set(err, ERROR_DOCKERFILE, "the Dockerfile is %s",
			size > DOCKERFILE_LIMIT ? "larger than 64 KiB" : "no text");
		return NULL;
	}
	cleanup_free struct reader *reader = calloc(1, sizeof(*reader));
	if (!reader)
		return error_no_memory(err);
	reader->context = context;
	reader->err = err;
	reader->line = 1;
	reader->recipe = json_pack(
		"{s:[], s:[], s:[], s:{}, s:{}}", "debian", "wheels", "copy", "env", "labels");
	if (!reader->recipe)
		return error_no_memory(err);
	if (read_all(reader, (struct lines){ text, text + size, 1 }))
		return reader->recipe;
	json_decref(reader->recipe);
	return NULL;
}
