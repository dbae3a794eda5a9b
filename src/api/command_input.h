/*
 * The standard input of a command, where it has one: a pipe into the sandbox, filled as fast as the
 * command reads. What it has not taken waits here, up to COMMAND_INPUT_LIMIT; who sends it hears what
 * was taken, and so how much more may come.
 */
#ifndef API_COMMAND_INPUT_H
#define API_COMMAND_INPUT_H

#include "base/buf.h"
#include "base/error.h"
#include "loop/loop.h"

#define COMMAND_INPUT_LIMIT ((size_t)128 << 10)

struct command_input;
typedef void (*command_input_on_taken)(struct command_input *input, size_t size);

struct command_input {
	struct loop *loop; /* not owned */
	struct loop_source
		source;     /* its descriptor, the writing end, is owned; -1: no input, or ended */
	struct buf waiting; /* owned */
	bool is_ended;      /* nothing more comes: closed when all is taken */
	bool is_left;       /* nobody reads it any more: what comes is dropped, as taken */
	command_input_on_taken on_taken;
};

void command_input_init(struct command_input *input);
/* *ret_fd, the reading end, is the caller's. */
bool command_input_open(struct command_input *input, struct loop *loop,
	command_input_on_taken on_taken, int *ret_fd, struct error *err);
/* False: it is more than may wait, or comes after the end, and nothing is taken. */
bool command_input_add(struct command_input *input, const char *bytes, size_t size);
void command_input_end(struct command_input *input); /* idempotent */
void command_input_deinit(struct command_input *input);

#endif
