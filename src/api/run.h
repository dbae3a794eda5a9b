/*
 * A run as clients see it: what became of one cell, all that it printed and showed so far, and
 * those that follow it. It begins with the cell, outlives it by RUN_KEPT_MS, and ends with its
 * sandbox at the latest.
 *
 * Bounds: a run keeps its latest RUN_WINDOW bytes; a sandbox keeps RUNS_KEPT ended runs and
 * RUNS_SANDBOX_BYTES of them, all sandboxes together RUNS_BYTES. At a bound the oldest ended runs
 * are forgotten, where many sandboxes share one those of the sandbox that keeps most.
 */
#ifndef API_RUN_H
#define API_RUN_H

#include "api/follow.h"
#include "api/journal.h"
#include "api/sandbox.h"
#include "api/values.h"

#define RUN_KEPT_MS (10 * 60 * 1000)
#define RUN_WINDOW ((size_t)24 << 20)
#define RUNS_KEPT 64
#define RUNS_SANDBOX_BYTES ((uint64_t)64 << 20)
#define RUNS_BYTES ((uint64_t)512 << 20)
#define RUN_BACKLOG ((uint64_t)1 << 20) /* unread by its own client: then its pipes wait */
#define RUN_LEFT ((size_t)2 << 20)      /* of a forgotten run, for those that still read it */

enum run_state {
	RUN_QUEUED,
	RUN_RUNNING,
	RUN_DONE,
	RUN_INTERRUPTED,
	RUN_TIMEOUT,
	RUN_KERNEL_DIED,
};

enum run_record { /* kinds of records; the first two are bytes as printed, the rest JSON objects */
	RUN_STDOUT,
	RUN_STDERR,
	RUN_DISPLAY,
	RUN_UPDATE,
	RUN_RESULT,
	RUN_CLEAR,
	RUN_ERROR,
	RUN_END,
};

struct cell;

struct run {
	struct list link;        /* in sandbox->runs, oldest first */
	struct run *bucket_next; /* in api->runs */
	struct sandbox *sandbox; /* not owned: outlives it */
	char id[SHORT_ID_TEXT], session_id[SHORT_ID_TEXT];
	enum run_state state;
	bool is_detached;                     /* goes on without its client */
	bool is_cancelled;                    /* asked for */
	int64_t asked_ms, begun_ms, ended_ms; /* wall time; 0: not yet */
	struct journal *journal;              /* a reference */
	struct {
		char bytes[4];
		uint8_t size;
	} broken[2]; /* the beginning of a character at the end of what each stream brought */
	struct values values;
	char *failure, *ending;    /* owned: members of an object, as JSON text; NULL: not ended */
	struct cell *cell;         /* not owned; NULL once it has ended */
	struct follower *attached; /* not owned: the client that asked for the run, as a stream */
	struct loop_timer forget;
};

/* One in state queued. NULL and err. */
struct run *run_new(
	struct sandbox *sandbox, const char *session_id, struct cell *cell, struct error *err);
void run_begin(struct run *run);
void run_take_output(struct run *run, unsigned stream, const char *bytes, size_t size);
void run_take_value(struct run *run, const struct frames_value *value);
/* Its cell is over. The texts are taken; either may be NULL. `error` is the event's object, or
 * NULL. */
void run_end(struct run *run, enum run_state state, char *failure, char *ending, const char *error);
/* It has never been: nobody was told of it. */
void run_discard(struct run *run);
/* Its client's stream has much unread. */
bool run_is_behind(const struct run *run);

/* Of that owner; NULL. */
struct run *run_find(struct api *api, const char *id, const char *owner);
/* Ids, "state", times, how it ended, and what failed. */
void run_write_head(const struct run *run, bool shows_failure, struct writer *writer);
/* Answers with its events from that place on, as it goes. NULL and err: nothing is answered. */
struct follower *run_follow(struct run *run, struct call *call, uint64_t place, struct error *err);

/* The sandbox ends: all its runs go; streams that follow one read it to its end. */
void runs_end(struct sandbox *sandbox);

#endif
