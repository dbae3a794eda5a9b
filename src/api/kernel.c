/*
 * See kernel.h. Frames and output are read with plain recv() and read() into one scratch buffer of
 * the api: there is no control buffer, so descriptors that user code sends along are dropped by the
 * system. Each wake-up reads a bounded amount, so one flooding kernel cannot starve the others.
 */
#include "api/kernel.h"

#include "api/api.h"
#include "api/bash_lines.h"
#include "api/session.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define START_MS 30000
#define READY_MS 60000
#define SLACK_MS 15000 /* the warden's clock decides; this one is for when it fails */
#define ENDING_MS 10000
#define HANG_UP_MS 300 /* between the end of the socket and the warden's word */
#define INTERRUPT_MS 500
#define REST_MS 10
#define SETTLE_MS 5000
#define WORD_MS 2 /* for a packet that is in the socket already */
#define INTERRUPTS 20
#define FRAMES_A_TURN 32
#define DRAIN_LIMIT ((size_t)1 << 20) /* more than a pipe holds */

static void on_frames(struct loop_source *source, uint32_t events);
static void on_stream(struct loop_source *source, uint32_t events);

static struct api *api_of(const struct kernel *kernel)
{
	return kernel->session->sandbox->api;
}

void kernel_init(struct kernel *kernel, struct session *session)
{
	*kernel = (struct kernel){ .session = session,
		.frames.fd = -1,
		.streams = { { kernel, { .fd = -1 } }, { kernel, { .fd = -1 } } } };
	frames_init(&kernel->assembly);
}

static void close_source(struct loop_source *source)
{
	loop_forget(source);
	fd_close(&source->fd);
}

static void let_go(struct kernel *kernel)
{
	warden_cancel(&kernel->starting);
	warden_cancel(&kernel->beginning);
	warden_cancel(&kernel->settling);
	loop_timer_stop(&kernel->patience);
	loop_timer_stop(&kernel->rest);
	close_source(&kernel->frames);
	close_source(&kernel->streams[0].source);
	close_source(&kernel->streams[1].source);
	frames_begin(&kernel->assembly, 0);
	kernel->is_paused = false;
	kernel->code = NULL;
	kernel->run = 0;
	kernel->state = KERNEL_NONE;
}

void kernel_deinit(struct kernel *kernel)
{
	let_go(kernel);
	frames_deinit(&kernel->assembly);
}

/* ---- the warden's part ---- */

static struct warden_kernel describe(const struct kernel *kernel)
{
	struct warden_kernel message = { .sandbox = kernel->session->sandbox->id,
		.kernel = kernel->session->slot,
		.generation = kernel->generation };
	snprintf(message.language, sizeof(message.language), "%s",
		language_name(kernel->session->language));
	return message;
}

/* Without a warden the sandbox is about to end, and nothing is to be done for its kernels. */
static bool has_warden(const struct kernel *kernel)
{
	return api_of(kernel)->warden.source.loop;
}

static void tell_run(const struct kernel *kernel, uint16_t op)
{
	struct warden_run message = { .sandbox = kernel->session->sandbox->id,
		.kernel = kernel->session->slot,
		.generation = kernel->generation,
		.run = kernel->run };
	warden_tell(&api_of(kernel)->warden, op, &message, sizeof(message));
}

static void on_patience(struct loop_timer *timer);
static void finish_run(struct kernel *kernel);
static void send_code(struct kernel *kernel);
static void drain(struct kernel *kernel);
static void watch_streams(struct kernel *kernel);

static void wait_at_most(struct kernel *kernel, int64_t ms)
{
	loop_timer_start(&api_of(kernel)->loop, &kernel->patience, ms, on_patience);
	if (sandbox_is_paused(kernel->session->sandbox))
		loop_timer_halt(&kernel->patience);
}

void kernel_pause(struct kernel *kernel)
{
	loop_timer_halt(&kernel->patience);
	loop_timer_halt(&kernel->starting.limit);
}

void kernel_go_on(struct kernel *kernel, int64_t lasted_us)
{
	kernel->due_us += lasted_us;
	loop_timer_go_on(&api_of(kernel)->loop, &kernel->patience);
	loop_timer_go_on(&api_of(kernel)->loop, &kernel->starting.limit);
}

