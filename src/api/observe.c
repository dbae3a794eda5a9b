/*
 * GET /logs and /events: what a sandbox printed and what happened to it, or to all of an owner, as it
 * stands or as it comes. A stream that follows begins with a comment and has one every 10 s, since
 * the clients take 30 s of silence for death; it ends with the sandbox.
 */
#include "api/answer.h"
#include "api/feed.h"
#include "api/follow.h"
#include "api/query.h"
#include "api/routes.h"
#include "api/sandbox.h"
#include "api/sandbox_log.h"
#include "api/sse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PLACE_LIMIT ((uint64_t)1 << 53) /* what JSON numbers hold exactly */
#define TAIL_LIMIT 100000
#define LOG_PLACE_LIMIT ((uint64_t)INT64_MAX)

/* A browser that comes back says what it has seen. */
static bool read_last_id(const struct call *call, uint64_t most, uint64_t *id, struct error *err)
{
	const char *last = http_request_header(call->request, "Last-Event-ID");
	if (!last || query_parse_number(last, strlen(last), most, id))
		return true;
	return error_set(err, ERROR_INVALID, "'Last-Event-ID' is none of this stream's");
}

/* ---- logs ---- */

static bool read_streams(const struct call *call, uint32_t *kinds, struct error *err)
{
	const char *name = http_request_query(call->request, "stream", NULL);
	*kinds = 3;
	if (!name || strcmp(name, "both") == 0)
		return true;
	*kinds = strcmp(name, "stdout") == 0 ? 1 : 2;
	if (*kinds == 1 || strcmp(name, "stderr") == 0)
		return true;
	return error_set(err, ERROR_INVALID, "'stream' must be stdout, stderr or both");
}

static void write_line(struct writer *writer, uint64_t id, const char *bytes, size_t size)
{
	sse_open(writer, "line", id);
	writer_bytes(writer, "line", bytes, size);
	sse_close(writer);
}

static void write_log(struct writer *writer, const struct record *record, size_t from)
{
	for (size_t at = from; at < record->size;) {
		const char *end = memchr(record->bytes + at, '\n', record->size - at);
		size_t next = end ? (size_t)(end - record->bytes) + 1 : record->size;
		write_line(writer, record->place + next, record->bytes + at, next - at);
		at = next;
	}
}

static void write_log_gap(struct writer *writer, uint64_t bytes, uint64_t place)
{
	char text[LOG_GAP_SIZE];
	size_t size = log_gap_text(place - bytes, place, text);
	for (size_t at = 0; at < size;) {
		size_t line = strcspn(text + at, "\n") + 1;
		write_line(writer, place, text + at, line);
		at += line;
	}
}

static const struct follow_style log_style = { .write = write_log, .write_gap = write_log_gap };

/* Plain text has to be UTF-8, whatever was printed. */
static bool append_clean(struct buf *text, const char *bytes, size_t size)
{
	struct utf8 state = { 0 };
	uint32_t character;
	char encoded[4];
	for (size_t at = 0; at < size;) {
		enum utf8_step step = utf8_step(&state, (uint8_t)bytes[at], &character);
		if (step != UTF8_BAD_AGAIN)
			at++;
		if (step != UTF8_MORE &&
			!buf_append(text, encoded, utf8_encode(character, encoded)))
			return false;
	}
	return true;
}

/* Where the last `lines` lines of those kinds begin; 0 when no more are kept, so that the reader
 * learns what is gone. Records hold whole lines. */
static uint64_t tail_place(const struct journal *log, uint32_t kinds, uint64_t lines)
{
	const struct list *link = log->records.previous;
	if (lines == 0)
		return log->end_place;
	for (; link != &log->records; link = link->previous) {
		const struct record *record = CONTAINER_OF(link, struct record, link);
		size_t size = kinds >> record->kind & 1 ? record->size : 0;
		for (const char *end; (end = memrchr(record->bytes, '\n', size)); lines--) {
			size = (size_t)(end - record->bytes);
			if (lines == 0)
				return record->place + size + 1;
		}
	}
	return 0;
}

static bool make_log_text(const struct journal *log, uint64_t place, uint32_t kinds,
	struct buf *text, struct error *err)
{
	uint64_t first = journal_first_place(log);
	char gap[LOG_GAP_SIZE];
	bool is_good = place >= first || buf_append(text, gap, log_gap_text(place, first, gap));
	for (const struct record *record = journal_find(log, place); is_good && record;
		record = journal_next(log, record)) {
		size_t from = place > record->place ? (size_t)(place - record->place) : 0;
		if (kinds >> record->kind & 1)
			is_good = append_clean(text, record->bytes + from, record->size - from);
	}
	return is_good || (error_no_memory(err), false);
}

/* Behind what a reader that comes back has seen, else from the last `tail` lines on. A place that
 * was not reached yet is nobody's: all is told. */
