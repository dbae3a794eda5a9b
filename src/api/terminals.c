/*
 * GET /ssh and GET /exec/pty: a terminal over a WebSocket, with a login shell or the query's
 * command at it. Binary messages are what is typed and what is shown. Text messages are JSON: the
 * client's {"resize": {"rows", "cols"}}, {"type": "resize", "rows", "cols"}, {"stdin": text}; ours
 * {"exit": code}, on exec/pty with {"type": "exit", "code": code} in the same object, or {"error":
 * text, "code": word}. A slow client stops the output, a slow program the input.
 */
#include "api/answer.h"
#include "api/fields.h"
#include "api/pty.h"
#include "api/query.h"
#include "api/routes.h"
#include "http/websocket.h"

#include <string.h>

/* Who sits at a terminal. It lives until the WebSocket has ended. */
struct seat {
	struct websocket *socket; /* owned */
	struct pty *pty;          /* owned; NULL once it has ended */
	struct api *api;
	bool is_typed; /* says "type" in what it sends */
};

/* ---- to the client ---- */

static void send_text(struct seat *seat, struct writer *writer)
{
	writer_close(writer, '}');
	if (!writer->is_failed)
		websocket_send(seat->socket, true, writer->buf.bytes, writer->buf.size);
}

static void send_error(struct seat *seat, const struct error *err)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	if (seat->is_typed)
		writer_text(&writer, "type", "error");
	writer_text(&writer, "error", err->message);
	writer_text(&writer, "code", error_word(err->code));
	send_text(seat, &writer);
}

static void send_exit(struct seat *seat, int code)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_int(&writer, "exit", code);
	if (seat->is_typed) {
		writer_text(&writer, "type", "exit");
		writer_int(&writer, "code", code);
	}
	send_text(seat, &writer);
}

static bool on_output(struct pty *pty, const char *bytes, size_t size)
{
	struct seat *seat = pty_state(pty);
	return websocket_send(seat->socket, false, bytes, size);
}

static void on_pty_end(struct pty *pty, const struct error *problem)
{
	struct seat *seat = pty_state(pty);
	if (problem->code)
		send_error(seat, problem);
	else
		send_exit(seat, pty_exit_code(pty));
	seat->pty = NULL;
	pty_free(pty);
	websocket_close(seat->socket, problem->code ? WEBSOCKET_FAILED : WEBSOCKET_NORMAL, "");
}

static void on_room(struct pty *pty)
{
	struct seat *seat = pty_state(pty);
	websocket_resume(seat->socket);
}

static const struct pty_owner pty_owner = {
	.on_output = on_output, .on_room = on_room, .on_end = on_pty_end
};

/* ---- from the client ---- */

static void type(struct seat *seat, const char *bytes, size_t size)
{
	if (seat->pty && !pty_write(seat->pty, bytes, size))
		websocket_pause(seat->socket);
}

static bool read_size(json_t *object, int64_t *rows, int64_t *columns, struct error *err)
{
	*rows = *columns = -1;
	if (!fields_int(object, "rows", 0, PTY_SIZE_LIMIT, rows, err) ||
		!fields_int(object, "cols", 0, PTY_SIZE_LIMIT, columns, err))
		return false;
	return (*rows >= 0 && *columns >= 0) ||
	       error_set(err, ERROR_INVALID, "'rows' and 'cols' are needed");
}

static bool resize(struct seat *seat, json_t *object, struct error *err)
{
	int64_t rows, columns;
	if (!read_size(object, &rows, &columns, err))
		return false;
	if (seat->pty && rows && columns)
		pty_resize(seat->pty, (uint16_t)rows, (uint16_t)columns);
	return true;
}

static bool resize_within(struct seat *seat, json_t *size, struct error *err)
{
	static const char *const known[] = { "rows", "cols", NULL };
	if (!json_is_object(size))
		return error_set(err, ERROR_INVALID, "'resize' must be an object");
	return fields_check(size, known, "resize", err) && resize(seat, size, err);
}

