/*
 * See run.h. What the cell prints and shows goes into the run's journal once, as bytes, whoever
 * reads it; results are also kept as they stand (updated, cleared), for who asks without a stream.
 * Each record of output ends between two characters, so that each can be read by itself.
 */
#include "api/run.h"

#include "api/sandbox_events.h"
#include "api/sse.h"
#include "base/clock.h"

#include <string.h>

/* ---- finding ---- */

static struct run **bucket_of(struct api *api, const char *id)
{
	uint8_t bytes[SHORT_ID_SIZE];
	uint32_t hash; /* ids are random */
	if (!id_from_text(id, bytes, sizeof(bytes)))
		return NULL;
	memcpy(&hash, bytes, sizeof(hash));
	return &api->runs.buckets[hash % ARRAY_SIZE(api->runs.buckets)];
}

struct run *run_find(struct api *api, const char *id, const char *owner)
{
	struct run **bucket = bucket_of(api, id), *run = bucket ? *bucket : NULL;
	while (run && strcmp(run->id, id) != 0)
		run = run->bucket_next;
	if (!run || run->sandbox->state != SANDBOX_RUNNING ||
		strcmp(run->sandbox->owner, owner) != 0)
		return NULL;
	return run;
}

/* ---- bounds ---- */

static uint64_t run_bytes(const struct run *run)
{
	return run->journal->bytes + run->values.kept;
}

static void run_free(struct run *run);

static struct run *oldest_ended(struct sandbox *sandbox)
{
	LIST_EACH(&sandbox->runs, struct run, link, run) {
		if (!run->cell)
			return run;
	}
	return NULL;
}

static uint64_t kept_bytes(const struct sandbox *sandbox)
{
	uint64_t bytes = 0;
	LIST_EACH(&sandbox->runs, struct run, link, run) {
		bytes += run_bytes(run);
	}
	return bytes;
}

static struct run *largest(struct sandbox *sandbox)
{
	struct run *found = NULL;
	LIST_EACH(&sandbox->runs, struct run, link, run) {
		if (!found || run->journal->bytes > found->journal->bytes)
			found = run;
	}
	return found;
}

/* Ended runs first; then the largest of those under way loses the older half of its output. False
 * when there is nothing to give up. */
static bool give_up_some(struct sandbox *sandbox)
{
	struct run *run = oldest_ended(sandbox);
	if (run) {
		run_free(run);
		return true;
	}
	run = largest(sandbox);
	if (!run || run->journal->bytes == 0)
		return false;
	journal_trim(run->journal, run->journal->bytes / 2);
	return true;
}

/* All sandboxes together: who keeps most gives up first. */
static void make_room(struct api *api)
{
	while (api->runs.bytes > RUNS_BYTES) {
		struct sandbox *most = NULL;
		uint64_t most_bytes = 0;
		LIST_EACH(&api->sandboxes, struct sandbox, link, sandbox) {
			uint64_t bytes = kept_bytes(sandbox);
			if (bytes > most_bytes) {
				most = sandbox;
				most_bytes = bytes;
			}
		}
		if (!most || !give_up_some(most))
			return; /* what is left has bounds of its own */
	}
}

/* A run of it has ended: no more than so many are kept. */
static void tidy(struct sandbox *sandbox)
{
	unsigned ended = 0;
	LIST_EACH(&sandbox->runs, struct run, link, run) {
		ended += !run->cell;
	}
	uint64_t bytes = kept_bytes(sandbox);
	struct run *run;
	while ((ended > RUNS_KEPT || bytes > RUNS_SANDBOX_BYTES) &&
		(run = oldest_ended(sandbox)) != NULL) {
		bytes -= run_bytes(run);
		ended--;
		run_free(run);
	}
}

/* ---- life ---- */

struct run *run_new(
	struct sandbox *sandbox, const char *session_id, struct cell *cell, struct error *err)
{
	struct api *api = sandbox->api;
	uint8_t id[SHORT_ID_SIZE];
	struct run *run = calloc(1, sizeof(*run));
	struct journal *journal = journal_new(&api->loop, RUN_WINDOW, 1, &api->runs.bytes);
	if (!run || !journal) {
		free(run);
		journal_unref(journal);
		return error_no_memory(err);
	}
	*run = (struct run){
		.sandbox = sandbox, .cell = cell, .journal = journal, .asked_ms = clock_wall_ms()
	};
	id_random(id, sizeof(id));
	id_to_text(id, sizeof(id), run->id);
	memcpy(run->session_id, session_id, sizeof(run->session_id));
	values_init(&run->values);
	struct run **bucket = bucket_of(api, run->id);
	run->bucket_next = *bucket;
	*bucket = run;
	list_append(&sandbox->runs, &run->link);
	return run;
}

