/* See auth.h. */
#include "api/auth.h"

#include "base/clock.h"
#include "base/log.h"

#include <nettle/base64.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX_LIMIT 16
#define USE_STEP_MS 60000 /* how exactly the last use is kept */

void auth_sha256(const void *bytes, size_t size, uint8_t hash[32])
{
	struct sha256_ctx context;
	sha256_init(&context);
	sha256_update(&context, size, bytes);
	sha256_digest(&context, 32, hash);
}

/* ---- the keys there are ---- */

struct reading {
	struct keys *keys;
	bool is_failed;
};

static void take_row(void *context, const struct key_row *row)
{
	struct reading *reading = context;
	struct keys *keys = reading->keys;
	struct key *all = reallocarray(keys->keys, keys->count + 1, sizeof(*all));
	if (all) {
		keys->keys = all;
		all[keys->count++] = (struct key){ .row = *row };
	}
	reading->is_failed = reading->is_failed || !all;
}

bool keys_reload(struct keys *keys, struct store *store, struct error *err)
{
	struct keys fresh = { 0 };
	struct reading reading = { .keys = &fresh };
	keys_flush(keys, store);
	bool is_read = key_row_each(store, take_row, &reading, err);
	if (is_read && reading.is_failed)
		is_read = error_no_memory(err) != NULL;
	struct key *unwanted = is_read ? keys->keys : fresh.keys;
	if (is_read) {
		keys->keys = fresh.keys;
		keys->count = fresh.count;
	}
	free(unwanted);
	return is_read;
}

bool keys_load(struct keys *keys, struct store *store, const struct key_row *listed, size_t count,
	struct error *err)
{
	return key_rows_list(store, listed, count, err) && keys_reload(keys, store, err);
}

void keys_flush(struct keys *keys, struct store *store)
{
	for (size_t i = 0; i < keys->count; i++) {
		struct key *key = &keys->keys[i];
		struct error err = { 0 };
		if (!key->is_dirty)
			continue;
		key->is_dirty = false;
		if (!key_row_set_used(store, key->row.hash, key->row.used_ms, &err))
			log_error("store.key", NULL, &err);
	}
}

void keys_deinit(struct keys *keys)
{
	for (size_t i = 0; i < keys->owner_count; i++)
		free(keys->owners[i]);
	free(keys->owners);
	free(keys->keys);
	*keys = (struct keys){ 0 };
}

/* The owner's name in a place that outlives the key. There are as many as ever had a key. */
static const char *intern(struct keys *keys, const char *owner)
{
	for (size_t i = 0; i < keys->owner_count; i++)
		if (strcmp(keys->owners[i], owner) == 0)
			return keys->owners[i];
	char **owners = reallocarray(keys->owners, keys->owner_count + 1, sizeof(*owners));
	char *name = strdup(owner);
	if (owners)
		keys->owners = owners;
	if (!owners || !name) {
		free(name);
		return NULL;
	}
	return owners[keys->owner_count++] = name;
}

bool key_is_valid(const struct key_row *row, int64_t now_ms)
{
	return row->revoked_ms == 0 && (row->expires_ms == 0 || now_ms < row->expires_ms);
}

/* ---- the key that is sent ---- */

/* The 40 digits behind a prefix of lower letters, digits and '_'; NULL where it is shaped
 * otherwise. */
static const char *key_digits(const char *key)
{
	size_t size = strnlen(key, PREFIX_LIMIT + KEY_DIGITS + 1);
	if (size <= KEY_DIGITS + 1 || size > PREFIX_LIMIT + KEY_DIGITS)
		return NULL;
	const char *digits = key + size - KEY_DIGITS;
	size_t prefix = strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789");
	if (key + prefix + 1 != digits || key[prefix] != '_')
		return NULL;
	return strspn(digits, "0123456789abcdef") == KEY_DIGITS ? digits : NULL;
}

/* All are looked at, so that time tells nothing about which fits. */
static struct key *find_digits(const struct keys *keys, const char *digits)
{
	struct key *found = NULL;
	uint8_t hash[KEY_HASH_SIZE];
	auth_sha256(digits, KEY_DIGITS, hash);
	for (size_t i = 0; i < keys->count; i++)
		if (memeql_sec(hash, keys->keys[i].row.hash, sizeof(hash)))
			found = &keys->keys[i];
	return found;
}

