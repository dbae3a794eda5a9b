/*
 * One shell command in a sandbox: started by init, its two pipes read here, its end told by init on
 * a socket of its own. What is done with the output is the owner's: captured (exec.c) or streamed
 * (exec_stream.c). Closing the socket early cancels the command and all its children.
 */
#ifndef API_COMMAND_H
#define API_COMMAND_H

#include "api/call.h"
#include "api/command_input.h"
#include "api/command_limits.h"
#include "api/sandbox.h"
#include "api/sandbox_log.h"
#include "wire/inside.h"

#include <jansson.h>

#define COMMAND_LIMIT_S 86400

struct command;

enum command_end {
	COMMAND_ENDED,   /* `result` says how */
	COMMAND_LOST,    /* no word came about its end */
	COMMAND_SANDBOX, /* its sandbox ended */
};

struct command_owner {
	/* False: no room now; the bytes are kept, and reading stops until command_resume. */
	bool (*on_output)(struct command *command, unsigned stream, const char *bytes, size_t size);
	/* All output has come, and it has ended: may the limit of processes be behind it? NULL: no. */
	bool (*tells_no_process)(struct command *command);
	/* The last call, but for COMMAND_SANDBOX where the owner keeps the command. The owner frees
	 * it with command_free. */
	void (*on_end)(struct command *command, enum command_end end);
	/* It has read so much of its input. NULL where there is none. */
	void (*on_taken)(struct command *command, size_t size);
};

extern const char *const command_streams[2]; /* "stdout", "stderr" */

struct command_stream {
	struct command *command;   /* owner of this */
	struct loop_source source; /* its descriptor is owned; -1: at its end */
};

struct command {
	const struct command_owner *owner;
	void *state; /* the owner's */
	struct api *api;
	struct guest guest;
	struct sandbox *sandbox; /* not owned; NULL once its end was noted */
	char id[SHORT_ID_TEXT];  /* as events name it */
	struct log_lines lines;
	struct loop_source answer;        /* its descriptor is owned */
	struct command_stream streams[2]; /* stdout, stderr */
	struct command_input input;       /* stdin, where it has one */
	unsigned descriptors;             /* that are counted for it */
	struct inside_command_answer result;
	struct command_limits limits;
	bool has_result, is_paused;
	bool is_stopped;    /* its sandbox is paused, and its clock stands still */
	int64_t stopped_us; /* for how long it has, before now */
	uint32_t limit_ms;
	int64_t begun_us;
	struct loop_timer patience;
};

/* What a command is asked for with: "cmd", which stays the object's, and "timeout_seconds";
 * `limit_ms` holds the default. */
bool command_read(json_t *order, uint32_t *limit_ms, const char **ret_text, size_t *ret_size,
	struct error *err);
/* The same of a request's body, which is the caller's then, also on failure. */
bool command_read_body(struct call *call, uint32_t *limit_ms, json_t **ret_body,
	const char **ret_text, size_t *ret_size, struct error *err);
/* NULL and err: nothing was started. */
struct command *command_start(struct sandbox *sandbox, const char *text, size_t size,
	uint32_t limit_ms, const struct command_owner *owner, void *state, struct error *err);
/* One whose standard input is what is added to its `input`; else that is empty. */
struct command *command_start_fed(struct sandbox *sandbox, const char *text, size_t size,
	uint32_t limit_ms, const struct command_owner *owner, void *state, struct error *err);
/* There is room again: reads on. */
void command_resume(struct command *command);
/* Cancels what still runs. */
void command_free(struct command *command);
/* 128 + signal for one that was killed. */
int command_exit_code(const struct command *command);
/* What to answer when it has no exit code to tell: too late, lost, not started. ERROR_NONE: it
 * ended. */
void command_problem(const struct command *command, enum command_end end, struct error *err);

#endif
