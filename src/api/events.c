/*
 * See events.h. Reconciling: rows of sandboxes that live are loaded at start, before the first
 * list; the list marks those that the warden has. What has a row but no sandbox ended with the
 * host; what has a sandbox but no row was never promised to anyone, and is released. The same for
 * kernels.
 */
#include "api/events.h"

#include "api/api.h"
#include "api/inside.h"
#include "api/session.h"
#include "base/fd.h"
#include "base/log.h"

#include <string.h>

/* ---- events ---- */

static void on_late(struct api *api, const struct warden_run *message)
{
	struct sandbox *sandbox = sandbox_find_any(api, &message->sandbox);
	struct session *session = sandbox ? session_in_slot(sandbox, message->kernel) : NULL;
	if (session && session->kernel.generation == message->generation)
		session_on_late(session, message->run);
}

static void on_retired(struct sandbox *sandbox, uint32_t slot)
{
	if (slot >= KERNELS_A_SANDBOX || !(sandbox->dying >> slot & 1))
		return;
	sandbox->dying &= ~(1u << slot);
	inside_sweep(sandbox, sandbox->dying_pids[slot]);
}

static void on_kernel_ended(struct api *api, const struct warden_kernel_ended *message)
{
	struct sandbox *sandbox = sandbox_find_any(api, &message->sandbox);
	if (!sandbox || message->reason == KERNEL_END_SANDBOX)
		return; /* SANDBOX_ENDED says the rest */
	struct session *session = session_in_slot(sandbox, message->kernel);
	if (!session)
		return on_retired(sandbox, message->kernel);
	if (session->kernel.generation == message->generation &&
		session->kernel.state != KERNEL_NONE)
		kernel_on_ended(&session->kernel, message);
}

static const char *const end_reasons[] = {
	[SANDBOX_END_RELEASED] = "released",
	[SANDBOX_END_FAILED] = "start_failed",
	[SANDBOX_END_HOST] = "host_failure",
	[SANDBOX_END_MEMORY] = "memory_limit",
};

static void on_sandbox_ended(struct api *api, const struct warden_sandbox_ended *message)
{
	struct sandbox *sandbox = sandbox_find_any(api, &message->sandbox);
	if (sandbox && sandbox->state != SANDBOX_STARTING) /* FAILED answers a start */
		sandbox_on_ended(sandbox, message->reason < ARRAY_SIZE(end_reasons)
						  ? end_reasons[message->reason]
						  : "host_failure");
}

void events_on_event(struct api *api, struct wire_packet *packet)
{
	switch (packet->header.op) {
	case WARDEN_RUN_LATE:
		return on_late(api, (const void *)packet->bytes);
	case WARDEN_KERNEL_ENDED:
		return on_kernel_ended(api, (const void *)packet->bytes);
	case WARDEN_SANDBOX_ENDED:
		return on_sandbox_ended(api, (const void *)packet->bytes);
	}
}

/* ---- what nobody wants ---- */

static void release(struct api *api, const struct sandbox_id *id)
{
	struct warden_release message = { .sandbox = *id };
	warden_tell(&api->warden, WARDEN_RELEASE, &message, sizeof(message));
}

static void stop_kernel(struct api *api, const struct warden_kernel *kernel)
{
	struct warden_kernel message = *kernel;
	warden_tell(&api->warden, WARDEN_KERNEL_STOP, &message, sizeof(message));
}

void events_on_stray(struct api *api, struct wire_packet *packet)
{
	if (packet->header.op == WARDEN_CLAIMED)
		release(api, &((struct warden_claim *)packet->bytes)->sandbox);
	else if (packet->header.op == WARDEN_KERNEL_STARTED)
		stop_kernel(api, (struct warden_kernel *)packet->bytes);
}

void events_on_warden_gone(struct api *api)
{
	LIST_EACH(&api->sandboxes, struct sandbox, link, sandbox) {
		if (sandbox->state != SANDBOX_STARTING) /* its claim has failed, and frees it */
			sandbox_on_ended(sandbox, "host_failure");
	}
}

/* ---- the list ---- */

void events_on_sandbox_item(struct api *api, struct wire_packet *packet)
{
	const struct warden_claim *item = (const void *)packet->bytes;
	struct sandbox *sandbox = sandbox_find_any(api, &item->sandbox);
	int init_fd = wire_packet_take(packet, 0);
	if (!sandbox || init_fd < 0 || sandbox->state != SANDBOX_STARTING) {
		fd_close(&init_fd);
		return release(api, &item->sandbox);
	}
	sandbox->is_listed = true;
	sandbox_start(sandbox, init_fd);
	sandbox_count_kills(sandbox);
	if (item->is_paused)
		sandbox_set_pause(sandbox, SANDBOX_PAUSED);
}

void events_on_kernel_item(struct api *api, struct wire_packet *packet)
{
	const struct warden_kernel *item = (const void *)packet->bytes;
	struct sandbox *sandbox = sandbox_find_any(api, &item->sandbox);
	struct session *session = NULL;
	struct error err = { 0 };
	if (sandbox && item->kernel < KERNELS_A_SANDBOX) {
		session = session_in_slot(sandbox, item->kernel);
		uint32_t *generation = &sandbox->generations[item->kernel];
		*generation = MAX(*generation, item->generation);
	}
	if (!session || session->kernel.state != KERNEL_NONE) {
		if (sandbox && !session && item->kernel < KERNELS_A_SANDBOX) {
			sandbox->dying |= 1u << item->kernel;
			sandbox->dying_pids[item->kernel] = item->pid;
		}
		return stop_kernel(api, item);
	}
	if (!kernel_adopt(&session->kernel, item, packet, &err)) {
		log_error("kernel.adopt", sandbox->text, &err);
		kernel_stop(&session->kernel, err.message);
	}
}

static void renew_kernels(struct sandbox *sandbox)
{
	LIST_EACH(&sandbox->sessions, struct session, link, session) {
		if (session->kernel.state == KERNEL_NONE)
			session_restart(session, "the kernel ended while the daemon was restarted");
	}
}

void events_on_list_end(struct api *api)
{
	unsigned kept = 0, lost = 0;
	LIST_EACH(&api->sandboxes, struct sandbox, link, sandbox) {
		if (!sandbox->is_listed && sandbox->state == SANDBOX_STARTING && !api->http) {
			lost++;
			sandbox_on_ended(sandbox, "host_failure");
			continue;
		}
		kept++;
		if (!api->http)
			renew_kernels(sandbox);
	}
	log_write(LOG_INFO, "warden.ready", NULL, "sandboxes kept: %u, ended with the host: %u",
		kept, lost);
	api_serve(api);
}