static bool read_log_place(
	const struct call *call, uint32_t kinds, uint64_t *ret_place, struct error *err)
{
	const uint64_t none = UINT64_MAX;
	uint64_t tail = none, last = none;
	if (!query_number(call, "tail", TAIL_LIMIT, &tail, err) ||
		!read_last_id(call, LOG_PLACE_LIMIT, &last, err))
		return false;
	*ret_place = tail == none ? 0 : tail_place(call->sandbox->log, kinds, tail);
	if (last != none)
		*ret_place = last <= call->sandbox->log->end_place ? last : 0;
	return true;
}

static bool follow_log(struct call *call, uint64_t place, uint32_t kinds, struct error *err)
{
	struct follower *follower =
		follow_start(call, call->sandbox->log, &log_style, ": following\n\n", err);
	if (follower)
		follow_begin(follower, place, kinds);
	return follower;
}

void logs_get(struct call *call)
{
	struct error err = { 0 };
	uint32_t kinds;
	uint64_t place;
	bool is_followed = false;
	cleanup_buf struct buf text = buf_make(WRITER_LIMIT);
	if (!read_streams(call, &kinds, &err) || !query_bool(call, "follow", &is_followed, &err) ||
		!read_log_place(call, kinds, &place, &err))
		return answer_error(call, &err);
	if (is_followed ? !follow_log(call, place, kinds, &err)
			: !make_log_text(call->sandbox->log, place, kinds, &text, &err))
		return answer_error(call, &err);
	if (!is_followed)
		answer_text(call, 200, "text/plain; charset=utf-8", &text);
}

/* ---- events ---- */

static void write_event(struct writer *writer, const struct record *record, size_t from)
{
	sse_json(writer, "event", record->number, record->bytes, record->size);
}

static void write_event_gap(struct writer *writer, uint64_t bytes, uint64_t place)
{
	if (!buf_append_text(&writer->buf, ": some events are no longer kept\n\n"))
		writer->is_failed = true;
}

static const struct follow_style event_style = { .write = write_event,
	.write_gap = write_event_gap };

/* The last `tail` of those after `since`; of a reader that comes back, with the address it had, those
 * after what it has seen. */
static bool read_since(
	const struct call *call, const struct journal *events, uint64_t *since, struct error *err)
{
	const uint64_t none = UINT64_MAX;
	uint64_t tail = TAIL_LIMIT, last = none, next = events->next_number;
	*since = 0;
	if (!read_last_id(call, PLACE_LIMIT, &last, err) ||
		!query_number(call, "since", PLACE_LIMIT, since, err) ||
		!query_number(call, "tail", TAIL_LIMIT, &tail, err))
		return false;
	*since = last != none ? last : MAX(*since, next > tail ? next - tail - 1 : 0);
	return true;
}

static void answer_events(struct call *call, const struct journal *events, uint64_t since)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_open(&writer, "events", '[');
	for (const struct record *record = journal_after(events, since); record;
		record = journal_next(events, record))
		writer_raw_bytes(&writer, NULL, record->bytes, record->size);
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

/* The hash of the key that is asked with; it lives as long as the call. */
static const uint8_t *keep_key(struct call *call, struct error *err)
{
	const struct key_row *key = auth_key(&call->api->keys, call->request, true, err);
	uint8_t *hash = key ? http_request_alloc(call->request, sizeof(key->hash)) : NULL;
	if (hash)
		return memcpy(hash, key->hash, sizeof(key->hash));
	return key ? error_no_memory(err) : NULL;
}

/* What happens in a sandbox ends with it; what happens in all never does, so that needs a key all the
 * time. */
static bool follow_events(
	struct call *call, struct journal *events, uint64_t since, struct error *err)
{
	const struct record *first = journal_after(events, since);
	const uint8_t *key = call->sandbox ? NULL : keep_key(call, err);
	struct follower *follower = NULL;
	if (key || call->sandbox)
		follower = follow_start(call, events, &event_style, ": following\n\n", err);
	if (!follower)
		return false;
	follower->key = key;
	follow_begin(follower, first ? first->place : events->end_place, FOLLOW_ALL);
	return true;
}

static void tell(struct call *call, struct journal *events)
{
	struct error err = { 0 };
	bool is_followed = false;
	uint64_t since;
	if (!read_since(call, events, &since, &err) ||
		!query_bool(call, "follow", &is_followed, &err))
		return answer_error(call, &err);
	if (!is_followed)
		answer_events(call, events, since);
	else if (!follow_events(call, events, since, &err))
		answer_error(call, &err);
}

void events_get(struct call *call)
{
	tell(call, call->sandbox->events);
}

void events_get_all(struct call *call)
{
	struct error err = { 0 };
	struct journal *events = feed_of(call->api, call->owner);
	if (events)
		return tell(call, events);
	error_no_memory(&err);
	answer_error(call, &err);
}
