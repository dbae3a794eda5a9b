/*
 * A WebSocket to the daemon, for one terminal: on wslay, over a connection that libcurl makes (so
 * that TLS and proxies are its). The caller polls the descriptor and calls websocket_turn.
 */
#ifndef CLI_WEBSOCKET_H
#define CLI_WEBSOCKET_H

#include "cli/target.h"

#include <stddef.h>
#include <stdint.h>

#define WEBSOCKET_QUEUE ((size_t)256 << 10)

struct websocket;

typedef void (*websocket_on_message)(void *data, bool is_text, const char *bytes, size_t size);

/* Connects and shakes hands; waits for that, with a limit. A refusal is told in the daemon's words.
 * `path` is below /v1. */
struct websocket *websocket_connect(const struct target *target, const char *path,
	websocket_on_message on_message, void *data, struct error *err);
struct websocket *websocket_free(struct websocket *socket);
CLEANUP_FUNCTION(struct websocket *, websocket_free);

int websocket_fd(const struct websocket *socket);
/* POLLIN, and POLLOUT while something waits to be sent. */
short websocket_events(const struct websocket *socket);
/* Is there room for more to be sent? What is sent without is queued all the same. */
bool websocket_has_room(const struct websocket *socket);
bool websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t size);
/* Reads and writes what can be; messages go to on_message. False when it is over. */
bool websocket_turn(struct websocket *socket);
/* Milliseconds since something came. */
int64_t websocket_silence_ms(const struct websocket *socket);

#endif