/* A kernel has to read all of a source before it can begin. What is still in our queue it has not
 * read; and one that dies with something unread leaves ECONNRESET behind. */
static bool is_source_unread(const struct kernel *kernel)
{
	int unread = 0, failure = 0;
	socklen_t size = sizeof(failure);
	if (kernel->state != KERNEL_RUNNING)
		return kernel->is_unread;
	if (kernel->code || kernel->is_reset)
		return true;
	if (kernel->frames.fd < 0)
		return false;
	getsockopt(kernel->frames.fd, SOL_SOCKET, SO_ERROR, &failure, &size);
	ioctl(kernel->frames.fd, SIOCOUTQ, &unread);
	return failure == ECONNRESET || unread > 0;
}

bool kernel_is_open(const struct kernel *kernel)
{
	return kernel->frames.fd >= 0;
}

/* For the request that waits for it, or else the one that asked for the stop. */
static void log_stopped(const struct kernel *kernel, const char *why)
{
	const char *before = log_request(), *id = session_request(kernel->session);
	log_set_request(id ? id : before);
	log_write(LOG_WARNING, "kernel.stopped", kernel->session->sandbox->text, "%s", why);
	log_set_request(before);
}

void kernel_stop(struct kernel *kernel, const char *why)
{
	if (kernel->state == KERNEL_NONE || kernel->state == KERNEL_ENDING)
		return;
	kernel->is_unread = is_source_unread(kernel);
	struct warden_kernel message = describe(kernel);
	warden_tell(&api_of(kernel)->warden, WARDEN_KERNEL_STOP, &message, sizeof(message));
	kernel->state = KERNEL_ENDING;
	close_source(&kernel->frames); /* its output is still wanted, its word is not */
	snprintf(kernel->broken, sizeof(kernel->broken), "%s", why ? why : "");
	if (why)
		log_stopped(kernel, why);
	wait_at_most(kernel, ENDING_MS);
}

static void end_without_word(struct kernel *kernel)
{
	struct warden_kernel_ended ended = {
		.generation = kernel->generation, .run = kernel->run, .reason = KERNEL_END_STOPPED
	};
	kernel_on_ended(kernel, &ended);
}

static void on_patience(struct loop_timer *timer)
{
	struct kernel *kernel = CONTAINER_OF(timer, struct kernel, patience);
	switch (kernel->state) {
	case KERNEL_ENDING:
		return end_without_word(kernel);
	case KERNEL_WARMING:
		return kernel_stop(kernel, "the kernel was not ready in time");
	case KERNEL_RUNNING:
	case KERNEL_STALE:
		if (kernel->is_done)
			return finish_run(kernel);
		if (kernel->frames.fd < 0)
			return kernel_stop(kernel, "the kernel closed its channel");
		if (kernel->interrupts > 0 && kernel->interrupts < INTERRUPTS)
			return kernel_abandon(kernel);
		return kernel_stop(kernel, "the kernel did not end its run");
	default:
		return kernel_stop(kernel, "the kernel closed its channel");
	}
}

static bool watch(struct kernel *kernel, struct loop_source *source, int fd, loop_on_ready on_ready,
	struct error *err)
{
	if (fd < 0)
		return error_set(err, ERROR_PROTOCOL, "a kernel came without its descriptors");
	fd_set_nonblocking(fd, true);
	if (loop_watch(&api_of(kernel)->loop, source, fd, EPOLLIN, on_ready, err))
		return true;
	close(fd);
	source->fd = -1;
	return false;
}

static bool attach(struct kernel *kernel, struct wire_packet *packet, struct error *err)
{
	return watch(kernel, &kernel->frames, wire_packet_take(packet, 0), on_frames, err) &&
	       watch(kernel, &kernel->streams[0].source, wire_packet_take(packet, 1), on_stream,
		       err) &&
	       watch(kernel, &kernel->streams[1].source, wire_packet_take(packet, 2), on_stream,
		       err);
}

static void on_started(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct kernel *kernel = CONTAINER_OF(request, struct kernel, starting);
	struct error failure = { 0 };
	if (!packet) {
		kernel->state = KERNEL_NONE;
		return session_on_start_failed(kernel->session, err);
	}
	kernel->pid = ((struct warden_kernel *)packet->bytes)->pid;
	kernel->state = KERNEL_WARMING;
	if (!attach(kernel, packet, &failure))
		return kernel_stop(kernel, failure.message);
	wait_at_most(kernel, READY_MS);
}

