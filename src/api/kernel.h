/*
 * A session's kernel: one process of user code behind a frames socket and two pipes. Hostile: what
 * it sends is bounded, and one that breaks the protocol is stopped. The session is told through the
 * session_on_... functions.
 */
#ifndef API_KERNEL_H
#define API_KERNEL_H

#include "api/frames.h"
#include "api/warden.h"
#include "loop/loop.h"

struct session;
struct cell;

enum kernel_state {
	KERNEL_NONE,     /* no process */
	KERNEL_STARTING, /* the warden is asked for one */
	KERNEL_WARMING,  /* it is there; READY is awaited */
	KERNEL_IDLE,
	KERNEL_RUNNING,  /* a run is under way */
	KERNEL_STALE,    /* an earlier api's run may be under way; the end of a probe is awaited */
	KERNEL_SETTLING, /* its run has ended; an interrupt of it may still be on its way */
	KERNEL_ENDING,   /* it is being stopped; KERNEL_ENDED is awaited */
};

struct kernel_stream {
	struct kernel *kernel;     /* owner of this */
	struct loop_source source; /* its descriptor is owned; -1: none */
};

struct kernel {
	struct session *session; /* owner of this */
	enum kernel_state state;
	uint32_t generation, pid;  /* pid: as seen inside; also its session id there */
	uint32_t run;              /* the one under way, or 0 */
	int64_t due_us;            /* when its limit comes */
	bool is_done;              /* its DONE has come, but the warden may have a word about it */
	bool is_reset;             /* it hung up with something of ours unread */
	bool is_unread;            /* stopped before it had read the run's source */
	struct loop_source frames; /* its descriptor is owned; -1: none */
	struct kernel_stream streams[2]; /* stdout, stderr */
	bool is_paused;                  /* they are not watched: the reader of a run is slow */
	struct frames assembly;
	const char *code; /* not owned: what is being sent of the run's source */
	size_t code_size, code_sent;
	struct warden_request starting, beginning, settling;
	struct loop_timer patience; /* bounds what is awaited */
	struct loop_timer rest;     /* between looks at output that nobody asked for */
	unsigned interrupts;        /* sent because nobody wants the run any more */
	char broken[96];            /* why it is being stopped; empty: asked for */
};

void kernel_init(struct kernel *kernel, struct session *session);
/* Asks the warden for one. False and err: not even asked. */
bool kernel_start(struct kernel *kernel, struct error *err);
/* One that already runs: takes the three descriptors. `run`: under way, or 0. */
bool kernel_adopt(struct kernel *kernel, const struct warden_kernel *item,
	struct wire_packet *packet, struct error *err);
/* It has not hung up. */
bool kernel_is_open(const struct kernel *kernel);
/* Begins a run; `code` must stay until it has ended. */
bool kernel_run(struct kernel *kernel, uint32_t run, const char *code, size_t size,
	uint32_t limit_ms, struct error *err);
/* Nobody wants the run any more: interrupts it, and again, and in the end stops the kernel. */
void kernel_abandon(struct kernel *kernel);
/* Its sandbox was paused: what is awaited of it is awaited no longer, until it goes on. */
void kernel_pause(struct kernel *kernel);
void kernel_go_on(struct kernel *kernel, int64_t lasted_us);
/* Reads output again, where it was paused because the session was behind. */
void kernel_resume(struct kernel *kernel);
/* SIGINT to the run under way, if there is one. */
void kernel_interrupt(struct kernel *kernel);
/* Stops one that has run cells or could; the session starts the next. One that is starting is fresh
 * already. */
void kernel_restart(struct kernel *kernel);
/* Stops it; the warden's KERNEL_ENDED follows. `why`: a protocol it broke, or NULL. */
void kernel_stop(struct kernel *kernel, const char *why);
/* The warden says that it has ended. */
void kernel_on_ended(struct kernel *kernel, const struct warden_kernel_ended *ended);
/* Lets go of the descriptors, without a word to the warden. */
void kernel_deinit(struct kernel *kernel);

#endif
