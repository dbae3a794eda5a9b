/*
 * See kernel.h. A run: its source goes out in frames, frames come in, and it ends. They are read with
 * plain recv() into one scratch buffer of the api: there is no control buffer, so descriptors that
 * user code sends along are dropped by the system. Each wake-up reads a bounded amount, so one
 * flooding kernel cannot starve the others.
 */
#include "api/kernel_private.h"

#include "base/clock.h"

#include <errno.h>
#include <sys/socket.h>

#define SLACK_MS 15000 /* the warden's clock decides; this one is for when it fails */
#define SETTLE_MS 5000
#define HANG_UP_MS 300 /* between the end of the socket and the warden's word */
#define WORD_MS 2      /* for a packet that is in the socket already */
#define FRAMES_A_TURN 32

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

void kernel_send_code(struct kernel *kernel)
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
	if (!kernel_has_warden(kernel))
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
	kernel_drain(kernel); /* what was written before belongs to no cell */
	if (!warden_ask(&kernel_api(kernel)->warden, &kernel->beginning, WARDEN_RUN_BEGIN, &message,
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
	kernel_wait_at_most(kernel, (int64_t)limit_ms + SLACK_MS);
	kernel_watch_streams(kernel);
	kernel_send_code(kernel);
	return true;
}

/* ---- frames ---- */

void kernel_end_frames(struct kernel *kernel)
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
	if (!kernel_has_warden(kernel))
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
	return warden_ask(&kernel_api(kernel)->warden, &kernel->settling, WARDEN_USAGE, &message,
		sizeof(message), SETTLE_MS, on_settled, NULL);
}

void kernel_finish_run(struct kernel *kernel)
{
	if (has_to_ask(kernel)) {
		kernel->is_done = true;
		kernel_end_frames(kernel);
		return kernel_wait_at_most(kernel, WORD_MS);
	}
	bool is_stale = kernel->state == KERNEL_STALE;
	bool was_interrupted = is_stale || kernel->is_done || kernel->interrupts > 0;
	kernel_drain(kernel);
	kernel_resume(kernel);
	warden_cancel(&kernel->beginning);
	loop_timer_stop(&kernel->patience);
	kernel_tell_run(kernel, WARDEN_RUN_END);
	kernel_end_frames(kernel);
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
	kernel_finish_run(kernel);
	return false;
}

static void on_hang_up(struct kernel *kernel)
{
	loop_close(&kernel->frames);
	if (kernel->state != KERNEL_ENDING)
		kernel_wait_at_most(kernel, HANG_UP_MS);
}

void kernel_on_frames(struct loop_source *source, uint32_t events)
{
	struct kernel *kernel = CONTAINER_OF(source, struct kernel, frames);
	struct api *api = kernel_api(kernel);
	if ((events & EPOLLOUT) && kernel->code)
		kernel_send_code(kernel);
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
