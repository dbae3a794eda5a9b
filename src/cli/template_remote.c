/*
 * `sandglass template` against a daemon: build from a Dockerfile and show the log, list, remove. It
 * needs the operator's key, the one in the state folder.
 */
#include "cli/template_remote.h"

#include "base/buf.h"
#include "cli/command.h"
#include "cli/http.h"
#include "cli/template_upload.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define LINE_LIMIT (1u << 20)
#define CALL_LIMIT_S 30L

struct options {
	const char *state, *dockerfile, *context, *size_mb;
	const char *word; /* what is not an option; one at most */
	bool is_json;
};

/* False: it was misused, and said so. */
static bool parse(struct options *options, int argc, char **argv, const char *wanted)
{
	static const struct option known[] = { { "state", required_argument, NULL, 's' },
		{ "dockerfile", required_argument, NULL, 'f' },
		{ "context", required_argument, NULL, 'c' },
		{ "size-mb", required_argument, NULL, 'm' }, { "json", no_argument, NULL, 'j' },
		{ 0 } };
	int option;
	*options = (struct options){ 0 };
	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (option == '?') {
			command_misused("template", "'%s' is no option here", argv[optind - 1]);
			return false;
		}
		if (option == 'j')
			options->is_json = true;
		else
			*(option == 's'         ? &options->state
				: option == 'f' ? &options->dockerfile
				: option == 'c' ? &options->context
						: &options->size_mb) = optarg;
	}
	options->word = argv[optind];
	if (wanted ? argc - optind == 1 : argc == optind)
		return true;
	command_misused("template",
		wanted ? "%s needs %s, and nothing else" : "%s needs no more words", argv[0],
		wanted);
	return false;
}

static struct http_client *open_client(
	const struct options *options, struct target *target, struct error *err)
{
	bool is_found = options->state ? target_from_state(target, options->state, err)
				       : target_from_environment(target, err);
	return is_found ? http_client_new(target, err) : NULL;
}

/* The answer of a call that must succeed, owned; NULL and err. JSON null where it has no body. */
static json_t *ask(
	struct http_client *client, const char *method, const char *path, struct error *err)
{
	struct http_answer answer;
	struct http_call call = {
		.method = method, .path = path, .stop_fd = -1, .limit_s = CALL_LIMIT_S
	};
	if (!http_call(client, &call, &answer, err))
		return NULL;
	if (answer.status < 300)
		return answer.json ? answer.json : json_null();
	http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static void print_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2));
	putchar('\n');
}

/* ---- the log ---- */

struct lines {
	struct buf buf;
};

static void print_line(const char *line, size_t size)
{
	static const char mark[] = "data: ";
	if (size < sizeof(mark) - 1 || memcmp(line, mark, sizeof(mark) - 1) != 0)
		return;
	line += sizeof(mark) - 1;
	size -= sizeof(mark) - 1;
	if (size == 3 && memcmp(line, "end", 3) == 0)
		return;
	fwrite(line, 1, size, stdout);
	putchar('\n');
	fflush(stdout);
}

static bool on_bytes(void *data, const char *bytes, size_t size)
{
	struct lines *lines = data;
	if (!buf_append(&lines->buf, bytes, size))
		return false;
	for (char *stop; (stop = memchr(lines->buf.bytes, '\n', lines->buf.size));) {
		size_t line = (size_t)(stop - lines->buf.bytes);
		print_line(lines->buf.bytes, line);
		buf_consume(&lines->buf, line + 1);
		if (lines->buf.size == 0)
			break;
	}
	return true;
}

static bool show_log(
	struct http_client *client, const char *id, bool is_followed, struct error *err)
{
	char path[128];
	struct lines lines = { .buf = buf_make(LINE_LIMIT) };
	struct http_answer answer;
	struct http_call call = { .method = "GET",
		.path = path,
		.stop_fd = -1,
		.on_bytes = on_bytes,
		.on_bytes_data = &lines };
	snprintf(path, sizeof(path), "/templates/builds/%.60s/logs%s", id,
		is_followed ? "?follow=1" : "");
	bool is_good = http_call(client, &call, &answer, err);
	if (is_good && answer.status != 200)
		is_good = http_answer_error(&answer, err);
	if (is_good)
		http_answer_deinit(&answer);
	buf_deinit(&lines.buf);
	return is_good;
}

