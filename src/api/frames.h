/*
 * Puts together what a kernel sends: packets in, whole values out. Everything in a packet is
 * hostile: sizes, order, ids, endless continuations. Memory is bounded by FRAME_VALUES_LIMIT a run.
 */
#ifndef API_FRAMES_H
#define API_FRAMES_H

#include "base/buf.h"
#include "wire/frames.h"

#include <stdbool.h>
#include <stdint.h>

struct frames {
	uint32_t run;      /* the run whose frames count; 0: none, only READY does */
	uint64_t received; /* bytes of payload of this run */
	uint64_t lost;     /* values of this run that were dropped */
	struct buf value;  /* owned: what has come of the value under way */
	uint16_t kind;     /* its kind; 0: none is under way */
	bool is_skipping;  /* the value under way is dropped, up to its last frame */
};

enum frames_result {
	FRAMES_NOTHING, /* taken in, or dropped */
	FRAMES_VALUE,   /* a whole value */
	FRAMES_BROKEN,  /* no frame at all: the kernel breaks the protocol */
};

struct frames_value {
	uint16_t kind;     /* enum frame_kind, one that kernels send */
	const char *bytes; /* in frames->value or in the packet: good until the next call */
	size_t size;
};

void frames_init(struct frames *frames);
void frames_deinit(struct frames *frames);
/* Begins a run: what is left of the last one is dropped. */
void frames_begin(struct frames *frames, uint32_t run);
enum frames_result frames_feed(
	struct frames *frames, const void *packet, size_t size, struct frames_value *ret_value);

#endif
