/*
 * The channel to the warden: requests with answers, requests without, events. Sending never blocks:
 * what the socket does not take waits in a bounded queue.
 */
#ifndef API_WARDEN_H
#define API_WARDEN_H

#include "base/list.h"
#include "loop/loop.h"
#include "wire/requests.h"

#define REQUEST_ID_SIZE 65 /* of a client's request, with the NUL */

struct api;
struct warden_request;

/* Exactly once: `packet` is the answer (descriptors not taken are closed), or NULL and `err` says
 * why there is none. */
typedef void (*warden_on_answer)(
	struct warden_request *request, struct wire_packet *packet, const struct error *err);

/* Embedded in who asks. All zero: not under way. */
struct warden_request {
	struct list link;      /* in warden->requests */
	struct warden *warden; /* NULL: not under way */
	uint32_t serial;
	warden_on_answer on_answer;
	struct loop_timer limit;
	char for_request[REQUEST_ID_SIZE]; /* what was handled when it was asked; or "" */
};

struct warden {
	struct api *api;           /* not owned */
	struct loop_source source; /* its descriptor is owned; not watched: no channel */
	struct list requests;      /* of struct warden_request, oldest first */
	struct list outgoing;      /* of packets that wait to be sent */
	unsigned outgoing_count;
	uint32_t last_serial;
	struct warden_request hello, listing;
	bool is_ready; /* HELLO and LIST are done */
};

void warden_init(struct warden *warden, struct api *api);
/* Takes the descriptor. An earlier channel is closed first, and its sandboxes end. */
void warden_connect(struct warden *warden, int fd);
/* The process ends: closes the channel without telling anyone. */
void warden_deinit(struct warden *warden);

/* Fills in the header. False and err: nothing was asked, and on_answer is not called. */
bool warden_ask(struct warden *warden, struct warden_request *request, uint16_t op, void *message,
	size_t size, int64_t timeout_ms, warden_on_answer on_answer, struct error *err);
/* The answer is no longer wanted. Idempotent. */
void warden_cancel(struct warden_request *request);
/* A request without an answer. Without a channel it does nothing: all is at an end then anyway. */
void warden_tell(struct warden *warden, uint16_t op, void *message, size_t size);

#endif