static bool obey(struct seat *seat, const char *text, size_t size, struct error *err)
{
	static const char *const known[] = { "resize", "stdin", "type", "rows", "cols", NULL };
	cleanup_json json_t *order = fields_parse_message(text, size, err);
	const char *type_word = NULL, *typed = NULL;
	size_t typed_size = 0;
	if (!order || !fields_check(order, known, NULL, err) ||
		!fields_text(order, "type", &type_word, NULL, err) ||
		!fields_text(order, "stdin", &typed, &typed_size, err))
		return false;
	json_t *within = json_object_get(order, "resize");
	if (within)
		return resize_within(seat, within, err);
	if (typed)
		return type(seat, typed, typed_size), true;
	if (type_word && strcmp(type_word, "resize") == 0)
		return resize(seat, order, err);
	return error_set(err, ERROR_INVALID, "a text message must hold 'resize' or 'stdin'");
}

static void on_message(struct websocket *socket, bool is_text, const char *bytes, size_t size)
{
	struct seat *seat = websocket_state(socket);
	struct error err = { 0 };
	if (!is_text)
		type(seat, bytes, size);
	else if (!obey(seat, bytes, size, &err))
		send_error(seat, &err);
}

static void on_drain(struct websocket *socket)
{
	struct seat *seat = websocket_state(socket);
	if (seat->pty)
		pty_resume(seat->pty);
}

static void on_end(struct websocket *socket)
{
	struct seat *seat = websocket_state(socket);
	pty_free(seat->pty);
	websocket_free(socket);
	api_return_descriptors(seat->api, 1);
	free(seat);
}

static const struct websocket_owner socket_owner = {
	.on_message = on_message, .on_drain = on_drain, .on_end = on_end
};

/* ---- the beginning ---- */

/* 0 is what a client says that does not know. */
static uint16_t size_or(uint64_t asked, uint16_t otherwise)
{
	return asked > 0 ? (uint16_t)asked : otherwise;
}

/* What is to run in place of a login shell; NULL without. */
static bool read_command(const struct call *call, const char **ret_command, struct error *err)
{
	size_t size = 0;
	*ret_command = http_request_query(call->request, "cmd", &size);
	if (!*ret_command || (size > 0 && size <= PTY_COMMAND && strlen(*ret_command) == size))
		return true;
	return error_set(err, ERROR_INVALID, "'cmd' must be a text of 1 to %zu bytes without NUL",
		PTY_COMMAND);
}

static bool begin(struct call *call, struct seat *seat, struct error *err)
{
	uint64_t rows = 0, columns = 0;
	const char *command;
	if (!query_number(call, "rows", PTY_SIZE_LIMIT, &rows, err) ||
		!query_number(call, "cols", PTY_SIZE_LIMIT, &columns, err) ||
		!read_command(call, &command, err))
		return false;
	seat->pty = pty_start(call->sandbox, size_or(rows, 24), size_or(columns, 80), command,
		&pty_owner, seat, err);
	if (!seat->pty)
		return false;
	seat->socket = websocket_accept(call->request, &socket_owner, seat);
	return seat->socket || (error_no_memory(err), false);
}

static bool start(struct call *call, bool is_typed, struct error *err)
{
	if (!websocket_check(call->request, err) || !api_take_descriptors(call->api, 1, err))
		return false;
	struct seat *seat = calloc(1, sizeof(*seat));
	if (seat) {
		*seat = (struct seat){ .api = call->api, .is_typed = is_typed };
		if (begin(call, seat, err)) {
			call->is_answered = true;
			return true;
		}
		pty_free(seat->pty);
		free(seat);
	} else {
		error_no_memory(err);
	}
	api_return_descriptors(call->api, 1);
	return false;
}

void terminals_ssh(struct call *call)
{
	struct error err = { 0 };
	if (!start(call, false, &err))
		answer_error(call, &err);
}

void terminals_pty(struct call *call)
{
	struct error err = { 0 };
	if (!start(call, true, &err))
		answer_error(call, &err);
}
