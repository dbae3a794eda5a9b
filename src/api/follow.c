/*
 * See follow.h. Text is made in batches into the journal's shared buffer, and kept there: the next
 * reader that stands at the same place and wants the same gets it as it is. So the cost of many
 * readers is a copy and a send for each.
 *
 * A large record (a picture of some MiB) goes out from where it lies, slice by slice, so that many
 * slow readers do not cost its size each. One that is dropped while it is half sent cuts who was
 * reading it: the client comes back and is told of the gap.
 */
#include "api/follow.h"

#include "api/auth.h"
#include "api/sse.h"

#include <string.h>

#define UNSENT ((size_t)256 * 1024) /* of a reader */
#define SLICE ((size_t)128 * 1024)
#define BATCH ((size_t)32 * 1024) /* bytes of records that are made into text at once */

uint64_t follow_lag(const struct follower *follower)
{
	return follower->journal->end_place - follower->place;
}

/* `is_cut`: not at the end of an event. */
static void leave(struct follower *follower, bool is_cut)
{
	struct journal *journal = follower->journal;
	loop_timer_stop(&follower->beat);
	list_remove(&follower->link);
	if (--journal->follower_count == 0)
		buf_deinit(&journal->shared);
	follower->call->on_gone = NULL;
	follower->call->is_answered = true;
	if (follower->on_over)
		follower->on_over(follower);
	if (is_cut)
		http_stream_abort(follower->call->request);
	else
		http_stream_end(follower->call->request);
	follower->journal = NULL;
	journal_unref(journal);
}

/* ---- text ---- */

static bool is_shared(const struct follower *follower)
{
	const struct journal *journal = follower->journal;
	return journal->shared.size > 0 && journal->shared_from == follower->place &&
	       journal->shared_key == follower->style && journal->shared_kinds == follower->kinds;
}

/* To be sent in slices. */
static bool is_large(const struct follower *follower, const struct record *record)
{
	return record && record->size > SLICE && follower->style->write_head &&
	       follower->kinds >> record->kind & 1;
}

static void make_records(struct follower *follower, struct writer *writer)
{
	struct journal *journal = follower->journal;
	const struct record *record = journal_find(journal, follower->place);
	size_t from = 0, made = 0;
	if (record && follower->place > record->place)
		from = (size_t)(follower->place - record->place);
	for (; record && made < BATCH && !is_large(follower, record);
		record = journal_next(journal, record)) {
		if (follower->kinds >> record->kind & 1)
			follower->style->write(writer, record, from);
		made += record->size - from;
		from = 0;
		journal->shared_to = record->place + record->size;
	}
}

/* Into the shared buffer; false without memory. */
static bool make_text(struct follower *follower)
{
	struct journal *journal = follower->journal;
	struct writer writer = sse_writer();
	uint64_t first = journal_first_place(journal);
	writer.buf = journal->shared;
	writer.buf.limit = WRITER_LIMIT;
	writer.buf.size = 0;
	journal->shared_from = follower->place;
	if (follower->place < first)
		follower->style->write_gap(&writer, first - follower->place, first);
	journal->shared_to = first;
	make_records(follower, &writer);
	journal->shared = writer.buf;
	journal->shared_key = follower->style;
	journal->shared_kinds = follower->kinds;
	return !writer.is_failed;
}

/* False where there is no room now. */
static bool send_head(struct follower *follower, const struct record *record)
{
	cleanup_writer struct writer writer = sse_writer();
	follower->style->write_head(&writer, record);
	if (!http_stream_write(follower->call->request, writer.buf.bytes, writer.buf.size))
		return false;
	follower->slicing = record->number;
	follower->sliced = 0;
	return true;
}

