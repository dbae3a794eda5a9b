/*
 * The api's orders. One constant table: operation, size, what must hold, handler. Whatever is not
 * in it (unknown operation, other size, descriptors, a request before the greeting, a second
 * greeting) ends the channel; the keeper then starts a new api. A request that is understood and
 * cannot be met is answered with FAILED. The api is taken for compromised: nothing it says is used
 * unchecked.
 */
#include "base/fd.h"
#include "base/log.h"
#include "warden/claim.h"
#include "warden/kernel.h"
#include "warden/pause.h"
#include "warden/sandbox.h"
#include "warden/template.h"
#include "warden/warden.h"

#include <errno.h>
#include <string.h>

/* ---- sending ---- */

/* `is_expected`: it has hung up, so it has ended, in an ordered stop as it should, and else the
 * keeper, its parent, says how. Whatever else ends its channel is told here only. */
static void drop_api(struct warden *warden, bool is_expected, const char *why)
{
	if (!warden->api.loop)
		return;
	log_write(is_expected ? LOG_INFO : LOG_WARNING, is_expected ? "api.gone" : "api.lost", NULL,
		"the api's channel ends: %s", why);
	int fd = warden->api.fd;
	loop_forget(&warden->api);
	close(fd);
	/* What it had asked for is interrupted, or given up; kernels and their state stay. */
	LIST_EACH(&warden->sandboxes, struct sandbox, link, sandbox) {
		if (sandbox->pause == PAUSE_FREEZING)
			pause_give_up(sandbox);
		for (unsigned i = 0; i < KERNELS_A_SANDBOX; i++)
			if (sandbox->kernels[i])
				kernel_interrupt(sandbox->kernels[i], sandbox->kernels[i]->run);
	}
}

void warden_send(
	struct warden *warden, const void *message, size_t size, const int *fds, unsigned fd_count)
{
	struct error err;
	if (warden->api.loop && !wire_send(warden->api.fd, message, size, fds, fd_count, &err))
		drop_api(warden, err.os_error == EPIPE || err.os_error == ECONNRESET, err.message);
}

/* Out of descriptors, processes or memory: the machine is full, and nothing was made. */
static enum error_code code_of(const struct error *err)
{
	switch (err->os_error) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case EAGAIN:
	case ENOSPC:
		return ERROR_HOST_FULL;
	default:
		return err->code;
	}
}

void warden_send_failed(struct warden *warden, uint32_t serial, const struct error *err)
{
	struct warden_failed failed = {
		.header = warden_header(WARDEN_FAILED, serial),
		.code = code_of(err),
	};
	memcpy(failed.message, err->message, sizeof(failed.message));
	memcpy(failed.hint, err->hint, sizeof(failed.hint));
	warden_send(warden, &failed, sizeof(failed), NULL, 0);
}

/* ---- handlers: false answers FAILED with err ---- */

static bool handle_hello(struct warden *warden, const void *message, struct error *err)
{
	struct warden_hello hello = {
		.header = warden_header(
			WARDEN_HELLO, ((const struct warden_hello *)message)->header.serial)
	};
	warden->is_greeted = true;
	warden_send(warden, &hello, sizeof(hello), NULL, 0);
	return true;
}

static void list_kernels(struct warden *warden, const struct sandbox *sandbox, uint32_t serial)
{
	for (unsigned i = 0; i < KERNELS_A_SANDBOX; i++) {
		const struct kernel *kernel = sandbox->kernels[i];
		if (!kernel || kernel->state != KERNEL_LIVE)
			continue;
		int fds[3];
		struct warden_kernel item =
			kernel_describe(kernel, WARDEN_KERNEL_ITEM, serial, fds);
		warden_send(warden, &item, sizeof(item), fds, 3);
	}
}

