/* See answer.h. */
#include "api/answer.h"

#include <stdio.h>

#define SLICE ((size_t)64 * 1024)
#define CLIENT_GONE 499 /* no status of the standard says so */

static void send_rest(struct http_request *request)
{
	struct call *call = http_request_data(request);
	while (call->rest_sent < call->rest.size) {
		size_t size = MIN(SLICE, call->rest.size - call->rest_sent);
		if (!http_stream_write(request, call->rest.bytes + call->rest_sent, size))
			return;
		call->rest_sent += size;
	}
	http_stream_end(request);
}

/* A body behind padding may be larger than a stream holds, so it goes out in slices. */
static void answer_rest(struct call *call, struct buf *body)
{
	call->rest = *body;
	*body = buf_make(body->limit);
	http_stream_on_drain(call->request, send_rest);
	send_rest(call->request);
}

static const char too_many[] = "too many large answers are being sent; ask again";

/* In place of what cannot be sent; returns its status. */
static unsigned replace(struct writer *writer, enum error_code code, const char *text)
{
	buf_deinit(&writer->buf);
	writer->is_failed = !buf_printf(
		&writer->buf, "{\"error\":\"%s\",\"code\":\"%s\"}", text, error_word(code));
	return error_status(code);
}

void answer_json(struct call *call, unsigned status, struct writer *writer)
{
	call->is_answered = true;
	if (writer->is_failed)
		status = replace(writer, ERROR_NO_MEMORY, "the answer does not fit into memory");
	else if (!http_hold(call->request, writer->buf.size))
		status = replace(writer, ERROR_HOST_BUSY, too_many);
	if (call->is_padded)
		return answer_rest(call, &writer->buf);
	http_reply(call->request, status, "application/json", writer->buf.bytes, writer->buf.size);
}

void answer_text(struct call *call, unsigned status, const char *type, const struct buf *text)
{
	struct error err;
	if (!http_hold(call->request, text->size)) {
		error_set(&err, ERROR_HOST_BUSY, "%s", too_many);
		return answer_error(call, &err);
	}
	call->is_answered = true;
	http_reply(call->request, status, type, text->bytes, text->size);
}

void answer_empty(struct call *call, unsigned status)
{
	call->is_answered = true;
	http_reply(call->request, status, NULL, NULL, 0);
}

void answer_gone(struct call *call)
{
	if (!call->is_padded)
		return answer_empty(call, CLIENT_GONE);
	call->is_answered = true;
	http_stream_end(call->request);
}

void answer_write_error(const struct call *call, const struct error *err, struct writer *writer)
{
	writer_text(writer, "error", err->message);
	writer_text(writer, "code", error_word(err->code));
	if (err->hint[0])
		writer_text(writer, "hint", err->hint);
	writer_text(writer, "request_id", http_request_id(call->request));
}

unsigned answer_status(const struct call *call, const struct error *err)
{
	return call->is_padded ? 200 : error_status(err->code);
}

/* Nothing was done, and there may be room soon. Clients repeat a create by themselves then. */
static bool can_be_repeated(unsigned status, enum error_code code)
{
	return status == 503 || status == 429 || code == ERROR_HOST_MEMORY;
}

static void tell_when(struct call *call)
{
	char text[16];
	snprintf(text, sizeof(text), "%u", call->retry_after_s ? call->retry_after_s : 1);
	http_reply_header(call->request, "Retry-After", text);
}

void answer_error(struct call *call, const struct error *err)
{
	call->api->stats.errors[err->code]++;
	cleanup_writer struct writer writer = writer_make();
	unsigned status = answer_status(call, err);
	writer_open(&writer, NULL, '{');
	answer_write_error(call, err, &writer);
	writer_close(&writer, '}');
	if (err->code == ERROR_UPGRADE)
		http_reply_header(call->request, "Sec-WebSocket-Version", "13");
	if (status == 401)
		http_reply_header(call->request, "WWW-Authenticate", "Bearer");
	if (can_be_repeated(status, err->code) && !call->is_padded)
		tell_when(call);
	answer_json(call, status, &writer);
}

void answer_pad(struct call *call)
{
	if (!call->is_padded)
		http_stream_start(call->request, 200, "application/json", -1);
	call->is_padded = true;
	http_stream_write(call->request, " ", 1);
}