static void run_free(struct run *run)
{
	struct run **place = bucket_of(run->sandbox->api, run->id);
	while (*place != run)
		place = &(*place)->bucket_next;
	*place = run->bucket_next;
	list_remove(&run->link);
	loop_timer_stop(&run->forget);
	if (run->attached) {
		run->attached->on_moved = run->attached->on_over = NULL;
		run->attached->context = NULL;
	}
	run->sandbox->api->runs.bytes -= run->values.kept;
	values_deinit(&run->values);
	journal_trim(run->journal, RUN_LEFT);
	journal_uncount(run->journal);
	journal_close(run->journal);
	journal_unref(run->journal);
	free(run->failure);
	free(run->ending);
	free(run);
}

void run_discard(struct run *run)
{
	run_free(run);
}

void runs_end(struct sandbox *sandbox)
{
	while (!list_is_empty(&sandbox->runs))
		run_free(LIST_FIRST(&sandbox->runs, struct run, link));
}

static void on_forget(struct loop_timer *timer)
{
	run_free(CONTAINER_OF(timer, struct run, forget));
}

static struct writer *begin_note(const struct run *run, struct note *note, const char *type)
{
	struct writer *writer = note_begin(note, run->sandbox, type);
	writer_text(writer, "run_id", run->id);
	writer_text(writer, "session_id", run->session_id);
	return writer;
}

static void note_begun(const struct run *run)
{
	struct note note;
	begin_note(run, &note, "run.started");
	note_end(&note);
}

static void note_ended(const struct run *run);

void run_begin(struct run *run)
{
	if (!run->begun_ms) /* else it is put back, and has not begun before */
		note_begun(run);
	run->state = RUN_RUNNING;
	run->begun_ms = clock_wall_ms();
}

static void append(struct run *run, enum run_record kind, const char *bytes, size_t size)
{
	if (size > 0)
		journal_append(run->journal, (uint8_t)kind, bytes, size);
}

static void append_text(struct run *run, enum run_record kind, const char *json)
{
	append(run, kind, json, strlen(json));
}

void run_end(struct run *run, enum run_state state, char *failure, char *ending, const char *error)
{
	cleanup_writer struct writer writer = writer_make();
	struct sandbox *sandbox = run->sandbox;
	run->cell = NULL;
	run->state = state;
	run->ended_ms = clock_wall_ms();
	sandbox->api->stats.runs[state]++;
	run->failure = failure;
	run->ending = ending;
	for (unsigned i = 0; i < 2; i++)
		append(run, i, run->broken[i].bytes, run->broken[i].size);
	if (error)
		append_text(run, RUN_ERROR, error);
	writer_open(&writer, NULL, '{');
	run_write_head(run, false, &writer);
	writer_close(&writer, '}');
	if (!writer.is_failed)
		append(run, RUN_END, writer.buf.bytes, writer.buf.size);
	journal_close(run->journal);
	note_ended(run);
	list_remove(&run->link); /* kept in the order of their ends */
	list_append(&sandbox->runs, &run->link);
	loop_timer_start(&sandbox->api->loop, &run->forget, RUN_KEPT_MS, on_forget);
	tidy(sandbox);
}

/* ---- what the cell says ---- */

bool run_is_behind(const struct run *run)
{
	return run->attached && follow_lag(run->attached) > RUN_BACKLOG;
}

void run_take_output(struct run *run, unsigned stream, const char *bytes, size_t size)
{
	char *broken = run->broken[stream].bytes;
	size_t had = run->broken[stream].size, taken = 0;
	if (had > 0) { /* up to the end of the character that was cut */
		while (taken < size && had < sizeof(run->broken[stream].bytes) &&
			((uint8_t)bytes[taken] & 0xc0) == 0x80 && utf8_open_end(broken, had) > 0)
			broken[had++] = bytes[taken++];
		run->broken[stream].size = (uint8_t)had;
		if (taken == size && utf8_open_end(broken, had) > 0)
			return;
		append(run, stream, broken, had);
	}
	size_t open = utf8_open_end(bytes + taken, size - taken);
	append(run, stream, bytes + taken, size - taken - open);
	memcpy(broken, bytes + size - open, open);
	run->broken[stream].size = (uint8_t)open;
	make_room(run->sandbox->api);
}

static void append_bundle(struct run *run, enum run_record kind, const struct bundle *bundle)
{
	cleanup_writer struct writer writer = sse_writer();
	if (!bundle->id)
		return append_text(run, kind, bundle->json);
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "display_id", bundle->id);
	if (strlen(bundle->json) > 2) /* its members, and its own end */
		writer_raw_bytes(&writer, NULL, bundle->json + 1, strlen(bundle->json) - 1);
	else
		writer_close(&writer, '}');
	if (!writer.is_failed)
		append(run, kind, writer.buf.bytes, writer.buf.size);
}