/* What is half made for an api that is gone is ended: nobody waits for it. */
static void end_half_made(struct warden *warden)
{
	LIST_EACH(&warden->sandboxes, struct sandbox, link, sandbox) {
		if (!sandbox->is_claimed)
			continue;
		if (sandbox->state == SANDBOX_STARTING) {
			sandbox_end(sandbox, SANDBOX_END_FAILED);
			continue;
		}
		for (unsigned i = 0; i < KERNELS_A_SANDBOX; i++)
			if (sandbox->kernels[i] && sandbox->kernels[i]->state != KERNEL_LIVE)
				kernel_stop(sandbox->kernels[i]);
	}
}

static bool handle_list(struct warden *warden, const void *message, struct error *err)
{
	uint32_t serial = ((const struct warden_plain *)message)->header.serial;
	end_half_made(warden);
	LIST_EACH(&warden->sandboxes, struct sandbox, link, sandbox) {
		if (sandbox->state != SANDBOX_LIVE || !sandbox->is_claimed)
			continue;
		struct warden_claim item = sandbox_describe(sandbox, WARDEN_SANDBOX_ITEM, serial);
		warden_send(warden, &item, sizeof(item), &sandbox->control_fd, 1);
		list_kernels(warden, sandbox, serial);
	}
	struct warden_plain end = { .header = warden_header(WARDEN_LIST_END, serial) };
	warden_send(warden, &end, sizeof(end), NULL, 0);
	return true;
}

static bool handle_claim(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_claim *claim = message;
	if (!memchr(claim->template_name, '\0', sizeof(claim->template_name)))
		return error_set(err, ERROR_PROTOCOL, "the template's name has no end");
	return claim_begin(warden, claim, err);
}

static struct sandbox *find_live(
	struct warden *warden, const struct sandbox_id *id, struct error *err)
{
	struct sandbox *sandbox = sandbox_find(warden, id);
	if (sandbox && sandbox->state == SANDBOX_LIVE)
		return sandbox;
	error_set(err, ERROR_SANDBOX_ENDED, "the sandbox has ended");
	return NULL;
}

static struct kernel *find_kernel(
	struct warden *warden, const struct sandbox_id *id, uint32_t slot, uint32_t generation)
{
	struct sandbox *sandbox = sandbox_find(warden, id);
	struct kernel *kernel = sandbox && slot < KERNELS_A_SANDBOX ? sandbox->kernels[slot] : NULL;
	return kernel && kernel->generation == generation ? kernel : NULL;
}

static bool handle_kernel_start(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_kernel *request = message;
	struct sandbox *sandbox = find_live(warden, &request->sandbox, err);
	return sandbox && kernel_start(sandbox, request, err);
}

/* NULL: it may have ended while the request was under way, which KERNEL_ENDED tells. */
static struct kernel *kernel_of_run(struct warden *warden, const struct warden_run *request)
{
	return find_kernel(warden, &request->sandbox, request->kernel, request->generation);
}

static bool handle_run_begin(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_run *request = message;
	struct kernel *kernel = kernel_of_run(warden, request);
	return !kernel || kernel_run_begin(kernel, request, err);
}

static bool handle_run_end(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_run *request = message;
	struct kernel *kernel = kernel_of_run(warden, request);
	if (kernel)
		kernel_run_end(kernel, request->run);
	return true;
}

static bool handle_interrupt(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_run *request = message;
	struct kernel *kernel = kernel_of_run(warden, request);
	if (kernel)
		kernel_interrupt(kernel, request->run);
	return true;
}

static bool handle_kernel_stop(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_kernel *request = message;
	struct kernel *kernel =
		find_kernel(warden, &request->sandbox, request->kernel, request->generation);
	if (kernel)
		kernel_stop(kernel);
	return true;
}

static bool handle_release(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_release *request = message;
	struct sandbox *sandbox = sandbox_find(warden, &request->sandbox);
	if (!sandbox)
		return error_set(err, ERROR_SANDBOX_ENDED, "the sandbox has ended");
	sandbox_end(sandbox, SANDBOX_END_RELEASED);
	return true;
}

