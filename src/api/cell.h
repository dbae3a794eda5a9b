/* One cell: from the request that brings it to the answer that tells how it went. */
#ifndef API_CELL_H
#define API_CELL_H

#include "api/call.h"
#include "api/output.h"
#include "api/run.h"
#include "api/sandbox.h"
#include "api/sandbox_log.h"

#include <jansson.h>

#define CELL_LIMIT_MS 86400000

struct session;

enum cell_outcome {
	CELL_DONE,   /* it ran to its end, well or with an error */
	CELL_LATE,   /* interrupted at its limit; the kernel lives */
	CELL_KILLED, /* its limit came, and the kernel had to be replaced */
	CELL_MEMORY, /* the kernel reached the memory limit */
	CELL_DIED,   /* the kernel died of something else */
};

struct cell {
	struct guest guest;
	struct list link;        /* in session->queue */
	struct session *session; /* not owned */
	struct call *call;       /* not owned; NULL where nobody waits for the answer */
	struct run *record;      /* owned by the sandbox; NULL only while being made or freed */
	json_t *body;            /* owned: holds the code */
	const char *code;        /* in body */
	size_t code_size, held;  /* held: of it, counted as such */
	uint32_t limit_ms, run;
	int64_t asked_us, begun_us;
	bool is_late;
	bool was_put_back; /* its kernel died before it had begun: this is the second try */
	bool is_streamed;  /* its client gets events, as a follower of the run */
	struct output streams[2];
	struct log_lines lines;
	struct loop_timer padding;
};

/* Makes a cell of the call's body, and puts it into the queue; the call is answered when it may be.
 * False and err: nothing is answered. */
bool cell_submit(struct call *call, struct session *session, struct error *err);
/* What the kernel says. */
void cell_take_output(struct cell *cell, unsigned stream, const char *bytes, size_t size);
void cell_take_value(struct cell *cell, const struct frames_value *value);
/* Whether the reading of its output has to wait for its client. */
bool cell_is_behind(const struct cell *cell);
/* Interrupts it, or takes it out of the queue. Its answer tells. May free the cell. */
void cell_cancel(struct cell *cell);
/* It is its turn: hands the code to the kernel. */
bool cell_begin(struct cell *cell, struct error *err);
/* Answers and frees. `text` says what happened where the outcome is none of done and late.
 * `status`: the exit code to tell for a kernel that died. */
void cell_finish(struct cell *cell, enum cell_outcome outcome, const char *text, int status);
/* Answers with an error and frees: it has not run, or its context or sandbox is gone. */
void cell_fail(struct cell *cell, const struct error *why);

/* In run_answer.c: how it went, into the run and to who waits. */
void run_answer_tell(struct cell *cell, enum cell_outcome outcome, const char *text, int status);
/* It was not run to an end: tells the run alone. */
void run_answer_fail(struct cell *cell, const struct error *why);

#endif
