/*
 * See cell.h. A cell whose client is gone lives on without a call until its run has ended: the run
 * is interrupted, and what it still says is kept with it. One that was asked for as detached goes
 * on as if nothing had happened.
 */
#include "api/cell.h"

#include "api/answer.h"
#include "api/fields.h"
#include "api/languages.h"
#include "api/routes.h"
#include "api/session.h"
#include "base/clock.h"

#define CODE_LIMIT ((size_t)8 << 20)
#define CODE_SANDBOX ((size_t)64 << 20) /* of all cells of a sandbox that are not over */
#define CODE_ALL ((size_t)512 << 20)
#define CLIENT_PATIENCE_MS 28000 /* clients give up after 30 s without a byte */
#define PADDING_MS 10000

static void cell_free(struct cell *cell)
{
	guest_leave(&cell->guest);
	loop_timer_stop(&cell->padding);
	if (cell->call)
		cell->call->on_gone = NULL;
	if (cell->session->running == cell)
		cell->session->running = NULL;
	if (cell->begun_us == 0 && !list_is_empty(&cell->link))
		cell->session->queue_count--;
	list_remove(&cell->link);
	log_finish(cell->session->sandbox->log, &cell->lines);
	if (cell->record)
		run_end(cell->record, RUN_INTERRUPTED, NULL, NULL, NULL);
	for (unsigned i = 0; i < 2; i++)
		output_deinit(&cell->streams[i]);
	cell->session->sandbox->code_bytes -= cell->held;
	cell->session->sandbox->api->code_bytes -= cell->held;
	json_decref(cell->body);
	free(cell);
}

/* ---- the request ---- */

static bool read_limit(
	json_t *body, const struct sandbox *sandbox, uint32_t *ret_ms, struct error *err)
{
	int64_t limit_ms = MIN((int64_t)sandbox->cell_seconds * 1000, (int64_t)CELL_LIMIT_MS);
	if (!fields_scaled(body, "timeout_ms", CELL_LIMIT_MS, 1, &limit_ms, err))
		return error_hint(err, "a cell may run for at most 24 h");
	*ret_ms = (uint32_t)limit_ms;
	return true;
}

/* A one-shot's body names the language of its session. */
static bool read_language(json_t *body, struct session *session, struct error *err)
{
	const char *word = "";
	return !session->is_one_shot ||
	       (fields_text(body, "language", &word, NULL, err) &&
		       languages_find(session->sandbox, word, &session->language, err));
}

static bool read_body(struct cell *cell, bool *ret_is_detached, struct error *err)
{
	static const char *const known[] = { "code", "timeout_ms", "stream", "detach", NULL };
	static const char *const known_one_shot[] = { "language", "code", "timeout_ms", "stream",
		"detach", NULL };
	struct session *session = cell->session;
	size_t size;
	const char *text = http_request_body(cell->call->request, &size);
	cell->body = fields_parse(text, size, session->is_one_shot ? known_one_shot : known, err);
	if (!cell->body || !read_language(cell->body, session, err) ||
		!fields_text(cell->body, "code", &cell->code, &cell->code_size, err))
		return false;
	if (!cell->code || cell->code_size == 0)
		return error_set(err, ERROR_INVALID, "'code' is empty");
	if (cell->code_size > CODE_LIMIT)
		return error_set(err, ERROR_TOO_LARGE, "'code' is larger than 8 MiB");
	return fields_bool(cell->body, "stream", &cell->is_streamed, err) &&
	       fields_bool(cell->body, "detach", ret_is_detached, err) &&
	       read_limit(cell->body, cell->session->sandbox, &cell->limit_ms, err);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	cell_fail(CONTAINER_OF(guest, struct cell, guest), why);
}

static void on_pause(struct guest *guest, int64_t lasted_us)
{
	struct cell *cell = CONTAINER_OF(guest, struct cell, guest);
	if (cell->begun_us && lasted_us > 0)
		cell->begun_us += lasted_us;
}

/* Nobody wants it any more. May free it. */
static void cell_abandon(struct cell *cell)
{
	struct session *session = cell->session;
	loop_timer_stop(&cell->padding);
	cell->record->is_cancelled = true;
	if (session->is_one_shot)
		session_close(session); /* frees the cell too */
	else if (session->running == cell)
		kernel_abandon(&session->kernel);
	else
		cell_free(cell);
}

static void on_gone(struct call *call)
{
	struct cell *cell = call->state;
	cell->call = NULL;
	answer_gone(call);
	cell_abandon(cell);
}

/* The first space goes out only when the answer may come later than the client waits. */
static void on_padding(struct loop_timer *timer)
{
	struct cell *cell = CONTAINER_OF(timer, struct cell, padding);
	int64_t now_us = clock_monotonic_us();
	int64_t waited_ms = (now_us - cell->asked_us) / 1000;
	int64_t ran_ms = cell->begun_us ? (now_us - cell->begun_us) / 1000 : 0;
	if (waited_ms + cell->limit_ms - ran_ms > CLIENT_PATIENCE_MS ||
		sandbox_is_paused(cell->session->sandbox))
		answer_pad(cell->call);
	loop_timer_start(&cell->call->api->loop, timer, PADDING_MS, on_padding);
}

/* Nobody has to stay for a detached cell, so what waits is bounded by its size, too. */
static bool hold_code(struct cell *cell, struct error *err)
{
	struct sandbox *sandbox = cell->session->sandbox;
	if (sandbox->code_bytes + cell->code_size > CODE_SANDBOX) {
		error_set(err, ERROR_SESSION_QUEUE,
			"the cells under way in this sandbox have more than %zu MiB of code",
			CODE_SANDBOX >> 20);
		return error_hint(err, "wait for answers, or hand large data over as files");
	}
	if (sandbox->api->code_bytes + cell->code_size > CODE_ALL)
		return error_set(err, ERROR_HOST_BUSY, "too much code waits to be run");
	cell->held = cell->code_size;
	sandbox->code_bytes += cell->held;
	sandbox->api->code_bytes += cell->held;
	return true;
}

