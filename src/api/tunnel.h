/*
 * Two sockets joined: a client's connection after its 101, and a server's inside. Bytes go both
 * ways as they are, 64 KiB a side at most in between; the slower side slows the other. It ends when
 * one side is broken, when both have said their last, or with the sandbox.
 */
#ifndef API_TUNNEL_H
#define API_TUNNEL_H

#include "api/sandbox.h"

struct tunnel;

/* Takes the server's socket; `bytes` of it were read already and are the client's first. NULL and
 * err: the socket is still the caller's. */
struct tunnel *tunnel_new(
	struct sandbox *sandbox, int server_fd, const char *bytes, size_t size, struct error *err);
/* For http_upgrade, with the tunnel as context; it then lives by itself. */
void tunnel_on_upgrade(void *context, int fd, const char *bytes, size_t size);

/* A guest that came through a port: of these there are fewer, since strangers may be among them. */
#define PROXIED_LIMIT 128
bool proxied_enter(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err);
void proxied_leave(struct guest *guest); /* idempotent */

#endif
