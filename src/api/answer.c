/* See answer.h. */
#include "api/answer.h"

#include <string.h>

#define SLICE ((size_t)64 * 1024)

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

void answer_json(struct call *call, unsigned status, struct writer *writer)
{
	static const char failed[] =
		"{\"error\":\"the answer does not fit into memory\",\"code\":\"no_memory\"}";
	call->is_answered = true;
	if (writer->is_failed) {
		buf_deinit(&writer->buf);
		writer->is_failed = !buf_append(&writer->buf, failed, sizeof(failed) - 1);
		status = error_status(ERROR_NO_MEMORY);
	}
	if (call->is_padded)
		return answer_rest(call, &writer->buf);
	http_reply(call->request, status, "application/json", writer->buf.bytes, writer->buf.size);
}

void answer_empty(struct call *call, unsigned status)
{
	call->is_answered = true;
	http_reply(call->request, status, NULL, NULL, 0);
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

void answer_error(struct call *call, const struct error *err)
{
	cleanup_writer struct writer writer = writer_make();
	unsigned status = answer_status(call, err);
	writer_open(&writer, NULL, '{');
	answer_write_error(call, err, &writer);
	writer_close(&writer, '}');
	if (err->code == ERROR_UPGRADE)
		http_reply_header(call->request, "Sec-WebSocket-Version", "13");
	if (status == 401)
		http_reply_header(call->request, "WWW-Authenticate", "Bearer");
	if ((status == 503 || status == 429) && !call->is_padded)
		http_reply_header(call->request, "Retry-After", "1");
	answer_json(call, status, &writer);
}

void answer_pad(struct call *call)
{
	if (!call->is_padded)
		http_stream_start(call->request, 200, "application/json", -1);
	call->is_padded = true;
	http_stream_write(call->request, " ", 1);
}
