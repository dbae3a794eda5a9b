/*
 * See session.h. The kernel is the session's own; what happens to it comes in through
 * session_on_... A cell whose kernel died before it had read the source has not begun: it runs in the
 * next one. A kernel that dies before it was ready is not replaced by itself, so a sandbox in
 * which none can start does not keep the host busy: the next cell tries again.
 */
#include "api/session.h"

#include "api/answer.h"
#include "api/inside.h"
#include "api/kernel_end.h"
#include "api/sandbox_events.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define DESCRIPTORS 3 /* a kernel's */

/* ---- life ---- */

struct session *session_find(struct sandbox *sandbox, const char *id)
{
	LIST_EACH(&sandbox->sessions, struct session, link, session) {
		if (strcmp(session->id, id) == 0 && !session->creator && !session->is_one_shot)
			return session;
	}
	return NULL;
}

struct session *session_in_slot(struct sandbox *sandbox, uint32_t slot)
{
	LIST_EACH(&sandbox->sessions, struct session, link, session) {
		if (session->slot == slot)
			return session;
	}
	return NULL;
}

static struct session *make(struct sandbox *sandbox, unsigned slot, struct error *err)
{
	if (!api_take_descriptors(sandbox->api, DESCRIPTORS, err))
		return NULL;
	struct session *session = calloc(1, sizeof(*session));
	if (!session) {
		api_return_descriptors(sandbox->api, DESCRIPTORS);
		return error_no_memory(err);
	}
	session->sandbox = sandbox;
	session->slot = slot;
	list_init(&session->queue);
	list_init(&session->dirty_link);
	kernel_init(&session->kernel, session);
	unheard_init(&session->unheard[0]);
	unheard_init(&session->unheard[1]);
	list_append(&sandbox->sessions, &session->link);
	sandbox->session_count++;
	return session;
}

struct session *session_new(struct sandbox *sandbox, enum language language, struct error *err)
{
	for (unsigned slot = 0; slot < KERNELS_A_SANDBOX; slot++) {
		if (session_in_slot(sandbox, slot) || sandbox->dying >> slot & 1)
			continue;
		struct session *session = make(sandbox, slot, err);
		if (!session)
			return NULL;
		uint8_t id[SHORT_ID_SIZE];
		id_random(id, sizeof(id));
		id_to_text(id, sizeof(id), session->id);
		session->language = language;
		session->created_ms = clock_wall_ms();
		return session;
	}
	error_set(err, ERROR_SESSION_LIMIT, "the sandbox has %u contexts, as many as it may",
		KERNELS_A_SANDBOX);
	error_hint(err, "close one with DELETE .../repl/sessions/{id}");
	return NULL;
}

struct session *session_load(
	struct sandbox *sandbox, const struct session_row *row, struct error *err)
{
	if (row->slot >= KERNELS_A_SANDBOX || session_in_slot(sandbox, row->slot)) {
		error_set(err, ERROR_INTERNAL, "a session's row has a slot that is taken");
		return NULL;
	}
	enum language language;
	if (!language_find(row->language, &language)) {
		error_set(err, ERROR_INTERNAL, "a session's row has a language of another version");
		return NULL;
	}
	struct session *session = make(sandbox, row->slot, err);
	if (!session)
		return NULL;
	memcpy(session->id, row->id, sizeof(session->id));
	session->language = language;
	session->created_ms = row->created_ms;
	session->cells = row->cells;
	uint32_t *generation = &sandbox->generations[row->slot];
	*generation = MAX(*generation, row->generation);
	return session;
}

static void answer_creator(struct session *session, const struct error *why)
{
	struct call *call = session->creator;
	session->creator = NULL;
	guest_leave(&session->creation);
	if (!call)
		return;
	call->on_gone = NULL;
	answer_error(call, why);
}

static void fail_cells(struct session *session, const struct error *why)
{
	if (session->running)
		cell_fail(session->running, why);
	while (!list_is_empty(&session->queue))
		cell_fail(LIST_FIRST(&session->queue, struct cell, link), why);
}

static void end_with(struct session *session, const struct error *why)
{
	struct sandbox *sandbox = session->sandbox;
	fail_cells(session, why);
	if (session->creator)
		answer_creator(session, why);
	kernel_deinit(&session->kernel);
	log_finish(session->sandbox->log, &session->lines);
	unheard_deinit(&session->unheard[0]);
	unheard_deinit(&session->unheard[1]);
	list_remove(&session->link);
	list_remove(&session->dirty_link);
	sandbox->session_count--;
	api_return_descriptors(sandbox->api, DESCRIPTORS);
	free(session);
}

void session_free(struct session *session)
{
	struct error why;
	error_set(&why, ERROR_SANDBOX_ENDED, "the sandbox ended while the call ran");
	end_with(session, &why);
}

/* The kernel is stopped; until it has ended, its slot is not given away. */
static void retire_kernel(struct session *session)
{
	struct sandbox *sandbox = session->sandbox;
	if (session->kernel.state == KERNEL_NONE)
		return;
	sandbox->dying |= 1u << session->slot;
	sandbox->dying_pids[session->slot] = session->kernel.pid;
	kernel_stop(&session->kernel, NULL);
}

