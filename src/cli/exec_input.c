/*
 * See exec_input.h. Over a WebSocket: our input goes in pieces, of which at most WINDOW bytes are on
 * the way that the command has not read; beyond that ours is not read either, so who pipes into us
 * waits for the command. Hanging up ends the command with all it started.
 */
#include "cli/exec_input.h"

#include "cli/websocket.h"

#include "base/fd.h"

#include <errno.h>
#include <jansson.h>
#include <nettle/base64.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define PIECE ((size_t)24 << 10)
#define WINDOW ((int64_t)96 << 10) /* the daemon's is 128 KiB */
#define SILENCE_MS 60000           /* the daemon pings every 20 s */
#define TICK_MS 5000

struct feeding {
	struct websocket *socket; /* owned */
	int64_t under_way;        /* bytes that the command has not read */
	bool has_ended, is_input_over, is_late, is_output_gone;
	int status;
	struct error problem; /* what the daemon said */
};

/* ---- from the daemon ---- */

static void print_output(struct feeding *feeding, const json_t *message)
{
	const json_t *data = json_object_get(message, "data");
	const char *stream = json_string_value(json_object_get(message, "stream"));
	int fd = stream && strcmp(stream, "stderr") == 0 ? STDERR_FILENO : STDOUT_FILENO;
	if (json_is_string(data) &&
		!fd_write_all(fd, json_string_value(data), json_string_length(data)))
		feeding->is_output_gone = true;
}

static void take_problem(struct feeding *feeding, const json_t *message, const char *text)
{
	const char *code = json_string_value(json_object_get(message, "code"));
	feeding->is_late = code && strcmp(code, "command.timeout") == 0;
	error_set(&feeding->problem, ERROR_INTERNAL, "%s", text);
}

static void on_message(void *data, bool is_text, const char *bytes, size_t size)
{
	struct feeding *feeding = data;
	json_t *message = json_loadb(bytes, size, JSON_ALLOW_NUL, NULL);
	const char *error = json_string_value(json_object_get(message, "error"));
	const json_t *code = json_object_get(message, "exit");
	feeding->under_way -= json_integer_value(json_object_get(message, "stdin_taken"));
	if (json_is_integer(code)) {
		feeding->has_ended = true;
		feeding->status = (int)(json_integer_value(code) & 0xff);
	} else if (error) {
		take_problem(feeding, message, error);
	} else {
		print_output(feeding, message);
	}
	json_decref(message);
}

/* ---- from here ---- */

static void send_json(struct feeding *feeding, json_t *message)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	if (text)
		websocket_send(feeding->socket, true, text, strlen(text));
	else
		error_no_memory(&feeding->problem);
	free(text);
	json_decref(message);
}

static void send_piece(struct feeding *feeding, const uint8_t *bytes, size_t size)
{
	char encoded[BASE64_ENCODE_RAW_LENGTH(PIECE) + 1];
	base64_encode_raw(encoded, size, bytes);
	encoded[BASE64_ENCODE_RAW_LENGTH(size)] = '\0';
	feeding->under_way += (int64_t)size;
	send_json(feeding, json_pack("{s:i, s:s}", "id", 1, "stdin_base64", encoded));
}

static void on_input(struct feeding *feeding)
{
	uint8_t bytes[PIECE];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		return send_piece(feeding, bytes, (size_t)n);
	feeding->is_input_over = true;
	if (n < 0)
		error_from_os(&feeding->problem, errno, "cannot read standard input");
	else
		send_json(feeding, json_pack("{s:i, s:b}", "id", 1, "stdin_end", 1));
}

/* False when it is over. */
static bool turn(struct feeding *feeding)
{
	bool wants_input = !feeding->is_input_over && websocket_has_room(feeding->socket) &&
			   feeding->under_way + (int64_t)PIECE <= WINDOW;
	struct pollfd waits[] = {
		{ .fd = websocket_fd(feeding->socket),
			.events = websocket_events(feeding->socket) },
		{ .fd = wants_input ? STDIN_FILENO : -1, .events = POLLIN },
	};
	if (poll(waits, ARRAY_SIZE(waits), TICK_MS) < 0 && errno != EINTR)
		return false;
	if (waits[1].revents)
		on_input(feeding);
	bool is_open = websocket_turn(feeding->socket) &&
		       websocket_silence_ms(feeding->socket) < SILENCE_MS;
	return is_open && !feeding->has_ended && !feeding->is_output_gone && !feeding->problem.code;
}

static bool tell(const struct feeding *feeding, struct error *err)
{
	if (feeding->has_ended)
		return true;
	if (feeding->is_output_gone)
		return error_set(err, ERROR_INTERNAL, "nobody reads the output any more");
	if (!feeding->problem.code)
		return error_set(err, ERROR_INTERNAL, "the connection to the sandbox broke");
	*err = feeding->problem;
	return false;
}

bool exec_with_input(struct daemon *daemon, const char *id, const char *text, size_t size,
	int64_t timeout_s, int *ret_status, bool *ret_is_late, struct error *err)
{
	char path[DAEMON_PATH];
	struct feeding feeding = { 0 };
	json_t *order = json_pack("{s:i, s:o*, s:I, s:b}", "id", 1, "cmd", json_stringn(text, size),
		"timeout_seconds", (json_int_t)timeout_s, "stdin", 1);
	if (!json_object_get(order, "cmd")) {
		json_decref(order);
		return error_set(err, ERROR_INVALID, "the command is not UTF-8 text");
	}
	daemon_path(path, id, "/exec/ws");
	feeding.socket = websocket_connect(&daemon->target, path, on_message, &feeding, err);
	if (!feeding.socket) {
		json_decref(order);
		return false;
	}
	send_json(&feeding, order);
	while (turn(&feeding))
		;
	websocket_free(feeding.socket);
	*ret_status = feeding.status;
	*ret_is_late = feeding.is_late;
	return tell(&feeding, err);
}
