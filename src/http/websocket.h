/*
 * WebSockets (RFC 6455, version 13, no extensions) on wslay: what becomes of a request that asks
 * for one.
 *
 * Life: websocket_check() judges the request, websocket_accept() answers it and gives the object,
 * to which can be written at once. Then on_message for each whole message, until on_end, the last
 * call. The owner frees it there, or at any earlier moment, in any handler: that cuts the
 * connection.
 *
 * Bounds: a message 1 MiB (closed with 1009), in at most 1,024 fragments (cut); what waits to be
 * sent WEBSOCKET_QUEUE, then websocket_send() says no and the owner waits for on_drain. A ping
 * every 20 s; a peer from which nothing came for 60 s, or that took nothing for 60 s, is given up.
 * A closing handshake has 5 s.
 *
 * What is sent first is held for 100 ms or until the client's first frame: there is a client that
 * loses frames which arrive together with the head of the answer.
 */
#ifndef HTTP_WEBSOCKET_H
#define HTTP_WEBSOCKET_H

#include "http/server.h"

#define WEBSOCKET_MESSAGE ((size_t)1 << 20)
#define WEBSOCKET_QUEUE ((size_t)256 << 10)

enum websocket_code {
	WEBSOCKET_NORMAL = 1000,
	WEBSOCKET_GOING_AWAY = 1001,
	WEBSOCKET_UNSUPPORTED = 1003,
	WEBSOCKET_POLICY = 1008,
	WEBSOCKET_FAILED = 1011,
};

struct websocket;

struct websocket_owner {
	void (*on_message)(struct websocket *socket, bool is_text, const char *bytes, size_t size);
	/* There is room again after a websocket_send() that said no. May be NULL. */
	void (*on_drain)(struct websocket *socket);
	void (*on_end)(struct websocket *socket);
};

/* Whether the request is a sound opening handshake without a body. ERROR_UPGRADE (426): it asks for
 * no WebSocket, or for another version. ERROR_INVALID: it does so wrongly. */
bool websocket_check(const struct http_request *request, struct error *err);
/* Answers a request that was checked. NULL without memory: it is unanswered then. */
struct websocket *websocket_accept(
	struct http_request *request, const struct websocket_owner *owner, void *state);
void websocket_free(struct websocket *socket);
void *websocket_state(const struct websocket *socket);

/* Queues a message, always. False: enough is queued, go on after on_drain. After websocket_close,
 * or when the peer is gone, it is dropped (true). */
bool websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t size);
/* Stops reading; what was read already (4 KiB of frames at most) may still come as messages. */
void websocket_pause(struct websocket *socket);
void websocket_resume(struct websocket *socket);
/* Sends what is queued, then closes; no message comes any more, on_end does. `reason` is a
 * constant. */
void websocket_close(struct websocket *socket, enum websocket_code code, const char *reason);

/* The answer to a Sec-WebSocket-Key. */
#define WEBSOCKET_ACCEPT_TEXT 29
void websocket_accept_text(const char *key, char text[WEBSOCKET_ACCEPT_TEXT]);

#endif
