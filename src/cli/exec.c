/*
 * `sandglass exec`: a command in a sandbox, its two streams apart as they come, its exit code as
 * ours. Hanging up ends the command with all it started, so a signal needs no more than to end this
 * process. What is piped in (-i) goes along as the command reads it (exec_input.h); where the answer
 * is one document (--json) it is sent ahead as a file, which the command has open under no name.
 */
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/events.h"
#include "cli/exec_input.h"
#include "cli/options.h"
#include "cli/shell_text.h"
#include "cli/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_S 86400
#define SILENCE_S 60L                /* the daemon says something every 10 s */
#define TEXT_LIMIT ((size_t)1 << 20) /* the API's */
#define INPUT_PATH "/tmp/.input-%s"

struct exec {
	const char *state, *folder;
	bool has_input, has_terminal, is_json;
	int64_t timeout_s; /* 0: not given */
	struct daemon daemon;
	char id[SANDBOX_ID_TEXT];
	struct buf text; /* owned: for the shell inside */
	/* What became of it. */
	bool has_ended;
	int status;
};

/* ---- input ---- */

static size_t read_input(void *data, char *bytes, size_t size)
{
	ssize_t n = TEMP_FAILURE_RETRY(read(STDIN_FILENO, bytes, size));
	return n < 0 ? HTTP_NO_BYTES : (size_t)n;
}

/* Sends what is piped in; the text then begins by taking it. */
static bool send_input(struct exec *exec, struct error *err)
{
	char name[64], random[SHORT_ID_TEXT], path[DAEMON_PATH];
	uint8_t bytes[SHORT_ID_SIZE];
	id_random(bytes, sizeof(bytes));
	id_to_text(bytes, sizeof(bytes), random);
	snprintf(name, sizeof(name), INPUT_PATH, random);
	snprintf(path, sizeof(path), "/sandboxes/%s/fs?path=%s", exec->id, name);
	struct http_answer answer;
	struct http_call call = {
		.method = "PUT", .path = path, .stop_fd = -1, .on_read = read_input, .read_size = -1
	};
	if (!http_call(exec->daemon.client, &call, &answer, err))
		return error_context(err, "standard input was not sent");
	bool is_sent = answer.status == 200 || http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	return is_sent && (buf_printf(&exec->text, "exec <%s && rm -f %s && ", name, name) ||
				  (error_no_memory(err), false));
}

/* ---- what comes ---- */

static void print_chunk(FILE *stream, const json_t *event)
{
	const json_t *chunk = json_object_get(event, "chunk");
	if (json_is_string(chunk))
		fwrite(json_string_value(chunk), 1, json_string_length(chunk), stream);
	fflush(stream);
}

static void take_error(struct exec *exec, const json_t *event)
{
	const char *text = json_string_value(json_object_get(event, "error"));
	const char *code = json_string_value(json_object_get(event, "code"));
	bool is_timeout = code && strcmp(code, "command.timeout") == 0;
	exec->status = is_timeout ? EXIT_TIMED_OUT : EXIT_NOT_RUN;
	fprintf(stderr, "sandglass exec: %s\n", text ? text : "the command failed");
}

static void on_event(void *data, const char *name, const char *json, size_t size)
{
	struct exec *exec = data;
	json_t *event = json_loadb(json, size, JSON_ALLOW_NUL, NULL);
	bool is_exit = strcmp(name, "exit") == 0, is_error = strcmp(name, "error") == 0;
	if (strcmp(name, "stdout") == 0)
		print_chunk(stdout, event);
	else if (strcmp(name, "stderr") == 0)
		print_chunk(stderr, event);
	else if (is_error)
		take_error(exec, event);
	else if (is_exit)
		exec->status =
			(int)(json_integer_value(json_object_get(event, "exit_code")) & 0xff);
	exec->has_ended = exec->has_ended || is_exit || is_error;
	json_decref(event);
}

/* ---- the command ---- */

static json_t *make_body(struct exec *exec, struct error *err)
{
	json_t *text = json_stringn(exec->text.bytes, exec->text.size);
	if (text)
		return json_pack("{s:o, s:I}", "cmd", text, "timeout_seconds",
			(json_int_t)(exec->timeout_s ? exec->timeout_s : LONGEST_S));
	error_set(err, ERROR_INVALID, "the command is not UTF-8 text");
	return NULL;
}

static bool check_end(const struct exec *exec, const struct http_answer *answer, struct error *err)
{
	if (answer->status != 200)
		return http_answer_error(answer, err);
	return exec->has_ended ||
	       error_set(err, ERROR_INTERNAL, "the daemon ended the stream before the command did");
}

static bool stream(struct exec *exec, json_t *body, struct error *err)
{
	struct events events;
	struct http_answer answer;
	char path[DAEMON_PATH];
	daemon_path(path, exec->id, "/exec/stream");
	events_init(&events, on_event, exec);
	struct http_call call = { .method = "POST",
		.path = path,
		.body = body,
		.stop_fd = -1,
		.on_bytes = events_take,
		.on_bytes_data = &events,
		.silence_s = SILENCE_S };
	bool is_good = http_call(exec->daemon.client, &call, &answer, err) &&
		       check_end(exec, &answer, err);
	http_answer_deinit(&answer);
	events_deinit(&events);
	return is_good;
}

