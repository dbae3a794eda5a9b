/* `sandglass logs`: what cells and commands printed, as it stands or as it comes. */
#include "cli/command.h"
#include "cli/follow.h"
#include "cli/human.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_LIMIT ((size_t)64 << 20)
#define MOST_LINES 100000

struct logs {
	const char *state, *stream;
	bool is_json, is_followed;
	int64_t tail; /* -1: all */
	struct daemon daemon;
	char id[SANDBOX_ID_TEXT];
};

/* On a terminal it may set colours, and nothing else. */
static bool print_text(const char *text, size_t size)
{
	cleanup_buf struct buf clean = buf_make(2 * TEXT_LIMIT);
	if (!isatty(STDOUT_FILENO))
		return fwrite(text, 1, size, stdout) == size;
	return human_clean(&clean, text, size, HUMAN_COLOURS) &&
	       fwrite(clean.bytes ? clean.bytes : "", 1, clean.size, stdout) == clean.size;
}

static void on_line(void *data, const char *name, const char *json, size_t size)
{
	struct logs *logs = data;
	json_t *event = json_loadb(json, size, JSON_ALLOW_NUL, NULL);
	const json_t *line = json_object_get(event, "line");
	if (logs->is_json)
		printf("%s\n", json);
	else if (json_is_string(line))
		print_text(json_string_value(line), json_string_length(line));
	fflush(stdout);
	json_decref(event);
}

static void make_path(const struct logs *logs, bool with_tail, char path[DAEMON_PATH])
{
	char tail[32] = "";
	if (with_tail && logs->tail >= 0)
		snprintf(tail, sizeof(tail), "&tail=%lld", (long long)logs->tail);
	snprintf(path, DAEMON_PATH, "/sandboxes/%s/logs?stream=%s%s%s", logs->id, logs->stream,
		logs->is_followed ? "&follow=true" : "", tail);
}

static bool follow_log(struct logs *logs, struct error *err)
{
	char path[DAEMON_PATH], again[DAEMON_PATH];
	make_path(logs, true, path);
	make_path(logs, false, again);
	const struct follow what = { "logs", path, again, on_line, logs };
	return follow(&logs->daemon, &what, err);
}

static bool collect(void *data, const char *bytes, size_t size)
{
	return buf_append(data, bytes, size);
}

static bool print_log(struct logs *logs, struct error *err)
{
	cleanup_buf struct buf text = buf_make(TEXT_LIMIT);
	char path[DAEMON_PATH];
	struct http_answer answer;
	make_path(logs, true, path);
	struct http_call call = { .method = "GET",
		.path = path,
		.stop_fd = -1,
		.limit_s = DAEMON_LIMIT_S,
		.on_bytes = collect,
		.on_bytes_data = &text };
	if (!http_call(logs->daemon.client, &call, &answer, err))
		return false;
	bool is_good = answer.status == 200 || http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	if (is_good && logs->is_json)
		command_print_json(
			"logs", json_pack("{s:o}", "log",
					json_stringn(text.size ? text.bytes : "", text.size)));
	else if (is_good)
		print_text(text.bytes, text.size);
	return is_good;
}

static int perform(struct logs *logs, const char *word)
{
	struct error err = { 0 };
	bool is_good = daemon_open(&logs->daemon, logs->state, &err) &&
		       daemon_find(&logs->daemon, word, logs->id, &err) &&
		       (logs->is_followed ? follow_log(logs, &err) : print_log(logs, &err));
	daemon_close(&logs->daemon);
	return is_good ? command_end("logs") : command_fail("logs", &err);
}

int logs_command(int argc, char **argv)
{
	struct logs logs = { .stream = "both", .tail = -1 };
	const struct option_spec specs[] = { OPTION_STATE(&logs.state), OPTION_JSON(&logs.is_json),
		{ "follow", 'f', OPTION_FLAG, &logs.is_followed },
		{ "tail", 'n', OPTION_NUMBER, &logs.tail, 0, MOST_LINES },
		{ "stream", 0, OPTION_TEXT, &logs.stream } };
	int first = options_parse("logs", argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_ANY);
	if (first < 0)
		return EXIT_MISUSED;
	if (argc - first != 1)
		return command_misused("logs", "give the ID of one sandbox");
	if (strcmp(logs.stream, "both") != 0 && strcmp(logs.stream, "stdout") != 0 &&
		strcmp(logs.stream, "stderr") != 0)
		return command_misused("logs", "--stream is stdout, stderr or both");
	return perform(&logs, argv[first]);
}