void session_close(struct session *session)
{
	struct sandbox *sandbox = session->sandbox;
	struct error err = { 0 }, why;
	error_set(&why, ERROR_SESSION_NOT_FOUND, "the context was closed");
	if (!session->is_one_shot &&
		!session_row_delete(sandbox->api->store, &sandbox->id, session->id, &err))
		log_error("store.session", sandbox->text, &err);
	retire_kernel(session);
	end_with(session, &why);
}

bool session_start(struct session *session, struct error *err)
{
	return session->kernel.state != KERNEL_NONE || kernel_start(&session->kernel, err);
}

/* ---- rows ---- */

static struct session_row row_of(const struct session *session)
{
	struct session_row row = { .sandbox = session->sandbox->id,
		.slot = session->slot,
		.generation = session->kernel.generation,
		.created_ms = session->created_ms,
		.cells = session->cells };
	memcpy(row.id, session->id, sizeof(row.id));
	snprintf(row.language, sizeof(row.language), "%s", language_name(session->language));
	return row;
}

static void mark_dirty(struct session *session)
{
	if (session->is_one_shot)
		return;
	list_remove(&session->dirty_link);
	list_append(&session->sandbox->api->dirty_sessions, &session->dirty_link);
}

void sessions_flush(struct api *api)
{
	struct error err = { 0 };
	if (list_is_empty(&api->dirty_sessions))
		return;
	if (!store_begin(api->store, &err))
		return log_error("store.session", NULL, &err);
	while (!list_is_empty(&api->dirty_sessions)) {
		struct session *session =
			LIST_FIRST(&api->dirty_sessions, struct session, dirty_link);
		struct session_row row = row_of(session);
		list_remove(&session->dirty_link);
		if (!session_row_update(api->store, &row, &err))
			log_error("store.session", session->sandbox->text, &err);
	}
	if (!store_commit(api->store, &err))
		log_error("store.session", NULL, &err);
}

/* ---- the queue ---- */

static void fail_first(struct session *session, const struct error *why)
{
	cell_fail(LIST_FIRST(&session->queue, struct cell, link), why);
}

/* Its cell has been answered: so ends the session, which is freed. */
static bool ends_with_cell(struct session *session)
{
	if (!session->is_one_shot || session->running || !list_is_empty(&session->queue))
		return false;
	session_close(session);
	return true;
}

/* Begins the next cell where the kernel is free for it. May free the session. */
static void pump(struct session *session)
{
	if (sandbox_is_paused(session->sandbox))
		return; /* session_go_on comes back */
	while (session->kernel.state == KERNEL_IDLE && kernel_is_open(&session->kernel) &&
		!list_is_empty(&session->queue)) {
		struct error err = { 0 };
		struct cell *cell = LIST_FIRST(&session->queue, struct cell, link);
		if (!cell_begin(cell, &err)) {
			fail_first(session, &err);
			continue;
		}
		log_finish(session->sandbox->log, &session->lines);
		list_remove(&cell->link);
		session->queue_count--;
		session->running = cell;
		session->cells++;
		mark_dirty(session);
	}
	ends_with_cell(session);
}

void session_pause(struct session *session)
{
	kernel_pause(&session->kernel);
}

void session_go_on(struct session *session, int64_t lasted_us)
{
	kernel_go_on(&session->kernel, lasted_us);
	pump(session);
}

bool session_add(struct session *session, struct cell *cell, struct error *err)
{
	if (session->queue_count >= QUEUE_LIMIT) {
		error_set(err, ERROR_SESSION_QUEUE, "%u cells wait for this context already",
			session->queue_count);
		return error_hint(err, "wait for answers, or use further contexts");
	}
	if (!session_start(session, err))
		return false;
	list_append(&session->queue, &cell->link);
	session->queue_count++;
	pump(session);
	return true;
}

/* ---- from the kernel ---- */

static void answer_created(struct session *session)
{
	struct call *call = session->creator;
	cleanup_writer struct writer writer = writer_make();
	session->creator = NULL;
	guest_leave(&session->creation);
	writer_open(&writer, NULL, '{');
	session_write(session, &writer);
	sandbox_write_expiry(session->sandbox, &writer);
	writer_close(&writer, '}');
	call->on_gone = NULL;
	answer_json(call, 201, &writer);
}

static void finish_creation(struct session *session)
{
	struct error err = { 0 };
	struct session_row row = row_of(session);
	if (session_row_insert(session->sandbox->api->store, &row, &err))
		return answer_created(session);
	answer_creator(session, &err);
	session_close(session);
}

void session_on_ready(struct session *session)
{
	if (session->creator)
		finish_creation(session); /* nothing waits in a new session's queue */
	else
		pump(session);
}

