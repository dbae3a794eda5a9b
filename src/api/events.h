/*
 * What the warden tells: events, and the list by which rows and living sandboxes are reconciled
 * after a start of either side.
 */
#ifndef API_EVENTS_H
#define API_EVENTS_H

#include "wire/requests.h"

struct api;

/* RUN_LATE, KERNEL_ENDED, SANDBOX_ENDED. */
void events_on_event(struct api *api, struct wire_packet *packet);
/* An answer that nobody waits for: what it holds is given back. */
void events_on_stray(struct api *api, struct wire_packet *packet);
/* The channel is gone, and with it all sandboxes. */
void events_on_warden_gone(struct api *api);

/* The list, in the warden's order: a sandbox comes before its kernels. */
void events_on_sandbox_item(struct api *api, struct wire_packet *packet);
void events_on_kernel_item(struct api *api, struct wire_packet *packet);
void events_on_list_end(struct api *api);

#endif