void run_take_value(struct run *run, const struct frames_value *value)
{
	struct values_shown shown;
	struct api *api = run->sandbox->api;
	uint64_t kept = run->values.kept;
	bool is_taken = values_take(&run->values, value, &shown);
	api->runs.bytes += run->values.kept - kept;
	if (is_taken && shown.bundle)
		append_bundle(run,
			shown.is_update               ? RUN_UPDATE
			: value->kind == FRAME_RESULT ? RUN_RESULT
						      : RUN_DISPLAY,
			shown.bundle);
	else if (is_taken && value->kind == FRAME_CLEAR)
		append_text(run, RUN_CLEAR,
			run->values.clears_at_next ? "{\"wait\":true}" : "{\"wait\":false}");
	make_room(api);
}

/* ---- as clients see it ---- */

static const char *const state_words[] = { [RUN_QUEUED] = "queued",
	[RUN_RUNNING] = "running",
	[RUN_DONE] = "done",
	[RUN_INTERRUPTED] = "interrupted",
	[RUN_TIMEOUT] = "timeout",
	[RUN_KERNEL_DIED] = "kernel_died" };

static void note_ended(const struct run *run)
{
	struct note note;
	struct writer *writer = begin_note(run, &note, "run.ended");
	writer_text(writer, "state", state_words[run->state]);
	if (run->ending && run->ending[0])
		writer_raw(writer, NULL, run->ending);
	note_end(&note);
}

static void write_time(const char *key, int64_t wall_ms, struct writer *writer)
{
	char text[CLOCK_TEXT_SIZE];
	if (wall_ms == 0)
		return;
	clock_text(wall_ms, text);
	writer_text(writer, key, text);
}

void run_write_head(const struct run *run, bool shows_failure, struct writer *writer)
{
	writer_text(writer, "id", run->id);
	writer_text(writer, "sandbox_id", run->sandbox->text);
	writer_text(writer, "session_id", run->session_id);
	writer_text(writer, "state", state_words[run->state]);
	writer_bool(writer, "detached", run->is_detached);
	write_time("created_at", run->asked_ms, writer);
	write_time("started_at", run->begun_ms, writer);
	write_time("ended_at", run->ended_ms, writer);
	if (shows_failure && run->failure && run->failure[0])
		writer_raw(writer, NULL, run->failure);
	if (run->ending && run->ending[0])
		writer_raw(writer, NULL, run->ending);
}

static const char *const event_names[] = { [RUN_STDOUT] = "stdout",
	[RUN_STDERR] = "stderr",
	[RUN_DISPLAY] = "display",
	[RUN_UPDATE] = "update",
	[RUN_RESULT] = "result",
	[RUN_CLEAR] = "clear",
	[RUN_ERROR] = "error",
	[RUN_END] = "end" };

static void write_record(struct writer *writer, const struct record *record, size_t from)
{
	uint64_t next = record->place + record->size;
	const char *name = event_names[record->kind];
	if (record->kind > RUN_STDERR)
		return sse_json(writer, name, next, record->bytes, record->size);
	sse_open(writer, name, next);
	writer_bytes(writer, "chunk", record->bytes + from, record->size - from);
	sse_close(writer);
}

static void write_record_head(struct writer *writer, const struct record *record)
{
	sse_begin(writer, event_names[record->kind], record->place + record->size);
}

static void write_gap(struct writer *writer, uint64_t bytes, uint64_t place)
{
	sse_open(writer, "gap", place);
	writer_int(writer, "bytes", (int64_t)bytes);
	sse_close(writer);
}

static const struct follow_style style = {
	.write = write_record, .write_head = write_record_head, .write_gap = write_gap
};

struct follower *run_follow(struct run *run, struct call *call, uint64_t place, struct error *err)
{
	cleanup_writer struct writer writer = sse_writer();
	sse_open(&writer, "run", SSE_NO_ID);
	writer_text(&writer, "id", run->id);
	writer_text(&writer, "sandbox_id", run->sandbox->text);
	writer_text(&writer, "session_id", run->session_id);
	writer_text(&writer, "state", state_words[run->state]);
	sse_close(&writer);
	const char *preface = writer.is_failed ? NULL : buf_text(&writer.buf);
	if (!preface)
		return error_no_memory(err);
	struct follower *follower = follow_start(call, run->journal, &style, preface, err);
	if (follower)
		follow_begin(follower, place, FOLLOW_ALL);
	return follower;
}