void session_on_start_failed(struct session *session, const struct error *err)
{
	struct error why = *err;
	bool is_new = session->creator;
	if (why.code == ERROR_INTERNAL)
		why.code = ERROR_KERNEL_START;
	error_context(&why, "the kernel did not start");
	log_error("kernel.start", session->sandbox->text, &why);
	if (is_new)
		return end_with(session, &why);
	fail_cells(session, &why);
	ends_with_cell(session);
}

static void take_unheard(struct session *session, unsigned stream, const char *bytes, size_t size)
{
	unheard_feed(&session->unheard[stream], bytes, size);
	log_take(session->sandbox->log, &session->lines, stream, bytes, size);
}

void session_on_output(struct session *session, unsigned stream, const char *bytes, size_t size)
{
	if (session->running)
		cell_take_output(session->running, stream, bytes, size);
	else if (session->kernel.state == KERNEL_IDLE)
		take_unheard(session, stream, bytes, size);
}

void session_on_value(struct session *session, const struct frames_value *value)
{
	if (session->running)
		cell_take_value(session->running, value);
}

bool session_is_behind(const struct session *session)
{
	return session->running && cell_is_behind(session->running);
}

void session_resume(struct session *session)
{
	kernel_resume(&session->kernel);
}

void session_on_lost(struct session *session, uint64_t count)
{
	if (session->running)
		session->running->record->values.lost += count;
}

void session_on_late(struct session *session, uint32_t run)
{
	if (session->running && session->running->run == run)
		session->running->is_late = true;
}

void session_on_done(struct session *session)
{
	struct cell *cell = session->running;
	session->running = NULL;
	if (cell)
		cell_finish(cell, cell->is_late ? CELL_LATE : CELL_DONE, NULL, 0);
	pump(session);
}

/* ---- the kernel's end ---- */

const char *session_request(const struct session *session)
{
	const struct cell *cell = session->running;
	const struct call *call = cell ? cell->call : session->creator;
	if (!call && cell && cell->record && cell->record->attached)
		call = cell->record->attached->call;
	return call ? http_request_id(call->request) : NULL;
}

static void note_restart(struct session *session, const char *reason)
{
	struct note note;
	session->sandbox->api->stats.kernels_restarted++;
	struct writer *writer = note_begin(&note, session->sandbox, "kernel.restarted");
	writer_text(writer, "session_id", session->id);
	writer_text(writer, "reason", reason);
	note_end(&note);
}

void session_restart(struct session *session, const char *reason)
{
	struct error err = { 0 };
	session->is_restarted = true;
	note_restart(session, reason);
	snprintf(session->restart_reason, sizeof(session->restart_reason), "%s", reason);
	if (!session_start(session, &err))
		return session_on_start_failed(session, &err);
	mark_dirty(session);
}

/* Only once a cell, so that a kernel that dies as often as it is started ends that, too. */
static bool may_put_back(const struct cell *cell, const struct warden_kernel_ended *ended)
{
	return !cell->was_put_back && !cell->is_late && !cell->record->is_cancelled &&
	       ended->reason != KERNEL_END_TIMEOUT;
}

/* It has not begun: it is the next one's first. */
static void put_back(struct session *session, struct cell *cell)
{
	cell->was_put_back = true;
	cell->begun_us = 0;
	cell->record->state = RUN_QUEUED;
	list_append(session->queue.next, &cell->link); /* ahead of the first */
	session->queue_count++;
	session->cells--;
}

void session_on_kernel_ended(struct session *session, const struct warden_kernel_ended *ended,
	const char *broken, bool was_ready, bool has_begun, uint32_t pid)
{
	struct cell *cell = session->running;
	char text[256];
	inside_sweep(session->sandbox, pid);
	kernel_end_describe(ended, broken, text, sizeof(text));
	log_set_request(session_request(session));
	log_write(LOG_INFO, "kernel.ended", session->sandbox->text, "%s", text);
	log_set_request(NULL);
	if (!was_ready) {
		struct error err;
		error_set(&err, ERROR_KERNEL_START, "%s", text);
		session->is_restarted = !session->creator;
		return session_on_start_failed(session, &err);
	}
	session->running = NULL;
	if (cell && !has_begun && may_put_back(cell, ended))
		put_back(session, cell);
	else if (cell)
		cell_finish(cell, kernel_end_outcome(cell, ended), text, kernel_end_exit(ended));
	if (ended->reason == KERNEL_END_MEMORY)
		sandbox_count_kills(session->sandbox);
	if (ends_with_cell(session))
		return;
	session_restart(session, ended->reason == KERNEL_END_MEMORY ? "memory_limit" : text);
}

/* ---- as the API shows it ---- */

void session_write(const struct session *session, struct writer *writer)
{
	char created[CLOCK_TEXT_SIZE];
	clock_text(session->created_ms, created);
	writer_text(writer, "id", session->id);
	writer_text(writer, "sandbox_id", session->sandbox->text);
	writer_text(writer, "language", language_name(session->language));
	writer_text(writer, "created_at", created);
	writer_int(writer, "cells", (int64_t)session->cells);
}
