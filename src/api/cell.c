/*
 * See cell.h. A cell whose client is gone lives on without a call until its run has ended: the run
 * is interrupted, and what it still says is dropped.
 */
#include "api/cell.h"

#include "api/answer.h"
#include "api/fields.h"
#include "api/routes.h"
#include "api/session.h"
#include "base/clock.h"

#define CODE_LIMIT ((size_t)8 << 20)
#define CLIENT_PATIENCE_MS 28000 /* clients give up after 30 s without a byte */
#define PADDING_MS 10000

static void cell_free(struct cell *cell)
{
	guest_leave(&cell->guest);
	loop_timer_stop(&cell->padding);
	if (cell->call)
		cell->call->on_gone = NULL;
	if (cell->session && cell->session->running == cell)
		cell->session->running = NULL;
	if (cell->session && cell->begun_us == 0 && !list_is_empty(&cell->link))
		cell->session->queue_count--;
	list_remove(&cell->link);
	for (unsigned i = 0; i < 2; i++)
		output_deinit(&cell->streams[i]);
	values_deinit(&cell->values);
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

static bool read_body(struct cell *cell, struct error *err)
{
	static const char *const known[] = { "code", "timeout_ms", NULL };
	size_t size;
	const char *text = http_request_body(cell->call->request, &size);
	cell->body = fields_parse(text, size, known, err);
	if (!cell->body || !fields_text(cell->body, "code", &cell->code, &cell->code_size, err))
		return false;
	if (!cell->code || cell->code_size == 0)
		return error_set(err, ERROR_INVALID, "'code' is empty");
	if (cell->code_size > CODE_LIMIT)
		return error_set(err, ERROR_TOO_LARGE, "'code' is larger than 8 MiB");
	return read_limit(cell->body, cell->session->sandbox, &cell->limit_ms, err);
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

static void on_gone(struct call *call)
{
	struct cell *cell = call->state;
	struct session *session = cell->session;
	cell->call = NULL;
	loop_timer_stop(&cell->padding);
	call->is_answered = true;
	if (call->is_padded)
		http_stream_end(call->request);
	else
		answer_empty(call, 499);
	if (session->running == cell)
		kernel_abandon(&session->kernel);
	else
		cell_free(cell);
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

struct cell *cell_new(struct call *call, struct session *session, struct error *err)
{
	struct cell *cell = calloc(1, sizeof(*cell));
	if (!cell)
		return error_no_memory(err);
	*cell = (struct cell){ .session = session, .call = call, .asked_us = clock_monotonic_us() };
	list_init(&cell->link);
	for (unsigned i = 0; i < 2; i++)
		output_init(&cell->streams[i]);
	values_init(&cell->values);
	if (!read_body(cell, err) ||
		!guest_enter(&cell->guest, session->sandbox, on_sandbox_end, err)) {
		cell_free(cell);
		return NULL;
	}
	cell->guest.on_pause = on_pause;
	call->state = cell;
	call->on_gone = on_gone;
	loop_timer_start(&call->api->loop, &cell->padding, PADDING_MS, on_padding);
	return cell;
}

void sessions_run(struct call *call)
{
	struct error err = { 0 };
	struct session *session = session_find(call->sandbox, call->session_id);
	if (!session) {
		error_set(&err, ERROR_SESSION_NOT_FOUND, "session not found");
		return answer_error(call, &err);
	}
	struct cell *cell = cell_new(call, session, &err);
	if (!cell)
		return answer_error(call, &err);
	if (!session_add(session, cell, &err))
		cell_fail(cell, &err);
}

/* ---- the run ---- */

bool cell_begin(struct cell *cell, struct error *err)
{
	cell->run = api_next_run(cell->session->sandbox->api);
	cell->begun_us = clock_monotonic_us();
	if (kernel_run(&cell->session->kernel, cell->run, cell->code, cell->code_size,
		    cell->limit_ms, err))
		return true;
	cell->begun_us = 0;
	return false;
}

void cell_finish(struct cell *cell, enum cell_outcome outcome, const char *text, int status)
{
	guest_leave(&cell->guest); /* the idle time begins here, and the answer tells its end */
	if (cell->call)
		run_answer_send(cell, outcome, text, status);
	cell_free(cell);
}

void cell_fail(struct cell *cell, const struct error *why)
{
	struct call *call = cell->call;
	cell_free(cell);
	if (call)
		answer_error(call, why);
}