static bool cell_prepare(struct cell *cell, struct error *err)
{
	bool is_detached = false;
	struct session *session = cell->session;
	if (!read_body(cell, &is_detached, err) || !hold_code(cell, err) ||
		!guest_enter(&cell->guest, session->sandbox, on_sandbox_end, err))
		return false;
	cell->guest.on_pause = on_pause;
	cell->record = run_new(session->sandbox, session->id, cell, err);
	if (cell->record)
		cell->record->is_detached = is_detached;
	return cell->record;
}

static struct cell *cell_new(struct call *call, struct session *session, struct error *err)
{
	struct cell *cell = calloc(1, sizeof(*cell));
	if (!cell)
		return error_no_memory(err);
	*cell = (struct cell){ .session = session, .call = call, .asked_us = clock_monotonic_us() };
	list_init(&cell->link);
	for (unsigned i = 0; i < 2; i++)
		output_init(&cell->streams[i]);
	if (cell_prepare(cell, err))
		return cell;
	cell_free(cell);
	return NULL;
}

/* ---- how the client gets it ---- */

static void on_stream_moved(struct follower *follower)
{
	struct run *run = follower->context;
	if (run->cell && follow_lag(follower) < RUN_BACKLOG / 2)
		session_resume(run->cell->session);
}

static void on_stream_over(struct follower *follower)
{
	struct run *run = follower->context;
	run->attached = NULL;
	if (!run->cell)
		return;
	session_resume(run->cell->session);
	if (follower->is_gone && !run->is_detached)
		cell_abandon(run->cell);
}

/* A run that is not kept waits for its client to read; one that is does not. */
static void stream_run(struct call *call, struct run *run)
{
	struct error err = { 0 };
	struct follower *follower = run_follow(run, call, 0, &err);
	if (follower && !run->is_detached && run->cell) {
		follower->context = run;
		follower->on_moved = on_stream_moved;
		follower->on_over = on_stream_over;
		run->attached = follower;
	} else if (!follower) {
		answer_error(call, &err);
		if (run->cell)
			cell_abandon(run->cell);
	}
}

static void answer_detached(struct call *call, const struct run *run)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "run_id", run->id);
	run_write_head(run, true, &writer);
	sandbox_write_expiry(run->sandbox, &writer);
	writer_close(&writer, '}');
	answer_json(call, 202, &writer);
}

/* The answer is the run's end: the call waits for it. */
static void wait_for_end(struct cell *cell, struct call *call)
{
	cell->call = call;
	call->state = cell;
	call->on_gone = on_gone;
	loop_timer_start(&call->api->loop, &cell->padding, PADDING_MS, on_padding);
}

bool cell_submit(struct call *call, struct session *session, struct error *err)
{
	struct cell *cell = cell_new(call, session, err);
	if (!cell)
		return false;
	struct run *run = cell->record;
	bool is_streamed = cell->is_streamed;
	cell->call = NULL;
	if (!is_streamed && !run->is_detached)
		wait_for_end(cell, call);
	if (!session_add(session, cell, err)) {
		run_discard(run);
		cell->record = NULL;
		cell_free(cell);
		return false;
	}
	/* the cell may be over already, the run is still there */
	if (is_streamed)
		stream_run(call, run);
	else if (run->is_detached)
		answer_detached(call, run);
	return true;
}

void sessions_run(struct call *call)
{
	struct error err = { 0 };
	struct session *session = session_find(call->sandbox, call->session_id);
	if (!session)
		error_set(&err, ERROR_SESSION_NOT_FOUND, "session not found");
	if (!session || !cell_submit(call, session, &err))
		answer_error(call, &err);
}

/* ---- the run ---- */

bool cell_begin(struct cell *cell, struct error *err)
{
	cell->run = api_next_run(cell->session->sandbox->api);
	cell->begun_us = clock_monotonic_us();
	if (kernel_run(&cell->session->kernel, cell->run, cell->code, cell->code_size,
		    cell->limit_ms, err)) {
		run_begin(cell->record);
		return true;
	}
	cell->begun_us = 0;
	return false;
}

void cell_take_output(struct cell *cell, unsigned stream, const char *bytes, size_t size)
{
	output_feed(&cell->streams[stream], bytes, size);
	cell->session->sandbox->api->stats.output_bytes[stream] += size;
	run_take_output(cell->record, stream, bytes, size);
	log_take(cell->session->sandbox->log, &cell->lines, stream, bytes, size);
}

void cell_take_value(struct cell *cell, const struct frames_value *value)
{
	run_take_value(cell->record, value);
}

bool cell_is_behind(const struct cell *cell)
{
	return run_is_behind(cell->record);
}

void cell_cancel(struct cell *cell)
{
	struct error why;
	if (cell->record->is_cancelled)
		return;
	cell->record->is_cancelled = true;
	if (cell->session->running == cell)
		return kernel_abandon(&cell->session->kernel);
	error_set(&why, ERROR_RUN_CANCELLED, "the run was cancelled before it began");
	cell_fail(cell, &why);
}

void cell_finish(struct cell *cell, enum cell_outcome outcome, const char *text, int status)
{
	guest_leave(&cell->guest); /* the idle time begins here, and the answer tells its end */
	run_answer_tell(cell, outcome, text, status);
	cell_free(cell);
}

void cell_fail(struct cell *cell, const struct error *why)
{
	struct call *call = cell->call;
	run_answer_fail(cell, why);
	cell_free(cell);
	if (call)
		answer_error(call, why);
}