bool kernel_start(struct kernel *kernel, struct error *err)
{
	struct session *session = kernel->session;
	kernel->generation = ++session->sandbox->generations[session->slot];
	kernel->broken[0] = '\0';
	struct warden_kernel message = describe(kernel);
	if (!warden_ask(&api_of(kernel)->warden, &kernel->starting, WARDEN_KERNEL_START, &message,
		    sizeof(message), START_MS, on_started, err))
		return false;
	kernel->state = KERNEL_STARTING;
	return true;
}

/* Whether the earlier api's run has ended cannot be known: its DONE may have been read, or its
 * source never been sent whole. So a cell that cannot do anything (NUL is no Python) is put behind
 * it: when that has ended, so has all before. */
static void probe(struct kernel *kernel)
{
	static const char nothing[] = "\0";
	frames_begin(&kernel->assembly, api_next_run(api_of(kernel)));
	kernel->state = KERNEL_STALE;
	kernel->code = nothing;
	kernel->code_size = 1;
	kernel->code_sent = 0;
	kernel_abandon(kernel);
	send_code(kernel);
}

bool kernel_adopt(struct kernel *kernel, const struct warden_kernel *item,
	struct wire_packet *packet, struct error *err)
{
	kernel->generation = item->generation;
	kernel->pid = item->pid;
	kernel->run = item->run;
	kernel->state = KERNEL_IDLE;
	if (!attach(kernel, packet, err))
		return false;
	if (item->run)
		probe(kernel);
	return true;
}

void kernel_interrupt(struct kernel *kernel)
{
	if (kernel->state == KERNEL_RUNNING)
		tell_run(kernel, WARDEN_INTERRUPT);
}

void kernel_restart(struct kernel *kernel)
{
	if (kernel->state == KERNEL_STARTING || kernel->state == KERNEL_WARMING)
		return;
	kernel_stop(kernel, "its restart was asked for");
	kernel->is_unread = false; /* the cell that waits for it fails as one that has begun */
}

void kernel_abandon(struct kernel *kernel)
{
	if ((kernel->state != KERNEL_RUNNING && kernel->state != KERNEL_STALE) || kernel->is_done)
		return;
	kernel->interrupts++;
	tell_run(kernel, WARDEN_INTERRUPT);
	wait_at_most(kernel, INTERRUPT_MS);
}

/* ---- sending the source ---- */

/* Frames are sent until the socket is full. A kernel that does not read is left to its run's clock.
 */
