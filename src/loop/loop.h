/*
 * The event loop: descriptors, timers, signals. One thread; no handler blocks.
 *
 * Sources and timers are embedded in their owner. After loop_forget() or loop_timer_stop() the loop
 * touches them no more, also not for events already fetched, so a handler may free its owner as its
 * last act.
 */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include "base/error.h"

#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>

struct loop_source;
struct loop_timer;
typedef void (*loop_on_ready)(struct loop_source *source, uint32_t events);
typedef void (*loop_on_due)(struct loop_timer *timer);

struct loop_source {
	int fd;                 /* not owned by the loop */
	loop_on_ready on_ready; /* gets EPOLL* bits; EPOLLERR and EPOLLHUP come unasked */
	struct loop *loop;      /* NULL while not watched */
	uint32_t events;
};

struct loop_timer {
	int64_t due_us; /* CLOCK_MONOTONIC */
	loop_on_due on_due;
	struct loop *loop; /* NULL while not running */
	size_t place;      /* in the loop's heap */
	bool is_halted;    /* not running; due_us is the time that was left */
};

struct loop {
	int epoll_fd;
	bool is_stopping;
	struct loop_timer **heap; /* owned array; soonest first */
	size_t timers, heap_capacity;
	struct epoll_event batch[64]; /* events being handed out */
	int batch_size, batch_next;
};

bool loop_init(struct loop *loop, struct error *err);
void loop_deinit(struct loop *loop);

/* Level triggered. Source must be zeroed or forgotten before. */
bool loop_watch(struct loop *loop, struct loop_source *source, int fd, uint32_t events,
	loop_on_ready on_ready, struct error *err);
/* Changes the wanted events (0: only errors and hang-up). */
void loop_rewatch(struct loop_source *source, uint32_t events);
/* Idempotent. Does not close the descriptor; call it before closing. */
void loop_forget(struct loop_source *source);
/* For owners whose source holds their descriptor: forgets, and closes it where there is one. */
void loop_close(struct loop_source *source);

/* Starts or moves a timer. Aborts only when out of memory. */
void loop_timer_start(
	struct loop *loop, struct loop_timer *timer, int64_t delay_ms, loop_on_due on_due);
void loop_timer_start_at(
	struct loop *loop, struct loop_timer *timer, int64_t due_us, loop_on_due on_due);
void loop_timer_stop(struct loop_timer *timer); /* idempotent */
/* Stops a running timer and keeps the time it had left, for loop_timer_go_on; starting or stopping
 * it forgets that. Without effect on one that does not run. */
void loop_timer_halt(struct loop_timer *timer);
/* Starts a halted timer for the time it had left; without effect on others. */
void loop_timer_go_on(struct loop *loop, struct loop_timer *timer);

/* Blocks the signals of the set and returns a CLOEXEC signalfd for them; -1 and err. */
int loop_signal_fd(const sigset_t *signals, struct error *err);

/* Runs until loop_stop(). */
bool loop_run(struct loop *loop, struct error *err);
void loop_stop(struct loop *loop);

#endif
