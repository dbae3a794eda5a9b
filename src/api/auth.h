/* Who asks: bearer keys, compared by hash and in constant time. */
#ifndef API_AUTH_H
#define API_AUTH_H

#include "base/error.h"
#include "http/server.h"
#include "store/keys.h"

struct keys {
	struct key_row *rows; /* owned */
	size_t count;
};

/* Puts the first key into the database and reads all of them. */
bool keys_load(struct keys *keys, struct store *store, const uint8_t first[KEY_HASH_SIZE],
	struct error *err);
void keys_deinit(struct keys *keys);

/* The owner of the request's key, which lives as long as `keys`; NULL and err (401). A key in the
 * query (`access_token`) counts only with `may_use_query`. */
const char *auth_owner(const struct keys *keys, const struct http_request *request,
	bool may_use_query, struct error *err);

void auth_sha256(const void *bytes, size_t size, uint8_t hash[32]);

#endif
