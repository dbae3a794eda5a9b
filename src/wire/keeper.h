/*
 * Messages between the keeper and the api, over the SEQPACKET socket that is descriptor 3 of the
 * api.
 *
 * KEEPER_WARDEN   keeper -> api, descriptors: [0] the api's end of a fresh channel to the warden.
 *                 Sent at start, and again whenever the warden was started anew: all sandboxes of
 *                 the old one have then ended (`host_failure`).
 * KEEPER_STOP     keeper -> api: finish the answers under way (at most 2 s), then exit with 0.
 * KEEPER_CONFIG   keeper -> api, descriptors: [0] its configuration anew. Templates and keys may be others
 *                 than before; the rest is the same.
 * KEEPER_READY    api -> keeper, once: the first channel is reconciled and HTTP is served.
 *
 * Hang-up: the api exits at once. Another version ends the peer.
 */
#ifndef WIRE_KEEPER_H
#define WIRE_KEEPER_H

#include "wire/channel.h"

#define KEEPER_VERSION 1

/* Descriptors of the api from birth. */
#define API_FD_KEEPER 3
#define API_FD_LISTEN 4
#define API_FD_CONFIG 5

enum keeper_op {
	KEEPER_WARDEN = 1,
	KEEPER_STOP = 2,
	KEEPER_CONFIG = 3,
	KEEPER_READY = 64,
};

struct keeper_message {
	struct wire_header header; /* serial 0 */
};

#endif