/* One document; at its limit the answer has all of it, too. */
static bool print_whole(struct exec *exec, json_t *body, struct error *err)
{
	struct http_answer answer;
	char path[DAEMON_PATH];
	daemon_path(path, exec->id, "/exec");
	struct http_call call = { .method = "POST", .path = path, .body = body, .stop_fd = -1 };
	if (!http_call(exec->daemon.client, &call, &answer, err))
		return false;
	const json_t *code = json_object_get(answer.json, "exit_code");
	bool is_good = json_is_integer(code) || http_answer_error(&answer, err);
	exec->status = (int)(json_integer_value(code) & 0xff);
	if (is_good)
		command_print_json("exec", json_incref(answer.json));
	http_answer_deinit(&answer);
	return is_good;
}

static bool write_text(struct exec *exec, int count, char **words, struct error *err)
{
	struct buf *text = &exec->text;
	bool is_good = !exec->folder ||
		       (buf_append_text(text, "cd ") && shell_text_word(text, exec->folder) &&
			       buf_append_text(text, " && "));
	return (is_good && shell_text_exec(text, count, words) && buf_text(text)) ||
	       error_set(err, ERROR_INVALID, "the command is longer than 1 MiB");
}

/* At its limit it has a status, too. */
static bool feed(struct exec *exec, struct error *err)
{
	bool is_late = false;
	if (exec_with_input(&exec->daemon, exec->id, exec->text.bytes, exec->text.size,
		    exec->timeout_s ? exec->timeout_s : LONGEST_S, &exec->status, &is_late, err))
		return true;
	if (!is_late)
		return false;
	exec->status = EXIT_TIMED_OUT;
	fprintf(stderr, "sandglass exec: %s\n", err->message);
	return true;
}

static bool run_plain(struct exec *exec, int count, char **words, struct error *err)
{
	bool is_ahead = exec->has_input && exec->is_json;
	if ((is_ahead && !send_input(exec, err)) || !write_text(exec, count, words, err))
		return false;
	if (exec->has_input && !is_ahead)
		return feed(exec, err);
	json_t *body = make_body(exec, err);
	bool is_good =
		body && (exec->is_json ? print_whole(exec, body, err) : stream(exec, body, err));
	json_decref(body);
	if (is_good && exec->status == 127 && count == 1 && strchr(words[0], ' '))
		fprintf(stderr, "  -> for a line of shell: sandglass exec ID sh -c '...'\n");
	return is_good;
}

static bool run_at_terminal(struct exec *exec, int count, char **words, struct error *err)
{
	if (!write_text(exec, count, words, err))
		return false;
	return terminal_run(&exec->daemon, exec->id, exec->text.bytes, &exec->status, err);
}

static int perform(struct exec *exec, const char *word, int count, char **words)
{
	struct error err = { 0 };
	exec->text = buf_make(TEXT_LIMIT);
	bool is_good = daemon_open(&exec->daemon, exec->state, &err) &&
		       daemon_find(&exec->daemon, word, exec->id, &err);
	if (is_good && exec->has_terminal)
		is_good = daemon_hold_signals(&exec->daemon, true, &err) &&
			  run_at_terminal(exec, count, words, &err);
	else if (is_good)
		is_good = run_plain(exec, count, words, &err);
	daemon_close(&exec->daemon);
	buf_deinit(&exec->text);
	if (is_good)
		return command_end("exec") == EXIT_OK ? exec->status : EXIT_NOT_RUN;
	command_fail("exec", &err);
	return EXIT_NOT_RUN;
}

int exec_command(int argc, char **argv)
{
	struct exec exec = { .timeout_s = 0 };
	const struct option_spec specs[] = { OPTION_STATE(&exec.state), OPTION_JSON(&exec.is_json),
		{ "interactive", 'i', OPTION_FLAG, &exec.has_input },
		{ "tty", 't', OPTION_FLAG, &exec.has_terminal },
		{ "workdir", 'w', OPTION_TEXT, &exec.folder },
		{ "timeout", 0, OPTION_NUMBER, &exec.timeout_s, 1, LONGEST_S } };
	int first = options_parse("exec", argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_STOP);
	if (first < 0)
		return EXIT_MISUSED;
	int count = argc - first - 1;
	char **words = argv + first + 1;
	if (count > 0 && strcmp(words[0], "--") == 0) {
		words++;
		count--;
	}
	if (count < 1)
		return command_misused("exec", "give the ID of a sandbox and a command");
	if (exec.has_terminal && exec.is_json)
		return command_misused("exec", "a terminal's output is no JSON: give -t or --json");
	if (exec.has_terminal && exec.timeout_s)
		return command_misused(
			"exec", "a terminal has no time limit: give -t or --timeout");
	return perform(&exec, argv[first], count, words);
}
