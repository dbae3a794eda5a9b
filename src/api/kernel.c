/* See kernel.h. The life of a kernel: asked for, adopted, watched, stopped, ended. */
#include "api/kernel_private.h"

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
#define ENDING_MS 10000
#define INTERRUPT_MS 500
#define INTERRUPTS 20

struct api *kernel_api(const struct kernel *kernel)
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

static void let_go(struct kernel *kernel)
{
	warden_cancel(&kernel->starting);
	warden_cancel(&kernel->beginning);
	warden_cancel(&kernel->settling);
	loop_timer_stop(&kernel->patience);
	loop_timer_stop(&kernel->rest);
	loop_close(&kernel->frames);
	loop_close(&kernel->streams[0].source);
	loop_close(&kernel->streams[1].source);
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

bool kernel_has_warden(const struct kernel *kernel)
{
	return kernel_api(kernel)->warden.source.loop;
}

void kernel_tell_run(const struct kernel *kernel, uint16_t op)
{
	struct warden_run message = { .sandbox = kernel->session->sandbox->id,
		.kernel = kernel->session->slot,
		.generation = kernel->generation,
		.run = kernel->run };
	warden_tell(&kernel_api(kernel)->warden, op, &message, sizeof(message));
}

static void on_patience(struct loop_timer *timer);

void kernel_wait_at_most(struct kernel *kernel, int64_t ms)
{
	loop_timer_start(&kernel_api(kernel)->loop, &kernel->patience, ms, on_patience);
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
	loop_timer_go_on(&kernel_api(kernel)->loop, &kernel->patience);
	loop_timer_go_on(&kernel_api(kernel)->loop, &kernel->starting.limit);
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
	warden_tell(&kernel_api(kernel)->warden, WARDEN_KERNEL_STOP, &message, sizeof(message));
	kernel->state = KERNEL_ENDING;
	loop_close(&kernel->frames); /* its output is still wanted, its word is not */
	snprintf(kernel->broken, sizeof(kernel->broken), "%s", why ? why : "");
	if (why)
		log_stopped(kernel, why);
	kernel_wait_at_most(kernel, ENDING_MS);
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
			return kernel_finish_run(kernel);
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
	if (loop_watch(&kernel_api(kernel)->loop, source, fd, EPOLLIN, on_ready, err))
		return true;
	close(fd);
	source->fd = -1;
	return false;
}

static bool attach(struct kernel *kernel, struct wire_packet *packet, struct error *err)
{
	return watch(kernel, &kernel->frames, wire_packet_take(packet, 0), kernel_on_frames, err) &&
	       watch(kernel, &kernel->streams[0].source, wire_packet_take(packet, 1),
		       kernel_on_stream, err) &&
	       watch(kernel, &kernel->streams[1].source, wire_packet_take(packet, 2),
		       kernel_on_stream, err);
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
	kernel_wait_at_most(kernel, READY_MS);
}

bool kernel_start(struct kernel *kernel, struct error *err)
{
	struct session *session = kernel->session;
	kernel->generation = ++session->sandbox->generations[session->slot];
	kernel->broken[0] = '\0';
	struct warden_kernel message = describe(kernel);
	if (!warden_ask(&kernel_api(kernel)->warden, &kernel->starting, WARDEN_KERNEL_START,
		    &message, sizeof(message), START_MS, on_started, err))
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
	frames_begin(&kernel->assembly, api_next_run(kernel_api(kernel)));
	kernel->state = KERNEL_STALE;
	kernel->code = nothing;
	kernel->code_size = 1;
	kernel->code_sent = 0;
	kernel_abandon(kernel);
	kernel_send_code(kernel);
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
		kernel_tell_run(kernel, WARDEN_INTERRUPT);
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
	kernel_tell_run(kernel, WARDEN_INTERRUPT);
	kernel_wait_at_most(kernel, INTERRUPT_MS);
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
	kernel_drain(kernel);
	kernel_end_frames(kernel);
	let_go(kernel);
	session_on_kernel_ended(session, &copy, broken, was_ready, has_begun, pid);
}
