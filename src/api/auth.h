/* Who asks: bearer keys, compared by hash and in constant time. */
#ifndef API_AUTH_H
#define API_AUTH_H

#include "base/error.h"
#include "http/server.h"
#include "store/keys.h"

#define KEY_DIGITS 40

struct key {
	struct key_row row;
	bool is_dirty; /* its last use is not in the database yet */
};

struct keys {
	struct key *keys; /* owned; oldest first */
	size_t count;
	char **owners; /* owned: each name once, for as long as this lives */
	size_t owner_count;
};

/* Brings the database's listed keys up to date, and reads all of them. On failure those of before
 * stay. */
bool keys_load(struct keys *keys, struct store *store, const struct key_row *listed, size_t count,
	struct error *err);
/* After a change of the database: reads all of them anew. */
bool keys_reload(struct keys *keys, struct store *store, struct error *err);
/* Writes when keys were last used; to the minute. */
void keys_flush(struct keys *keys, struct store *store);
void keys_deinit(struct keys *keys);

/* Neither revoked nor expired. */
bool key_is_valid(const struct key_row *row, int64_t now_ms);
/* The request's key, good until the keys change; NULL and err (401). A key in the query
 * (`access_token`) counts only with `may_use_query`. */
const struct key_row *auth_key(struct keys *keys, const struct http_request *request,
	bool may_use_query, struct error *err);
/* Its owner; the name lives as long as `keys`. */
const char *auth_owner(struct keys *keys, const struct http_request *request, bool may_use_query,
	struct error *err);

/* Whether a request's key is still good: for who acts on it later. */
bool auth_is_valid(const struct keys *keys, const uint8_t hash[KEY_HASH_SIZE]);
/* Whether a key of ours, valid or not, stands anywhere in the text, or in the Basic credentials
 * that it is. */
bool auth_holds_key(const struct keys *keys, const char *text);

void auth_sha256(const void *bytes, size_t size, uint8_t hash[32]);

#endif
