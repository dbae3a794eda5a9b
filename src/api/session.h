/*
 * A code context: one kept kernel and the cells that wait for it, run one at a time in order. A
 * kernel that dies is replaced at once; the next answer tells that its state is gone.
 */
#ifndef API_SESSION_H
#define API_SESSION_H

#include "api/cell.h"
#include "api/kernel.h"
#include "api/sandbox.h"
#include "api/unheard.h"
#include "store/sessions.h"
#include "wire/languages.h"

#define QUEUE_LIMIT 64

struct session {
	struct sandbox *sandbox; /* not owned: outlives it */
	struct list link;        /* in sandbox->sessions */
	struct list dirty_link;  /* in api->dirty_sessions */
	char id[SHORT_ID_TEXT];
	unsigned slot;
	enum language language;
	int64_t created_ms;
	uint64_t cells;
	struct kernel kernel;
	struct list queue; /* of struct cell */
	unsigned queue_count;
	struct cell *running;      /* NULL also while an unwanted run is being interrupted */
	struct call *creator;      /* waits for the first READY; until then there is no row */
	struct guest creation;     /* keeps the sandbox busy meanwhile */
	struct unheard unheard[2]; /* output of each stream between cells */
	struct log_lines lines;    /* of the same */
	bool is_one_shot;          /* no row, in no list; ends with its cell */
	bool is_restarted;         /* to be told in the next answer */
	char restart_reason[160];
};

/* A session in a free slot, without kernel and row. NULL and err (session.too_many). */
struct session *session_new(struct sandbox *sandbox, enum language language, struct error *err);
/* One whose row was there before this process. */
struct session *session_load(
	struct sandbox *sandbox, const struct session_row *row, struct error *err);
/* Ends what waits with an error, frees. Says nothing to the warden. */
void session_free(struct session *session);
/* As asked for: stops the kernel, deletes the row, frees. */
void session_close(struct session *session);
struct session *session_find(struct sandbox *sandbox, const char *id);
struct session *session_in_slot(struct sandbox *sandbox, uint32_t slot);
/* Starts a kernel where there is none. */
bool session_start(struct session *session, struct error *err);
/* As session_start, for a session whose kernel is gone: the next answer tells why. */
void session_restart(struct session *session, const char *reason);
/* Its sandbox was paused; it goes on: with the next cell, too. */
void session_pause(struct session *session);
void session_go_on(struct session *session, int64_t lasted_us);
/* Appends and, when it is its turn, begins. False and err (session.queue_full): not taken. */
bool session_add(struct session *session, struct cell *cell, struct error *err);
/* The client's request for which its kernel is at work; NULL. */
const char *session_request(const struct session *session);
/* There is room for output again. */
void session_resume(struct session *session);
void session_write(const struct session *session, struct writer *writer);
/* Writes the rows whose counts have changed. */
void sessions_flush(struct api *api);

/* From the kernel. */
void session_on_ready(struct session *session);
void session_on_start_failed(struct session *session, const struct error *err);
void session_on_output(struct session *session, unsigned stream, const char *bytes, size_t size);
void session_on_value(struct session *session, const struct frames_value *value);
/* So many values of the run were too big, or not whole. */
void session_on_lost(struct session *session, uint64_t count);
/* Whether the client of the cell under way is slow, so that its output has to wait. */
bool session_is_behind(const struct session *session);
void session_on_done(struct session *session);
/* `has_begun`: it has read the source of its run, or may have. */
void session_on_kernel_ended(struct session *session, const struct warden_kernel_ended *ended,
	const char *broken, bool was_ready, bool has_begun, uint32_t pid);
/* From the warden: the run's limit has come. */
void session_on_late(struct session *session, uint32_t run);

#endif
