/*
 * /v1/templates/build and below. Building is the operator's: what it makes is everybody's to start
 * from, and its packages are installed with rights that no sandbox has. Others see no builds.
 */
#include "api/answer.h"
#include "api/build_request.h"
#include "api/builds.h"
#include "api/follow.h"
#include "api/query.h"
#include "api/routes.h"
#include "api/sse.h"
#include "api/utf8.h"
#include "base/clock.h"
#include "base/log.h"

#include <string.h>

#define QUEUE_RETRY_S 30

static bool is_operator(const struct call *call)
{
	return config_is_operator(&call->api->config, call->owner);
}

/* ---- as JSON ---- */

static void write_time(struct writer *writer, const char *name, int64_t at_ms)
{
	char text[CLOCK_TEXT_SIZE];
	if (at_ms == 0)
		return;
	clock_text(at_ms, text);
	writer_text(writer, name, text);
}

static void write_build(struct writer *writer, const struct build *build)
{
	static const char *const words[] = { [BUILD_QUEUED] = "queued",
		[BUILD_RUNNING] = "building",
		[BUILD_DONE] = "done",
		[BUILD_FAILED] = "failed" };
	writer_open(writer, NULL, '{');
	writer_text(writer, "id", build->id);
	writer_text(writer, "name", build->name);
	writer_text(writer, "base", build->base);
	writer_text(writer, "status", words[build->state]);
	if (build->error[0])
		writer_text(writer, "error", build->error);
	write_time(writer, "created_at", build->created_ms);
	write_time(writer, "started_at", build->started_ms);
	write_time(writer, "ended_at", build->ended_ms);
	writer_int(writer, "size_mb", build->size_mb);
	if (build->bytes > 0)
		writer_int(writer, "bytes", build->bytes);
	writer_close(writer, '}');
}

/* ---- POST /v1/templates/build ---- */

static struct build *take(struct call *call, struct error *err)
{
	size_t size;
	struct form form;
	struct build_request request;
	const char *body = http_request_body(call->request, &size);
	const char *type = http_request_header(call->request, "Content-Type");
	if (!form_parse(&form, type, body, size, err))
		return NULL;
	struct build *build = NULL;
	if (build_request_read(&request, &call->api->config, &form, err)) {
		build = builds_add(call->api, &request, err);
		build_request_deinit(&request);
	}
	form_deinit(&form);
	return build;
}

static void on_form(struct call *call)
{
	struct error err = { 0 };
	struct build *build = take(call, &err);
	if (!build) {
		call->retry_after_s = err.code == ERROR_BUILD_LIMIT ? QUEUE_RETRY_S : 0;
		return answer_error(call, &err);
	}
	log_write(
		LOG_INFO, "build.asked", NULL, "build %s of template '%s'", build->id, build->name);
	cleanup_writer struct writer writer = writer_make();
	write_build(&writer, build);
	answer_json(call, 202, &writer);
}

void templates_build(struct call *call)
{
	struct error err = { 0 };
	if (is_operator(call)) {
		call->on_body_end = on_form;
		return;
	}
	error_set(&err, ERROR_OPERATOR_ONLY, "templates are built by the daemon's operator");
	answer_error(call, &err);
}

/* ---- GET /v1/templates/builds... ---- */

void builds_list(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '[');
	const struct list *all = &call->api->builds.all;
	const struct list *link = is_operator(call) ? all->previous : all;
	for (; link != all; link = link->previous) /* the newest first */
		write_build(&writer, CONTAINER_OF(link, struct build, link));
	writer_close(&writer, ']');
	answer_json(call, 200, &writer);
}

/* That of the path; NULL and err (404). */
static struct build *find(const struct call *call, struct error *err)
{
	const char *id = http_request_segment(call->request, 3);
	struct build *build = is_operator(call) ? builds_find(&call->api->builds, id) : NULL;
	if (!build) {
		error_set(err, ERROR_BUILD_NOT_FOUND, "no build of that id");
		error_hint(err,
			"the last builds: 'sandglass template builds' or GET /v1/templates/builds");
	}
	return build;
}

void builds_get(struct call *call)
{
	struct error err = { 0 };
	struct build *build = find(call, &err);
	if (!build)
		return answer_error(call, &err);
	cleanup_writer struct writer writer = writer_make();
	write_build(&writer, build);
	answer_json(call, 200, &writer);
}

/* ---- the log ---- */

/* The clients split lines at characters that only look like line ends, and take "end" for the end:
 * what is not printable is a blank, and such a line gets one more. */
static bool append_plain(struct buf *buf, const char *bytes, size_t size)
{
	struct utf8 state = { 0 };
	uint32_t character;
	char encoded[4];
	bool is_put = true;
	for (size_t at = 0; is_put && at < size;) {
		enum utf8_step step = utf8_step(&state, (uint8_t)bytes[at], &character);
		if (step != UTF8_BAD_AGAIN)
			at++;
		if (step == UTF8_MORE)
			continue;
		if (character < 0x20 || (character >= 0x7f && character < 0xa0) ||
			character == 0x2028 || character == 0x2029)
			character = ' ';
		is_put = buf_append(buf, encoded, utf8_encode(character, encoded));
	}
	return is_put;
}

static void write_line(struct writer *writer, const char *bytes, size_t size)
{
	bool is_mark = size == 3 && memcmp(bytes, "end", 3) == 0;
	if (!buf_append_text(&writer->buf, is_mark ? "data: | " : "data: ") ||
		!append_plain(&writer->buf, bytes, size) || !buf_append(&writer->buf, "\n\n", 2))
		writer->is_failed = true;
}

static void write_record(struct writer *writer, const struct record *record, size_t from)
{
	if (record->kind == BUILD_LOG_END) {
		if (!buf_append_text(&writer->buf, "event: done\ndata: end\n\n"))
			writer->is_failed = true;
		return;
	}
	for (size_t at = from; at < record->size;) {
		const char *stop = memchr(record->bytes + at, '\n', record->size - at);
		size_t next = stop ? (size_t)(stop - record->bytes) : record->size;
		write_line(writer, record->bytes + at, next - at);
		at = next + 1;
	}
}

static void write_gap(struct writer *writer, uint64_t bytes, uint64_t place)
{
	static const char text[] = "[... the oldest lines are no longer kept ...]";
	write_line(writer, text, sizeof(text) - 1);
}

static const struct follow_style log_style = { .write = write_record, .write_gap = write_gap };

static void answer_log(struct call *call, const struct journal *log)
{
	struct writer writer = sse_writer();
	if (journal_first_place(log) > 0)
		write_gap(&writer, 0, 0);
	for (const struct record *record = journal_find(log, 0); record;
		record = journal_next(log, record))
		write_record(&writer, record, 0);
	answer_text(call, 200, "text/event-stream; charset=utf-8", &writer.buf);
	writer_deinit(&writer);
}

void builds_logs(struct call *call)
{
	struct error err = { 0 };
	bool is_followed = false;
	struct build *build = find(call, &err);
	if (!build || !query_bool(call, "follow", &is_followed, &err))
		return answer_error(call, &err);
	if (!is_followed)
		return answer_log(call, build->log);
	struct follower *follower =
		follow_start(call, build->log, &log_style, ": following\n\n", &err);
	if (!follower)
		return answer_error(call, &err);
	follow_begin(follower, 0, FOLLOW_ALL);
}
