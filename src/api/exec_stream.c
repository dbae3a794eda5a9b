/*
 * POST /exec/stream: a command whose output is sent as server-sent events while it comes. Each
 * event is one line of ASCII JSON, cut between characters. A client that reads slowly stops the
 * reading of the pipes, and so in the end the command; nothing is dropped.
 */
#include "api/answer.h"
#include "api/command.h"
#include "api/fields.h"
#include "api/routes.h"
#include "api/sse.h"

#include <string.h>

#define DEFAULT_MS 900000

struct streaming {
	struct call *call;       /* not owned */
	struct command *command; /* owned; NULL once it has ended */
	struct utf8 states[2];
	struct buf held; /* owned: an event for which there was no room */
	struct loop_timer beat;
};

static void streaming_free(struct streaming *streaming)
{
	if (streaming->command)
		command_free(streaming->command);
	loop_timer_stop(&streaming->beat);
	buf_deinit(&streaming->held);
	free(streaming);
}

/* ---- events ---- */

static struct writer begin_event(const char *name)
{
	struct writer writer = sse_writer();
	sse_open(&writer, name, SSE_NO_ID);
	return writer;
}

/* Sends it, or keeps it for when there is room; false in the second case. */
static bool send_event(struct streaming *streaming, struct writer *writer)
{
	struct http_request *request = streaming->call->request;
	sse_close(writer);
	bool is_sent = !writer->is_failed && streaming->held.size == 0 &&
		       http_stream_write(request, writer->buf.bytes, writer->buf.size);
	if (!is_sent && !writer->is_failed)
		buf_append(&streaming->held, writer->buf.bytes, writer->buf.size);
	writer_deinit(writer);
	return is_sent;
}

static bool send_chunk(struct streaming *streaming, unsigned stream, const char *bytes, size_t size)
{
	struct writer writer = begin_event(command_streams[stream]);
	if (!writer_part(&writer, "chunk", &streaming->states[stream], bytes, size)) {
		writer_deinit(&writer);
		return true;
	}
	return send_event(streaming, &writer);
}

/* A character that never came to its end. */
static void send_broken_ends(struct streaming *streaming)
{
	for (unsigned stream = 0; stream < 2; stream++) {
		if (streaming->states[stream].left == 0)
			continue;
		struct writer writer = begin_event(command_streams[stream]);
		writer_string_begin(&writer, "chunk");
		writer_string_end(&writer, &streaming->states[stream]);
		send_event(streaming, &writer);
	}
}

/* ---- the command ---- */

static bool on_output(struct command *command, unsigned stream, const char *bytes, size_t size)
{
	return send_chunk(command->state, stream, bytes, size);
}

static void say_memory(struct streaming *streaming)
{
	char text[COMMAND_LIMITS_TEXT + 2];
	if (streaming->command->limits.hit_memory)
		send_chunk(streaming, 1, text,
			command_limits_say_memory(streaming->command, text, sizeof(text)));
}

static void send_end(struct streaming *streaming, const struct error *problem)
{
	struct writer writer = begin_event(problem->code ? "error" : "exit");
	if (problem->code) {
		writer_text(&writer, "error", problem->message);
		writer_text(&writer, "code", error_word(problem->code));
	} else {
		writer_int(&writer, "exit_code", command_exit_code(streaming->command));
		command_limits_write(&streaming->command->limits, &writer);
	}
	send_event(streaming, &writer);
}

static void finish(struct streaming *streaming)
{
	struct call *call = streaming->call;
	call->on_gone = NULL;
	call->is_answered = true;
	http_stream_end(call->request);
	streaming_free(streaming);
}

/* Where there is no room for the last event, the stream ends when it has gone out. */
static void on_end(struct command *command, enum command_end end)
{
	struct streaming *streaming = command->state;
	struct error problem;
	command_problem(command, end, &problem);
	send_broken_ends(streaming);
	say_memory(streaming);
	send_end(streaming, &problem);
	streaming->command = NULL;
	command_free(command);
	if (streaming->held.size == 0)
		finish(streaming);
}

static const struct command_owner owner = { .on_output = on_output, .on_end = on_end };

/* ---- the client ---- */

static void on_drain(struct http_request *request)
{
	struct call *call = http_request_data(request);
	if (call->is_answered)
		return;
	struct streaming *streaming = call->state;
	if (!http_stream_write(request, streaming->held.bytes, streaming->held.size))
		return;
	streaming->held.size = 0;
	if (streaming->command)
		command_resume(streaming->command);
	else
		finish(streaming);
}

static void on_gone(struct call *call)
{
	call->is_answered = true;
	http_stream_end(call->request);
	streaming_free(call->state);
}

static void on_beat(struct loop_timer *timer)
{
	struct streaming *streaming = CONTAINER_OF(timer, struct streaming, beat);
	if (streaming->held.size == 0)
		sse_beat(streaming->call);
	loop_timer_start(&streaming->call->api->loop, timer, SSE_BEAT_MS, on_beat);
}

static bool start(struct call *call, struct error *err)
{
	uint32_t limit_ms = DEFAULT_MS;
	const char *text;
	size_t size;
	cleanup_json json_t *body = NULL;
	if (!command_read_body(call, &limit_ms, &body, &text, &size, err))
		return false;
	struct streaming *streaming = calloc(1, sizeof(*streaming));
	if (!streaming)
		return error_no_memory(err), false;
	streaming->call = call;
	streaming->held = buf_make(WRITER_LIMIT);
	streaming->command =
		command_start(call->sandbox, text, size, limit_ms, &owner, streaming, err);
	if (!streaming->command) {
		streaming_free(streaming);
		return false;
	}
	call->state = streaming;
	call->on_gone = on_gone;
	http_stream_on_drain(call->request, on_drain);
	sse_start(call);
	loop_timer_start(&call->api->loop, &streaming->beat, SSE_BEAT_MS, on_beat);
	return true;
}

void commands_stream(struct call *call)
{
	struct error err = { 0 };
	if (!start(call, &err))
		answer_error(call, &err);
}
