/* See auth.h. Every key is looked at for each request, so that time tells nothing about which fits.
 */
#include "api/auth.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KEY_DIGITS 40
#define PREFIX_LIMIT 16

void auth_sha256(const void *bytes, size_t size, uint8_t hash[32])
{
	struct sha256_ctx context;
	sha256_init(&context);
	sha256_update(&context, size, bytes);
	sha256_digest(&context, 32, hash);
}

static void take_row(void *context, const struct key_row *row)
{
	struct keys *keys = context;
	struct key_row *rows = reallocarray(keys->rows, keys->count + 1, sizeof(*rows));
	if (!rows)
		return;
	keys->rows = rows;
	rows[keys->count++] = *row;
}

bool keys_load(struct keys *keys, struct store *store, const uint8_t first[KEY_HASH_SIZE],
	struct error *err)
{
	*keys = (struct keys){ 0 };
	return key_row_put_first(store, first, err) && key_row_each(store, take_row, keys, err);
}

void keys_deinit(struct keys *keys)
{
	free(keys->rows);
	*keys = (struct keys){ 0 };
}

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

static const char *owner_of(const struct keys *keys, const char *key)
{
	const char *digits = key_digits(key), *owner = NULL;
	if (!digits)
		return NULL;
	uint8_t hash[KEY_HASH_SIZE];
	auth_sha256(digits, KEY_DIGITS, hash);
	for (size_t i = 0; i < keys->count; i++)
		if (memeql_sec(hash, keys->rows[i].hash, sizeof(hash)))
			owner = keys->rows[i].owner;
	return owner;
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

const char *auth_owner(const struct keys *keys, const struct http_request *request,
	bool may_use_query, struct error *err)
{
	const char *key = key_sent(request, may_use_query, err);
	if (!key)
		return NULL;
	const char *owner = owner_of(keys, key);
	if (!owner) {
		error_set(err, ERROR_UNAUTHORIZED, "the key is malformed or unknown");
		error_hint(err, "a key is a prefix such as 'sg_' and 40 hex digits");
	}
	return owner;
}
