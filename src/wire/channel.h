/*
 * Packets with descriptors between our own processes: the common header, and sending and receiving.
 * Names the version rule: another version is refused at the first packet, naming both.
 */
#ifndef WIRE_CHANNEL_H
#define WIRE_CHANNEL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_FDS 8       /* descriptors a packet, at most */
#define WIRE_PACKET 8192 /* bytes a packet, at most */

struct wire_header {
	uint16_t op;
	uint16_t version;
	uint32_t serial; /* of the request; 0 in events */
};

/* A received packet. Descriptors not taken (set to -1) are closed by wire_packet_deinit. */
struct wire_packet {
	size_t size;
	int fds[WIRE_FDS];
	unsigned fd_count;
	union {
		struct wire_header header;
		char bytes[WIRE_PACKET];
		uint64_t align;
	};
};

enum wire_result {
	WIRE_GOT,     /* a packet */
	WIRE_NOTHING, /* none there now (non-blocking) */
	WIRE_CLOSED,  /* the peer hung up */
	WIRE_BAD,     /* cut, too large, or too many descriptors: err says; end the peer */
};

/* A connected SEQPACKET pair, CLOEXEC, blocking. */
bool wire_pair(int ret_ends[2], struct error *err);

/* Sends one packet; fds stay the caller's. With a full socket: false, os_error EAGAIN (the socket
 * is non-blocking or is_wait is false). */
bool wire_send(int fd, const void *bytes, size_t size, const int *fds, unsigned fd_count,
	struct error *err);

/* Receives one packet. All descriptors are CLOEXEC. */
enum wire_result wire_receive(int fd, struct wire_packet *packet, struct error *err);

void wire_packet_deinit(struct wire_packet *packet);
/* Hands on descriptor `index`, -1 if the packet has none. */
int wire_packet_take(struct wire_packet *packet, unsigned index);

#endif
