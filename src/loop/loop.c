/*
 * Epoll, level triggered, and a binary heap of timers. Events are fetched in batches; a source that
 * is forgotten while its event waits in the batch has that event struck out, which is what makes
 * "free the owner as the last act" safe.
 */
#include "loop/loop.h"

#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <sys/signalfd.h>

bool loop_init(struct loop *loop, struct error *err)
{
	*loop = (struct loop){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
	if (loop->epoll_fd < 0)
		return error_from_os(err, errno, "cannot make an event loop");
	return true;
}

void loop_deinit(struct loop *loop)
{
	for (size_t i = 0; i < loop->timers; i++)
		loop->heap[i]->loop = NULL;
	free(loop->heap);
	fd_close(&loop->epoll_fd);
	*loop = (struct loop){ .epoll_fd = -1 };
}

bool loop_watch(struct loop *loop, struct loop_source *source, int fd, uint32_t events,
	loop_on_ready on_ready, struct error *err)
{
	struct epoll_event event = { .events = events, .data.ptr = source };
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return error_from_os(err, errno, "cannot watch a descriptor");
	*source = (struct loop_source){
		.fd = fd, .on_ready = on_ready, .loop = loop, .events = events
	};
	return true;
}

void loop_rewatch(struct loop_source *source, uint32_t events)
{
	if (!source->loop || source->events == events)
		return;
	struct epoll_event event = { .events = events, .data.ptr = source };
	int result = epoll_ctl(source->loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event);
	assert(result == 0);
	source->events = events;
}

void loop_forget(struct loop_source *source)
{
	struct loop *loop = source->loop;
	if (!loop)
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	for (int i = loop->batch_next; i < loop->batch_size; i++)
		if (loop->batch[i].data.ptr == source)
			loop->batch[i].data.ptr = NULL;
	source->loop = NULL;
}

void loop_close(struct loop_source *source)
{
	loop_forget(source);
	fd_close(&source->fd);
}

/* ---- timers: a binary heap ordered by due_us; each timer knows its place ---- */

static void heap_put(struct loop *loop, size_t place, struct loop_timer *timer)
{
	loop->heap[place] = timer;
	timer->place = place;
}

static void heap_rise(struct loop *loop, size_t place)
{
	struct loop_timer *timer = loop->heap[place];
	while (place > 0 && loop->heap[(place - 1) / 2]->due_us > timer->due_us) {
		heap_put(loop, place, loop->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	heap_put(loop, place, timer);
}

static void heap_sink(struct loop *loop, size_t place)
{
	struct loop_timer *timer = loop->heap[place];
	for (;;) {
		size_t child = 2 * place + 1;
		if (child >= loop->timers)
			break;
		if (child + 1 < loop->timers &&
			loop->heap[child + 1]->due_us < loop->heap[child]->due_us)
			child++;
		if (loop->heap[child]->due_us >= timer->due_us)
			break;
		heap_put(loop, place, loop->heap[child]);
		place = child;
	}
	heap_put(loop, place, timer);
}

void loop_timer_stop(struct loop_timer *timer)
{
	struct loop *loop = timer->loop;
	timer->is_halted = false;
	if (!loop)
		return;
	timer->loop = NULL;
	size_t place = timer->place;
	struct loop_timer *last = loop->heap[--loop->timers];
	if (last == timer)
		return;
	heap_put(loop, place, last);
	heap_sink(loop, place);
	heap_rise(loop, last->place);
}

void loop_timer_start_at(
	struct loop *loop, struct loop_timer *timer, int64_t due_us, loop_on_due on_due)
{
	loop_timer_stop(timer);
	if (loop->timers == loop->heap_capacity) {
		size_t capacity = MAX(loop->heap_capacity * 2, (size_t)16);
		struct loop_timer **heap =
			realloc(loop->heap, capacity * sizeof(struct loop_timer *));
		assert(heap);
		loop->heap = heap;
		loop->heap_capacity = capacity;
	}
	*timer = (struct loop_timer){ .due_us = due_us, .on_due = on_due, .loop = loop };
	heap_put(loop, loop->timers, timer);
	heap_rise(loop, loop->timers++);
}

void loop_timer_start(
	struct loop *loop, struct loop_timer *timer, int64_t delay_ms, loop_on_due on_due)
{
	loop_timer_start_at(loop, timer, clock_monotonic_us() + delay_ms * 1000, on_due);
}

void loop_timer_halt(struct loop_timer *timer)
{
	if (!timer->loop)
		return;
	int64_t left_us = timer->due_us - clock_monotonic_us();
	loop_timer_stop(timer);
	timer->due_us = MAX(left_us, (int64_t)0);
	timer->is_halted = true;
}

void loop_timer_go_on(struct loop *loop, struct loop_timer *timer)
{
	if (timer->is_halted)
		loop_timer_start_at(
			loop, timer, clock_monotonic_us() + timer->due_us, timer->on_due);
}

int loop_signal_fd(const sigset_t *signals, struct error *err)
{
	if (sigprocmask(SIG_BLOCK, signals, NULL) < 0) {
		error_from_os(err, errno, "cannot block signals");
		return -1;
	}
	int fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		error_from_os(err, errno, "cannot make a signal descriptor");
	return fd;
}

/* Runs what is due and returns the milliseconds until the next timer, -1 for none. */
static int run_timers(struct loop *loop)
{
	int64_t now = clock_monotonic_us();
	while (loop->timers > 0 && !loop->is_stopping) {
		struct loop_timer *timer = loop->heap[0];
		if (timer->due_us > now)
			return (int)MIN((timer->due_us - now + 999) / 1000, (int64_t)3600000);
		loop_timer_stop(timer);
		timer->on_due(timer);
	}
	return -1;
}

bool loop_run(struct loop *loop, struct error *err)
{
	loop->is_stopping = false;
	while (!loop->is_stopping) {
		int timeout_ms = run_timers(loop);
		if (loop->is_stopping)
			break;
		int n = epoll_wait(
			loop->epoll_fd, loop->batch, (int)ARRAY_SIZE(loop->batch), timeout_ms);
		if (n < 0 && errno != EINTR)
			return error_from_os(err, errno, "cannot wait for events");
		loop->batch_size = MAX(n, 0);
		for (loop->batch_next = 0; loop->batch_next < loop->batch_size;) {
			struct epoll_event *event = &loop->batch[loop->batch_next++];
			struct loop_source *source = event->data.ptr;
			if (source)
				source->on_ready(source, event->events);
		}
		loop->batch_size = 0;
	}
	return true;
}

void loop_stop(struct loop *loop)
{
	loop->is_stopping = true;
}
