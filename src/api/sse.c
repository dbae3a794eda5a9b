/* See sse.h. */
#include "api/sse.h"

#include <inttypes.h>

struct writer sse_writer(void)
{
	struct writer writer = writer_make();
	writer.is_ascii = true;
	return writer;
}

void sse_begin(struct writer *writer, const char *event, uint64_t id)
{
	bool is_put = true;
	if (id != SSE_NO_ID)
		is_put = buf_printf(&writer->buf, "id: %" PRIu64 "\n", id);
	if (!is_put || !buf_printf(&writer->buf, "event: %s\ndata: ", event))
		writer->is_failed = true;
	writer->needs_comma = false;
}

static void end(struct writer *writer)
{
	if (!buf_append_text(&writer->buf, SSE_END))
		writer->is_failed = true;
}

void sse_open(struct writer *writer, const char *event, uint64_t id)
{
	sse_begin(writer, event, id);
	writer_open(writer, NULL, '{');
}

void sse_close(struct writer *writer)
{
	writer_close(writer, '}');
	end(writer);
}

void sse_json(struct writer *writer, const char *event, uint64_t id, const char *json, size_t size)
{
	sse_begin(writer, event, id);
	writer_raw_bytes(writer, NULL, json, size);
	end(writer);
}

void sse_start(struct call *call)
{
	http_reply_header(call->request, "Cache-Control", "no-store");
	http_stream_start(call->request, 200, "text/event-stream; charset=utf-8", -1);
}

void sse_beat(struct call *call)
{
	static const char beat[] = ": still here\n\n";
	if (http_stream_pending(call->request) == 0)
		http_stream_write(call->request, beat, sizeof(beat) - 1);
}