static ssize_t send_frame(struct kernel *kernel, size_t size, uint16_t flags)
{
	struct frame_header header = {
		.run = kernel->assembly.run, .kind = FRAME_RUN, .flags = flags
	};
	struct iovec parts[] = { { &header, sizeof(header) },
		{ (char *)(uintptr_t)kernel->code + kernel->code_sent, size } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts) };
	return sendmsg(kernel->frames.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_code(struct kernel *kernel)
{
	for (bool is_last = false; !is_last;) {
		size_t size = MIN(kernel->code_size - kernel->code_sent, (size_t)FRAME_PAYLOAD);
		is_last = kernel->code_sent + size == kernel->code_size;
		if (send_frame(kernel, size, is_last ? 0 : FRAME_MORE) <
			0) /* full; or dead, then reading tells */
			return loop_rewatch(
				&kernel->frames, EPOLLIN | (errno == EAGAIN ? EPOLLOUT : 0u));
		kernel->code_sent += size;
	}
	kernel->code = NULL;
	loop_rewatch(&kernel->frames, EPOLLIN);
}

static void on_begin_answer(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct kernel *kernel = CONTAINER_OF(request, struct kernel, beginning);
	if (!has_warden(kernel))
		return;
	/* only a refusal is ever answered: then the run has no clock, and must not go on */
	kernel_stop(kernel, err ? err->message : "the warden refused the run");
}

bool kernel_run(struct kernel *kernel, uint32_t run, const char *code, size_t size,
	uint32_t limit_ms, struct error *err)
{
	struct warden_run message = { .sandbox = kernel->session->sandbox->id,
		.kernel = kernel->session->slot,
		.generation = kernel->generation,
		.run = run,
		.timeout_ms = limit_ms };
	drain(kernel); /* what was written before belongs to no cell */
	if (!warden_ask(&api_of(kernel)->warden, &kernel->beginning, WARDEN_RUN_BEGIN, &message,
		    sizeof(message), 0, on_begin_answer, err))
		return false;
	frames_begin(&kernel->assembly, run);
	kernel->run = run;
	kernel->code = code;
	kernel->code_size = size;
	kernel->code_sent = 0;
	kernel->interrupts = 0;
	kernel->is_done = kernel->is_reset = kernel->is_unread = false;
	kernel->due_us = clock_monotonic_us() + (int64_t)limit_ms * 1000;
	kernel->state = KERNEL_RUNNING;
	wait_at_most(kernel, (int64_t)limit_ms + SLACK_MS);
	watch_streams(kernel);
	send_code(kernel);
	return true;
}

/* ---- output ---- */

/* Reads once; false when there is nothing (more). */
static bool read_stream(struct kernel *kernel, unsigned which, size_t *ret_size)
{
	struct loop_source *source = &kernel->streams[which].source;
	struct api *api = api_of(kernel);
	if (source->fd < 0)
		return false;
	ssize_t n;
	do
		n = read(source->fd, api->frame, sizeof(api->frame));
	while (n < 0 && errno == EINTR);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			close_source(source); /* all writers are gone */
		return false;
	}
	*ret_size = (size_t)n;
	if (kernel->session->language == LANGUAGE_BASH)
		n = (ssize_t)bash_lines_mend(api->frame, (size_t)n, kernel->pid);
	session_on_output(kernel->session, which, api->frame, (size_t)n);
	return true;
}

static void watch_streams(struct kernel *kernel)
{
	for (unsigned which = 0; which < 2 && !kernel->is_paused; which++) {
		struct loop_source *source = &kernel->streams[which].source;
		struct error err = { 0 };
		int fd = source->fd;
		if (fd < 0 || source->loop)
			continue;
		if (!loop_watch(&api_of(kernel)->loop, source, fd, EPOLLIN, on_stream, &err))
			source->fd = fd; /* read at the end of the run all the same */
	}
}

static void on_rested(struct loop_timer *timer)
{
	watch_streams(CONTAINER_OF(timer, struct kernel, rest));
}

/* Not even watched meanwhile: a hang-up would be told again and again. */
static void pause_streams(struct kernel *kernel)
{
	kernel->is_paused = true;
	for (unsigned i = 0; i < 2; i++)
		loop_forget(&kernel->streams[i].source);
}

void kernel_resume(struct kernel *kernel)
{
	if (!kernel->is_paused)
		return;
	kernel->is_paused = false;
	watch_streams(kernel);
}

/* Between cells, threads and children may go on writing. That is read, so that they do not hang,
 * and dropped; but slowly, so that they do not keep us busy. */
static void on_stream(struct loop_source *source, uint32_t events)
{
	struct kernel_stream *stream = CONTAINER_OF(source, struct kernel_stream, source);
	struct kernel *kernel = stream->kernel;
	size_t size;
	bool has_read = read_stream(kernel, (unsigned)(stream - kernel->streams), &size);
	if (kernel->state == KERNEL_IDLE) {
		loop_forget(source);
		loop_timer_start(&api_of(kernel)->loop, &kernel->rest, REST_MS, on_rested);
	} else if (has_read && session_is_behind(kernel->session)) {
		pause_streams(kernel);
	}
}

static void drain(struct kernel *kernel)
{
	for (unsigned which = 0; which < 2; which++) {
		size_t size, total = 0;
		while (total < DRAIN_LIMIT && read_stream(kernel, which, &size))
			total += size;
	}
}

/* ---- frames ---- */

/* No more frames of this run. */
static void end_frames(struct kernel *kernel)
{
	session_on_lost(kernel->session, kernel->assembly.lost);
	frames_begin(&kernel->assembly, 0);
}

/* A run that ends about at its limit was interrupted, or was not: only the warden knows. Its word
 * was sent before the interrupt, so it is there by now, but may not have been read yet. */
static bool has_to_ask(const struct kernel *kernel)
{
	return kernel->state == KERNEL_RUNNING && !kernel->is_done &&
	       clock_monotonic_us() >= kernel->due_us;
}

