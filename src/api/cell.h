/* One cell: from the request that brings it to the answer that tells how it went. */
#ifndef API_CELL_H
#define API_CELL_H

#include "api/call.h"
#include "api/output.h"
#include "api/sandbox.h"
#include "api/values.h"

#include <jansson.h>

#define CELL_DEFAULT_MS 28000
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
	struct call *call;       /* not owned; NULL once the client is gone */
	json_t *body;            /* owned: holds the code */
	const char *code;        /* in body */
	size_t code_size;
	uint32_t limit_ms, run;
	int64_t asked_us, begun_us;
	bool is_late;
	struct output streams[2];
	struct values values;
	struct loop_timer padding;
};

/* Reads the body; NULL and err. The cell is the call's state from then on. */
struct cell *cell_new(struct call *call, struct session *session, struct error *err);
/* It is its turn: hands the code to the kernel. */
bool cell_begin(struct cell *cell, struct error *err);
/* Answers and frees. `text` says what happened where the outcome is none of done and late.
 * `status`: the exit code to tell for a kernel that died. */
void cell_finish(struct cell *cell, enum cell_outcome outcome, const char *text, int status);
/* Answers with an error and frees: the cell has not run, or its sandbox is gone. */
void cell_fail(struct cell *cell, const struct error *why);

/* In run_answer.c: the body of the answer. */
void run_answer_send(struct cell *cell, enum cell_outcome outcome, const char *text, int status);

#endif
