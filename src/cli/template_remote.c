/*
 * `sandglass template` against a daemon: build from a Dockerfile and show the log, list, remove. It
 * needs the operator's key, the one in the state folder.
 */
#include "cli/template_remote.h"

#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/events.h"
#include "cli/options.h"
#include "cli/template_upload.h"

#include <stdio.h>
#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

struct remote {
	const char *state, *dockerfile, *context, *size_mb;
	const char *word; /* what is no option; NULL: there is none */
	bool is_json;
	struct daemon daemon;
};

/* Reads the options and opens the daemon. `wanted` is what must be given besides; NULL: nothing.
 * What is not EXIT_OK is the command's status, and its reason has been said. */
static int begin(struct remote *remote, int argc, char **argv, const char *wanted)
{
	struct error err = { 0 };
	const struct option_spec specs[] = { OPTION_STATE(&remote->state),
		OPTION_JSON(&remote->is_json),
		{ "dockerfile", 0, OPTION_TEXT, &remote->dockerfile },
		{ "context", 0, OPTION_TEXT, &remote->context },
		{ "size-mb", 0, OPTION_TEXT, &remote->size_mb } };
	int first = options_parse("template", argc, argv, specs, ARRAY_SIZE(specs), wanted != NULL);
	if (first < 0)
		return EXIT_MISUSED;
	remote->word = argv[first];
	if (wanted && !remote->word)
		return command_misused("template", "%s needs %s", argv[0], wanted);
	return daemon_open(&remote->daemon, remote->state, &err) ? EXIT_OK
								 : command_fail("template", &err);
}

/* The last of a command. */
static int end(struct remote *remote, bool is_good, const struct error *err)
{
	daemon_close(&remote->daemon);
	return is_good ? command_end("template") : command_fail("template", err);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

/* ---- the log ---- */

static void on_line(void *data, const char *name, const char *line, size_t size)
{
	if (strcmp(name, "message") != 0)
		return;
	fwrite(line, 1, size, stdout);
	putchar('\n');
	fflush(stdout);
}

/* Until the build has ended. */
static bool show_log(struct daemon *daemon, const char *id, struct error *err)
{
	char path[DAEMON_PATH];
	struct events events;
	struct http_answer answer;
	struct http_call call = { .method = "GET",
		.path = path,
		.stop_fd = -1,
		.on_bytes = events_take,
		.on_bytes_data = &events };
	snprintf(path, sizeof(path), "/templates/builds/%.60s/logs?follow=1", id);
	events_init(&events, on_line, NULL);
	bool is_good = http_call(daemon->client, &call, &answer, err) &&
		       (answer.status == 200 || http_answer_error(&answer, err));
	http_answer_deinit(&answer);
	events_deinit(&events);
	return is_good;
}

/* ---- build ---- */

static bool tell_end(struct daemon *daemon, const char *id, struct error *err)
{
	char path[DAEMON_PATH];
	json_t *build = NULL;
	snprintf(path, sizeof(path), "/templates/builds/%.60s", id);
	if (!daemon_get(daemon, path, &build, err))
		return false;
	bool is_done = strcmp(text_of(build, "status"), "done") == 0;
	if (is_done)
		printf("template '%s' is served\n", text_of(build, "name"));
	else
		error_set(err, ERROR_INTERNAL, "%s", text_of(build, "error"));
	json_decref(build);
	return is_done;
}

int template_remote_build(int argc, char **argv)
{
	struct remote remote = { 0 };
	struct error err = { 0 };
	int status = begin(&remote, argc, argv, "the NAME of the new template");
	if (status != EXIT_OK)
		return status;
	const struct template_upload upload = { remote.word, remote.dockerfile, remote.context,
		remote.size_mb };
	json_t *build = template_upload(&remote.daemon, &upload, &err);
	char id[64];
	snprintf(id, sizeof(id), "%s", text_of(build, "id"));
	if (build)
		printf("build %s\n", id);
	bool is_good =
		build && show_log(&remote.daemon, id, &err) && tell_end(&remote.daemon, id, &err);
	json_decref(build);
	return end(&remote, is_good, &err);
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
	struct remote remote = { 0 };
	struct error err = { 0 };
	json_t *items = NULL, *item;
	size_t i;
	int status = begin(&remote, argc, argv, NULL);
	if (status != EXIT_OK)
		return status;
	bool is_good = daemon_get(&remote.daemon, path, &items, &err);
	if (is_good && remote.is_json)
		command_print_json("template", json_incref(items));
	else
		json_array_foreach(items, i, item) print(item);
	json_decref(items);
	return end(&remote, is_good, &err);
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
	struct remote remote = { 0 };
	struct error err = { 0 };
	int status = begin(&remote, argc, argv, "the ID of a build");
	if (status != EXIT_OK)
		return status;
	bool is_good = show_log(&remote.daemon, remote.word, &err);
	return end(&remote, is_good, &err);
}

int template_remote_rm(int argc, char **argv)
{
	struct remote remote = { 0 };
	struct error err = { 0 };
	char path[DAEMON_PATH];
	int status = begin(&remote, argc, argv, "the NAME of a template");
	if (status != EXIT_OK)
		return status;
	bool is_name = remote.word[strspn(remote.word, NAME_LETTERS)] == '\0' ||
		       error_set(&err, ERROR_INVALID, "'%.60s' is no name", remote.word);
	snprintf(path, sizeof(path), "/templates/%.100s", remote.word);
	bool is_good = is_name && daemon_call(&remote.daemon, "DELETE", path, NULL, NULL, &err);
	return end(&remote, is_good, &err);
}