/* ---- build ---- */

static int tell_end(struct http_client *client, const char *id, struct error *err)
{
	char path[128];
	snprintf(path, sizeof(path), "/templates/builds/%.60s", id);
	json_t *build = ask(client, "GET", path, err);
	if (!build)
		return command_fail("template", err);
	bool is_done = strcmp(text_of(build, "status"), "done") == 0;
	if (is_done)
		printf("template '%s' is served\n", text_of(build, "name"));
	else
		error_set(err, ERROR_INTERNAL, "%s", text_of(build, "error"));
	json_decref(build);
	return is_done ? EXIT_OK : command_fail("template", err);
}

int template_remote_build(int argc, char **argv)
{
	struct options options;
	struct error err = { 0 };
	struct target target;
	if (!parse(&options, argc, argv, "the NAME of the new template"))
		return EXIT_MISUSED;
	CLEANUP(http_client_free)
	struct http_client *client = open_client(&options, &target, &err);
	if (!client)
		return command_fail("template", &err);
	const struct template_upload upload = { options.word, options.dockerfile, options.context,
		options.size_mb };
	json_t *build = template_upload(&target, &upload, &err);
	if (!build)
		return command_fail("template", &err);
	char id[64];
	snprintf(id, sizeof(id), "%s", text_of(build, "id"));
	json_decref(build);
	printf("build %s\n", id);
	if (!show_log(client, id, true, &err))
		return command_fail("template", &err);
	return tell_end(client, id, &err);
}

/* ---- the others ---- */

static void print_template(const json_t *template)
{
	printf("%-20s %6.0f MB  %-8s %.10s  %s\n", text_of(template, "name"),
		(double)json_integer_value(json_object_get(template, "size_bytes")) / 1e6,
		json_is_true(json_object_get(template, "is_global")) ? "host" : "built",
		text_of(template, "created_at"), text_of(template, "description"));
}

static void print_build(const json_t *build)
{
	const char *error = text_of(build, "error");
	printf("%-18s %-20s %-9s %.19sZ%s%s\n", text_of(build, "id"), text_of(build, "name"),
		text_of(build, "status"), text_of(build, "created_at"), *error ? "  " : "", error);
}

static int list(int argc, char **argv, const char *path, void (*print)(const json_t *item))
{
	struct options options;
	struct error err = { 0 };
	struct target target;
	if (!parse(&options, argc, argv, NULL))
		return EXIT_MISUSED;
	CLEANUP(http_client_free)
	struct http_client *client = open_client(&options, &target, &err);
	json_t *items = client ? ask(client, "GET", path, &err) : NULL, *item;
	size_t i;
	if (!items)
		return command_fail("template", &err);
	if (options.is_json)
		print_json(items);
	else
		json_array_foreach(items, i, item) print(item);
	json_decref(items);
	return EXIT_OK;
}

int template_remote_list(int argc, char **argv)
{
	return list(argc, argv, "/templates", print_template);
}

int template_remote_builds(int argc, char **argv)
{
	return list(argc, argv, "/templates/builds", print_build);
}

int template_remote_logs(int argc, char **argv)
{
	struct options options;
	struct error err = { 0 };
	struct target target;
	if (!parse(&options, argc, argv, "the ID of a build"))
		return EXIT_MISUSED;
	CLEANUP(http_client_free)
	struct http_client *client = open_client(&options, &target, &err);
	if (!client || !show_log(client, options.word, true, &err))
		return command_fail("template", &err);
	return EXIT_OK;
}

int template_remote_rm(int argc, char **argv)
{
	char path[256];
	struct options options;
	struct error err = { 0 };
	struct target target;
	if (!parse(&options, argc, argv, "the NAME of a template"))
		return EXIT_MISUSED;
	CLEANUP(http_client_free)
	struct http_client *client = open_client(&options, &target, &err);
	if (strspn(options.word,
		    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
		strlen(options.word))
		return command_misused("template", "'%.60s' is no name", options.word);
	snprintf(path, sizeof(path), "/templates/%.100s", options.word);
	json_t *answer = client ? ask(client, "DELETE", path, &err) : NULL;
	if (!answer)
		return command_fail("template", &err);
	json_decref(answer);
	return EXIT_OK;
}