/* The same, with as much of it as there is room for. */
static bool send_slices(struct follower *follower, const struct record *record)
{
	struct http_request *request = follower->call->request;
	if (!follower->slicing && !send_head(follower, record))
		return false;
	while (follower->sliced < record->size) {
		size_t size = MIN(SLICE, record->size - follower->sliced);
		if (!http_stream_write(request, record->bytes + follower->sliced, size))
			return false;
		follower->sliced += size;
	}
	if (!http_stream_write(request, SSE_END, strlen(SSE_END)))
		return false;
	follower->slicing = 0;
	follower->place = record->place + record->size;
	return true;
}

/* One batch; false where there is no room for it now. */
static bool send_batch(struct follower *follower)
{
	struct journal *journal = follower->journal;
	const struct record *record = journal_find(journal, follower->place);
	if (is_large(follower, record) && follower->place >= journal_first_place(journal))
		return send_slices(follower, record);
	if (!is_shared(follower) && !make_text(follower)) {
		journal->shared.size = 0;
		follower->place = journal->end_place; /* without memory: the rest is lost to it */
		return true;
	}
	const struct buf *text = &journal->shared;
	if (text->size > 0 && !http_stream_write(follower->call->request, text->bytes, text->size))
		return false;
	follower->place = journal->shared_to;
	return true;
}

/* The record of which it has the beginning is no longer kept. */
static bool is_half_gone(const struct follower *follower)
{
	if (!follower->slicing)
		return false;
	const struct record *record = journal_find(follower->journal, follower->place);
	return !record || record->number != follower->slicing;
}

static bool may_follow(const struct follower *follower)
{
	return !follower->key || auth_is_valid(&follower->call->api->keys, follower->key);
}

/* May end with the follower over. */
static void pump(struct follower *follower)
{
	bool has_room = true;
	uint64_t place = follower->place;
	if (is_half_gone(follower) || !may_follow(follower))
		return leave(follower, follower->slicing);
	while (has_room && follow_lag(follower) > 0)
		has_room = send_batch(follower);
	if (follower->on_moved && follower->place != place)
		follower->on_moved(follower);
	if (follow_lag(follower) == 0 && follower->journal->is_closed)
		leave(follower, false);
}

static void on_more(struct journal *journal)
{
	journal_ref(journal);
	LIST_EACH(&journal->followers, struct follower, link, follower) {
		pump(follower);
	}
	journal_unref(journal);
}

/* ---- the client ---- */

static void on_drain(struct http_request *request)
{
	struct call *call = http_request_data(request);
	struct follower *follower = call->state;
	if (follower->journal)
		pump(follower);
}

static void on_gone(struct call *call)
{
	struct follower *follower = call->state;
	follower->is_gone = true;
	leave(follower, false);
}

static void on_beat(struct loop_timer *timer)
{
	struct follower *follower = CONTAINER_OF(timer, struct follower, beat);
	if (!may_follow(follower))
		return leave(follower, follower->slicing);
	sse_beat(follower->call);
	loop_timer_start(&follower->call->api->loop, timer, SSE_BEAT_MS, on_beat);
}

struct follower *follow_start(struct call *call, struct journal *journal,
	const struct follow_style *style, const char *preface, struct error *err)
{
	struct follower *follower = http_request_alloc(call->request, sizeof(*follower));
	if (!follower)
		return error_no_memory(err);
	*follower =
		(struct follower){ .journal = journal_ref(journal), .call = call, .style = style };
	list_append(&journal->followers, &follower->link);
	journal->follower_count++;
	journal->on_more = on_more;
	call->state = follower;
	call->on_gone = on_gone;
	http_stream_on_drain(call->request, on_drain);
	http_stream_set_limit(call->request, UNSENT);
	sse_start(call);
	http_stream_write(call->request, preface, strlen(preface));
	loop_timer_start(&call->api->loop, &follower->beat, SSE_BEAT_MS, on_beat);
	return follower;
}

void follow_begin(struct follower *follower, uint64_t place, uint32_t kinds)
{
	follower->place = MIN(place, follower->journal->end_place);
	follower->kinds = kinds;
	pump(follower);
}
