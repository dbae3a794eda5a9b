/*
 * Who may see a server inside without a key: whoever knows a preview token, or the name of a
 * preview host, "{port}-{id}.…". A token holds what it is for, and a seal of ours over it; nothing
 * is stored.
 */
#ifndef API_PREVIEW_H
#define API_PREVIEW_H

#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"

#include <stdint.h>

#define PREVIEW_KEY_SIZE 32
#define PREVIEW_PATHS 16
#define PREVIEW_PATHS_SIZE 1024 /* bytes of all paths, with a line feed between two */

struct preview {
	struct sandbox_id sandbox;
	uint16_t port;
	int64_t expires_s;                  /* wall time */
	char paths[PREVIEW_PATHS_SIZE + 1]; /* one a line; empty: all */
};

/* Lower hex digits. False: out of memory. */
bool preview_seal(
	const uint8_t key[PREVIEW_KEY_SIZE], const struct preview *preview, struct buf *ret_token);
/* ERROR_TOKEN: not of this key, or expired. */
bool preview_open(const uint8_t key[PREVIEW_KEY_SIZE], const char *token, int64_t now_s,
	struct preview *ret, struct error *err);
/* Whether a path, given as its decoded segments, is one of the paths or below one. */
bool preview_covers(const struct preview *preview, const char *const *segments, unsigned count);

/* Takes a Host apart; the id may have dashes, the port no zero in front. */
bool preview_host_parse(const char *host, uint16_t *ret_port, struct sandbox_id *ret_id);
/* 1 to 65535, without zeros in front. */
bool preview_port_parse(const char *text, uint16_t *ret_port);

#endif
