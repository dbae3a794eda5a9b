/*
 * See preview.h. A token is the hex of: version, sandbox, port, expiry, paths, and HMAC-SHA256 over
 * all of that. Numbers are big endian.
 */
#include "api/preview.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>

#define VERSION 1
#define FIXED_SIZE (1 + SANDBOX_ID_SIZE + 2 + 8)
#define SEAL_SIZE SHA256_DIGEST_SIZE
#define TOKEN_SIZE (FIXED_SIZE + PREVIEW_PATHS_SIZE + SEAL_SIZE)

/* ---- tokens ---- */

static void seal(const uint8_t key[PREVIEW_KEY_SIZE], const uint8_t *bytes, size_t size,
	uint8_t ret_seal[SEAL_SIZE])
{
	struct hmac_sha256_ctx context;
	hmac_sha256_set_key(&context, PREVIEW_KEY_SIZE, key);
	hmac_sha256_update(&context, size, bytes);
	hmac_sha256_digest(&context, SEAL_SIZE, ret_seal);
}

static uint8_t *put_number(uint8_t *at, uint64_t number, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		at[i] = (uint8_t)(number >> 8 * (size - 1 - i));
	return at + size;
}

static const uint8_t *get_number(const uint8_t *at, uint64_t *number, unsigned size)
{
	*number = 0;
	for (unsigned i = 0; i < size; i++)
		*number = *number << 8 | at[i];
	return at + size;
}

bool preview_seal(
	const uint8_t key[PREVIEW_KEY_SIZE], const struct preview *preview, struct buf *ret_token)
{
	uint8_t bytes[TOKEN_SIZE], *at = bytes;
	size_t paths_size = strnlen(preview->paths, PREVIEW_PATHS_SIZE);
	*at++ = VERSION;
	memcpy(at, preview->sandbox.bytes, SANDBOX_ID_SIZE);
	at = put_number(at + SANDBOX_ID_SIZE, preview->port, 2);
	at = put_number(at, (uint64_t)preview->expires_s, 8);
	memcpy(at, preview->paths, paths_size);
	at += paths_size;
	seal(key, bytes, (size_t)(at - bytes), at);
	size_t size = (size_t)(at - bytes) + SEAL_SIZE;
	char *text = buf_reserve(ret_token, 2 * size + 1);
	if (!text)
		return false;
	id_to_text(bytes, size, text);
	ret_token->size += 2 * size;
	return true;
}

static bool is_sealed(const uint8_t key[PREVIEW_KEY_SIZE], const uint8_t *bytes, size_t size)
{
	uint8_t wanted[SEAL_SIZE];
	seal(key, bytes, size - SEAL_SIZE, wanted);
	return memeql_sec(wanted, bytes + size - SEAL_SIZE, SEAL_SIZE);
}

bool preview_open(const uint8_t key[PREVIEW_KEY_SIZE], const char *token, int64_t now_s,
	struct preview *ret, struct error *err)
{
	uint8_t bytes[TOKEN_SIZE];
	uint64_t number;
	size_t size = strnlen(token, 2 * TOKEN_SIZE + 2) / 2;
	if (size < FIXED_SIZE + SEAL_SIZE || size > TOKEN_SIZE ||
		!id_from_text(token, bytes, size) || bytes[0] != VERSION ||
		!is_sealed(key, bytes, size))
		return error_set(
			err, ERROR_TOKEN, "the preview token is damaged, or not of this daemon");
	*ret = (struct preview){ 0 };
	memcpy(ret->sandbox.bytes, bytes + 1, SANDBOX_ID_SIZE);
	const uint8_t *at = get_number(bytes + 1 + SANDBOX_ID_SIZE, &number, 2);
	ret->port = (uint16_t)number;
	at = get_number(at, &number, 8);
	ret->expires_s = (int64_t)number;
	memcpy(ret->paths, at, size - FIXED_SIZE - SEAL_SIZE);
	if (now_s >= ret->expires_s)
		return error_set(err, ERROR_TOKEN, "the preview token has expired");
	return true;
}

/* ---- paths ---- */

/* A server may resolve what we do not. */
static bool is_plain(const char *segment)
{
	return strcmp(segment, ".") != 0 && strcmp(segment, "..") != 0 &&
	       !strpbrk(segment, "/\\;%");
}

/* Whether the segments begin with those of the path. */
static bool is_below(const char *path, size_t size, const char *const *segments, unsigned count)
{
	const char *end = path + size;
	for (unsigned i = 0; path < end; i++) {
		path++; /* the slash */
		size_t segment_size = strcspn(path, "/\n");
		if (path == end)
			return true; /* a slash at the end, or the root */
		if (i >= count || strlen(segments[i]) != segment_size ||
			memcmp(segments[i], path, segment_size) != 0)
			return false;
		path += segment_size;
	}
	return true;
}

bool preview_covers(const struct preview *preview, const char *const *segments, unsigned count)
{
	if (!preview->paths[0])
		return true;
	for (unsigned i = 0; i < count; i++)
		if (!is_plain(segments[i]) || (!*segments[i] && i + 1 < count))
			return false;
	for (const char *path = preview->paths; *path;) {
		size_t size = strcspn(path, "\n");
		if (is_below(path, size, segments, count))
			return true;
		path += size + (path[size] == '\n');
	}
	return false;
}

/* ---- hosts ---- */

bool preview_port_parse(const char *text, uint16_t *ret_port)
{
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > 5 || text[0] == '0' || text[digits] != '\0')
		return false;
	unsigned long number = strtoul(text, NULL, 10);
	*ret_port = (uint16_t)number;
	return number <= UINT16_MAX;
}

bool preview_host_parse(const char *host, uint16_t *ret_port, struct sandbox_id *ret_id)
{
	char label[64];
	size_t size = strcspn(host, ".:");
	if (host[size] != '.' || size >= sizeof(label))
		return false;
	for (size_t i = 0; i < size; i++) /* a name's case says nothing */
		label[i] = host[i] >= 'A' && host[i] <= 'Z' ? (char)(host[i] + 'a' - 'A') : host[i];
	label[size] = '\0';
	char *dash = strchr(label, '-');
	if (!dash)
		return false;
	*dash = '\0';
	return preview_port_parse(label, ret_port) && sandbox_id_parse(dash + 1, ret_id);
}