static bool handle_usage(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_release *request = message;
	struct sandbox *sandbox = find_live(warden, &request->sandbox, err);
	struct warden_usage usage;
	if (!sandbox)
		return false;
	sandbox_usage(sandbox, &usage);
	sandbox_files_usage(sandbox, &usage);
	usage.header.serial = request->header.serial;
	warden_send(warden, &usage, sizeof(usage), NULL, 0);
	return true;
}

static bool handle_pause(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_release *request = message;
	struct sandbox *sandbox = find_live(warden, &request->sandbox, err);
	return sandbox && pause_begin(sandbox, request->header.serial, err);
}

static bool handle_resume(struct warden *warden, const void *message, struct error *err)
{
	const struct warden_release *request = message;
	struct sandbox *sandbox = find_live(warden, &request->sandbox, err);
	return sandbox && pause_resume(sandbox, request->header.serial, err);
}

static const struct request {
	uint16_t op;
	bool is_greeted; /* what is_greeted must be */
	size_t size;
	bool (*handle)(struct warden *warden, const void *message, struct error *err);
} requests[] = {
	{ WARDEN_HELLO, false, sizeof(struct warden_hello), handle_hello },
	{ WARDEN_LIST, true, sizeof(struct warden_plain), handle_list },
	{ WARDEN_CLAIM, true, sizeof(struct warden_claim), handle_claim },
	{ WARDEN_KERNEL_START, true, sizeof(struct warden_kernel), handle_kernel_start },
	{ WARDEN_RUN_BEGIN, true, sizeof(struct warden_run), handle_run_begin },
	{ WARDEN_RUN_END, true, sizeof(struct warden_run), handle_run_end },
	{ WARDEN_INTERRUPT, true, sizeof(struct warden_run), handle_interrupt },
	{ WARDEN_KERNEL_STOP, true, sizeof(struct warden_kernel), handle_kernel_stop },
	{ WARDEN_RELEASE, true, sizeof(struct warden_release), handle_release },
	{ WARDEN_USAGE, true, sizeof(struct warden_release), handle_usage },
	{ WARDEN_PAUSE, true, sizeof(struct warden_release), handle_pause },
	{ WARDEN_RESUME, true, sizeof(struct warden_release), handle_resume },
};

static const struct request *request_find(
	const struct warden *warden, const struct wire_packet *packet, struct error *err)
{
	const struct wire_header *header = &packet->header;
	if (header->version != WARDEN_VERSION) {
		error_set(err, ERROR_PROTOCOL, "the api speaks version %u, the warden %u",
			header->version, WARDEN_VERSION);
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		if (requests[i].op == header->op && requests[i].size == packet->size &&
			requests[i].is_greeted == warden->is_greeted && packet->fd_count == 0)
			return &requests[i];
	error_set(err, ERROR_PROTOCOL,
		"operation %u of %zu bytes with %u descriptors is not allowed now", header->op,
		packet->size, packet->fd_count);
	return NULL;
}

static void on_api(struct loop_source *source, uint32_t events)
{
	struct warden *warden = CONTAINER_OF(source, struct warden, api);
	struct wire_packet packet;
	struct error err = { 0 };
	enum wire_result result = wire_receive(source->fd, &packet, &err);
	if (result == WIRE_NOTHING)
		return;
	if (result != WIRE_GOT) {
		drop_api(warden, result == WIRE_CLOSED,
			result == WIRE_CLOSED ? "it hung up" : err.message);
		return;
	}
	const struct request *request = request_find(warden, &packet, &err);
	if (!request)
		drop_api(warden, false, err.message);
	else if (!request->handle(warden, packet.bytes, &err))
		warden_send_failed(warden, packet.header.serial, &err);
	wire_packet_deinit(&packet);
}

void warden_set_api(struct warden *warden, int fd)
{
	struct error err = { 0 };
	drop_api(warden, true, "the keeper sends a new one");
	warden->is_greeted = false;
	if (!fd_set_nonblocking(fd, true) ||
		!loop_watch(&warden->loop, &warden->api, fd, EPOLLIN, on_api, &err)) {
		log_error("api.channel", NULL, &err);
		close(fd);
	}
}