static void on_settled(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct kernel *kernel = CONTAINER_OF(request, struct kernel, settling);
	if (!has_warden(kernel))
		return;
	kernel->state = KERNEL_IDLE;
	session_on_ready(kernel->session);
}

/* An interrupt that is still on its way must not hit the next cell. The warden answers in order:
 * when it has answered this question, it has sent all interrupts of before, and none will follow.
 */
static bool settle(struct kernel *kernel)
{
	struct warden_release message = { .sandbox = kernel->session->sandbox->id };
	return warden_ask(&api_of(kernel)->warden, &kernel->settling, WARDEN_USAGE, &message,
		sizeof(message), SETTLE_MS, on_settled, NULL);
}

static void finish_run(struct kernel *kernel)
{
	if (has_to_ask(kernel)) {
		kernel->is_done = true;
		end_frames(kernel);
		return wait_at_most(kernel, WORD_MS);
	}
	bool is_stale = kernel->state == KERNEL_STALE;
	bool was_interrupted = is_stale || kernel->is_done || kernel->interrupts > 0;
	drain(kernel);
	kernel_resume(kernel);
	warden_cancel(&kernel->beginning);
	loop_timer_stop(&kernel->patience);
	tell_run(kernel, WARDEN_RUN_END);
	end_frames(kernel);
	loop_rewatch(&kernel->frames, EPOLLIN);
	kernel->code = NULL;
	kernel->run = 0;
	kernel->state = was_interrupted && settle(kernel) ? KERNEL_SETTLING : KERNEL_IDLE;
	if (!is_stale)
		session_on_done(kernel->session); /* may free the kernel */
	else if (kernel->state == KERNEL_IDLE)
		session_on_ready(kernel->session);
}

/* False when the kernel must not be touched any more this turn. */
static bool take_value(struct kernel *kernel, const struct frames_value *value)
{
	if (value->kind == FRAME_READY) {
		if (kernel->state != KERNEL_WARMING)
			return true;
		loop_timer_stop(&kernel->patience);
		kernel->state = KERNEL_IDLE;
		session_on_ready(kernel->session);
		return false;
	}
	if (kernel->state == KERNEL_RUNNING)
		session_on_value(kernel->session, value);
	if (value->kind != FRAME_DONE)
		return true;
	finish_run(kernel);
	return false;
}

static void on_hang_up(struct kernel *kernel)
{
	close_source(&kernel->frames);
	if (kernel->state != KERNEL_ENDING)
		wait_at_most(kernel, HANG_UP_MS);
}

static void on_frames(struct loop_source *source, uint32_t events)
{
	struct kernel *kernel = CONTAINER_OF(source, struct kernel, frames);
	struct api *api = api_of(kernel);
	if ((events & EPOLLOUT) && kernel->code)
		send_code(kernel);
	for (unsigned n = 0; n < FRAMES_A_TURN; n++) {
		struct frames_value value;
		ssize_t size =
			recv(source->fd, api->frame, sizeof(api->frame), MSG_DONTWAIT | MSG_TRUNC);
		if (size < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		kernel->is_reset = size < 0 && errno == ECONNRESET;
		if (size <= 0)
			return on_hang_up(kernel);
		switch (frames_feed(&kernel->assembly, api->frame, (size_t)size, &value)) {
		case FRAMES_BROKEN:
			return kernel_stop(kernel, "the kernel broke the protocol");
		case FRAMES_VALUE:
			if (!take_value(kernel, &value))
				return;
			break;
		case FRAMES_NOTHING:
			break;
		}
	}
}

void kernel_on_ended(struct kernel *kernel, const struct warden_kernel_ended *ended)
{
	struct session *session = kernel->session;
	struct warden_kernel_ended copy = *ended;
	uint32_t pid = kernel->pid;
	char broken[sizeof(kernel->broken)];
	bool was_ready = kernel->state != KERNEL_STARTING && kernel->state != KERNEL_WARMING;
	bool has_begun = !is_source_unread(kernel);
	memcpy(broken, kernel->broken, sizeof(broken));
	drain(kernel);
	end_frames(kernel);
	let_go(kernel);
	session_on_kernel_ended(session, &copy, broken, was_ready, has_begun, pid);
}