static struct key *find(const struct keys *keys, const char *sent)
{
	const char *digits = key_digits(sent);
	return digits ? find_digits(keys, digits) : NULL;
}

static void note_use(struct key *key, int64_t now_ms)
{
	if (now_ms - key->row.used_ms < USE_STEP_MS)
		return;
	key->row.used_ms = now_ms;
	key->is_dirty = true;
}

/* The key in the header or the query; NULL and err. */
static const char *key_sent(
	const struct http_request *request, bool may_use_query, struct error *err)
{
	const char *header = http_request_header(request, "Authorization");
	if (http_request_header_count(request, "Authorization") > 1) {
		error_set(err, ERROR_UNAUTHORIZED, "more than one Authorization header");
		return NULL;
	}
	if (header && strncasecmp(header, "Bearer ", 7) == 0)
		return header + 7 + strspn(header + 7, " ");
	if (header && strncasecmp(header, "Basic ", 6) == 0) {
		error_set(err, ERROR_UNAUTHORIZED, "basic authorization is not taken here");
		error_hint(err,
			"an entry for this host in your netrc file replaces the key: remove it,"
			" or set NETRC=/dev/null");
		return NULL;
	}
	const char *query =
		may_use_query ? http_request_query(request, "access_token", NULL) : NULL;
	if (!header && query)
		return query;
	error_set(err, ERROR_UNAUTHORIZED, "a key is needed");
	error_hint(err, "send it as 'Authorization: Bearer KEY'; it is in the file 'key' of the "
			"state folder");
	return NULL;
}

const struct key_row *auth_key(struct keys *keys, const struct http_request *request,
	bool may_use_query, struct error *err)
{
	const char *sent = key_sent(request, may_use_query, err);
	if (!sent)
		return NULL;
	int64_t now_ms = clock_wall_ms();
	struct key *key = find(keys, sent);
	if (key && key_is_valid(&key->row, now_ms)) {
		note_use(key, now_ms);
		return &key->row;
	}
	if (key && key->row.revoked_ms == 0) {
		error_set(err, ERROR_UNAUTHORIZED, "the key has expired");
		error_hint(err, "make a new one with POST /v1/me/tokens and a key that is valid");
	} else {
		error_set(err, ERROR_UNAUTHORIZED, "the key is malformed, unknown or revoked");
		error_hint(err, "a key is a prefix such as 'sg_' and 40 hex digits");
	}
	return NULL;
}

const char *auth_owner(struct keys *keys, const struct http_request *request, bool may_use_query,
	struct error *err)
{
	const struct key_row *row = auth_key(keys, request, may_use_query, err);
	const char *owner = row ? intern(keys, row->owner) : NULL;
	if (row && !owner)
		error_no_memory(err);
	return owner;
}

bool auth_is_valid(const struct keys *keys, const uint8_t hash[KEY_HASH_SIZE])
{
	for (size_t i = 0; i < keys->count; i++)
		if (memcmp(hash, keys->keys[i].row.hash, KEY_HASH_SIZE) == 0)
			return key_is_valid(&keys->keys[i].row, clock_wall_ms());
	return false;
}

/* ---- keys where none belongs ---- */

static bool holds_digits(const struct keys *keys, const char *text)
{
	for (; *text; text++) {
		size_t size = strspn(text, "0123456789abcdef");
		if (size == KEY_DIGITS && find_digits(keys, text))
			return true;
		text += size;
		if (!*text)
			return false;
	}
	return false;
}

/* Of "Basic" credentials. */
static bool encodes_key(const struct keys *keys, const char *encoded)
{
	struct base64_decode_ctx context;
	size_t size = BASE64_DECODE_LENGTH(strlen(encoded));
	cleanup_free char *decoded = calloc(1, size + 1);
	base64_decode_init(&context);
	return decoded &&
	       base64_decode_update(
		       &context, &size, (uint8_t *)decoded, strlen(encoded), encoded) &&
	       holds_digits(keys, decoded);
}

bool auth_holds_key(const struct keys *keys, const char *text)
{
	return holds_digits(keys, text) ||
	       (strncasecmp(text, "Basic ", 6) == 0 && encodes_key(keys, text + 6));
}
