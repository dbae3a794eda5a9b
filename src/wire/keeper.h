/*
 * Messages between the keeper and the api, over the SEQPACKET socket that is descriptor 3 of the
 * api.
 *
 * KEEPER_WARDEN   keeper -> api, descriptors: [0] the api's end of a fresh channel to the warden.
 *                 Sent at start, and again whenever the warden was started anew: all sandboxes of
 *                 the old one have then ended (`host_failure`).
 * KEEPER_STOP     keeper -> api: finish the answers under way (at most 2 s), then exit with 0.
 * KEEPER_CONFIG   keeper -> api, descriptors: [0] its configuration anew. Templates and keys may
 *                 be others than before; the rest is the same.
 * KEEPER_READY    api -> keeper, once: the first channel is reconciled and HTTP is served.
 * KEEPER_BUILD    api -> keeper, descriptors: [0] what to build, a sealed memfd that the keeper
 *                 hands on unread, [1] the writing end of a pipe for what the builder says. One
 *                 at a time.
 * KEEPER_REMOVE   api -> keeper: forget a template that was built so, and remove its files.
 * KEEPER_OUTCOME  keeper -> api, once for each BUILD and REMOVE, with its serial. Of a build that
 *                 is done the template is served: CONFIG came before.
 *
 * A build ends with the api that asked for it.
 *
 * Hang-up: the api exits at once. Another version ends the peer.
 */
#ifndef WIRE_KEEPER_H
#define WIRE_KEEPER_H

#include "wire/channel.h"
#include "wire/requests.h"

#define KEEPER_VERSION 2

/* Descriptors of the api from birth. */
#define API_FD_KEEPER 3
#define API_FD_LISTEN 4
#define API_FD_CONFIG 5

enum keeper_op {
	KEEPER_WARDEN = 1,
	KEEPER_STOP = 2,
	KEEPER_CONFIG = 3,
	KEEPER_OUTCOME = 4,
	KEEPER_READY = 64,
	KEEPER_BUILD = 65,
	KEEPER_REMOVE = 66,
};

struct keeper_message {
	struct wire_header header; /* serial 0 */
};

struct keeper_order {                  /* BUILD, REMOVE */
	struct wire_header header;     /* serial: the api's number for it */
	char name[TEMPLATE_NAME_SIZE]; /* of the template */
};

enum keeper_ending {
	KEEPER_DONE,
	KEEPER_FAILED,   /* the builder says in its output why */
	KEEPER_KILLED,   /* the builder was killed by signal `detail` */
	KEEPER_LATE,     /* it took longer than KEEPER_BUILD_SECONDS */
	KEEPER_UNSERVED, /* it was built, and cannot be served */
	KEEPER_REFUSED,  /* there is a template of the host of that name; another build runs; ... */
	KEEPER_MISSING,  /* there is none of that name */
};

#define KEEPER_BUILD_SECONDS 1200

struct keeper_outcome {
	struct wire_header header;
	uint32_t ending; /* enum keeper_ending */
	int32_t detail;
};

#endif
