/*
 * The keys of an owner: list, make, revoke. A token is shown once, when it is made; from then on
 * only its hash is known. The last valid key of an owner cannot be revoked, since nothing but the
 * operator could let the owner in again.
 */
#include "api/answer.h"
#include "api/fields.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_PREFIX "pds_" /* what clients expect */
#define PREFIX_DIGITS 8
#define TOKENS_LIMIT 100 /* an owner */
#define DAYS_LIMIT 3650
#define DAY_MS ((int64_t)86400 * 1000)
#define EXPIRED_SHOWN_MS (7 * DAY_MS)

static bool is_own(const struct call *call, const struct key_row *row)
{
	return row->revoked_ms == 0 && strcmp(row->owner, call->owner) == 0;
}

/* ---- list ---- */

static void write_time(struct writer *writer, const char *name, int64_t at_ms)
{
	char text[CLOCK_TEXT_SIZE];
	if (at_ms == 0)
		return writer_raw(writer, name, "null");
	clock_text(at_ms, text);
	writer_text(writer, name, text);
}

static void write_fields(struct writer *writer, const struct key_row *row)
{
	writer_text(writer, "prefix", row->prefix);
	writer_text(writer, "label", row->label);
	write_time(writer, "created_at", row->created_ms);
	write_time(writer, "expires_at", row->expires_ms);
}

void tokens_list(struct call *call)
{
	const struct keys *keys = &call->api->keys;
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_open(&writer, "items", '[');
	for (size_t i = 0; i < keys->count; i++) {
		const struct key_row *row = &keys->keys[i].row;
		if (!is_own(call, row))
			continue;
		writer_open(&writer, NULL, '{');
		write_fields(&writer, row);
		write_time(&writer, "last_used_at", row->used_ms);
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

/* ---- create ---- */

static bool read_body(struct call *call, struct key_row *row, struct error *err)
{
	static const char *const known[] = { "label", "expires_in_days", NULL };
	size_t size;
	int64_t days = 0;
	const char *text = http_request_body(call->request, &size), *label = "token";
	cleanup_json json_t *body = fields_parse(text, size, known, err);
	if (!body || !fields_text(body, "label", &label, NULL, err) ||
		!fields_int(body, "expires_in_days", 1, DAYS_LIMIT, &days, err))
		return false;
	if (!*label || strlen(label) >= sizeof(row->label))
		return error_set(
			err, ERROR_INVALID, "'label' must have 1 to %d bytes", KEY_LABEL_TEXT - 1);
	*row = (struct key_row){ .created_ms = clock_wall_ms() };
	row->expires_ms = days > 0 ? row->created_ms + days * DAY_MS : 0;
	strcpy(row->label, label);
	snprintf(row->owner, sizeof(row->owner), "%s", call->owner);
	return true;
}

static bool has_prefix(const struct keys *keys, const char *prefix)
{
	for (size_t i = 0; i < keys->count; i++)
		if (strcmp(keys->keys[i].row.prefix, prefix) == 0)
			return true;
	return false;
}

static bool check_room(const struct call *call, struct error *err)
{
	const struct keys *keys = &call->api->keys;
	unsigned count = 0;
	for (size_t i = 0; i < keys->count; i++)
		count += is_own(call, &keys->keys[i].row);
	if (count < TOKENS_LIMIT)
		return true;
	error_set(err, ERROR_TOKEN_LIMIT, "you have %u keys, as many as you may", count);
	return error_hint(err, "revoke some with DELETE /v1/me/tokens/{prefix}");
}

/* Digits whose beginning no other key has. */
static void choose(const struct keys *keys, char *token, struct key_row *row)
{
	uint8_t bytes[KEY_DIGITS / 2];
	do {
		id_random(bytes, sizeof(bytes));
		strcpy(token, TOKEN_PREFIX);
		id_to_text(bytes, sizeof(bytes), token + strlen(TOKEN_PREFIX));
		snprintf(row->prefix, sizeof(row->prefix), "%.*s",
			(int)strlen(TOKEN_PREFIX) + PREFIX_DIGITS, token);
	} while (has_prefix(keys, row->prefix));
	auth_sha256(token + strlen(TOKEN_PREFIX), KEY_DIGITS, row->hash);
}

void tokens_create(struct call *call)
{
	struct error err = { 0 };
	struct key_row row;
	struct keys *keys = &call->api->keys;
	char token[sizeof(TOKEN_PREFIX) + KEY_DIGITS];
	if (!read_body(call, &row, &err) || !check_room(call, &err))
		return answer_error(call, &err);
	choose(keys, token, &row);
	if (!key_row_insert(call->api->store, &row, &err) ||
		!keys_reload(keys, call->api->store, &err))
		return answer_error(call, &err);
	log_write(LOG_INFO, "key.made", NULL, "owner '%s' made key %s", row.owner, row.prefix);
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "token", token);
	write_fields(&writer, &row);
	writer_close(&writer, '}');
	answer_json(call, 201, &writer);
}

/* ---- revoke ---- */

static struct key_row *find(const struct call *call, const char *prefix)
{
	struct keys *keys = &call->api->keys;
	for (size_t i = 0; i < keys->count; i++)
		if (is_own(call, &keys->keys[i].row) &&
			strcmp(keys->keys[i].row.prefix, prefix) == 0)
			return &keys->keys[i].row;
	return NULL;
}

static bool is_last(const struct call *call, const struct key_row *row)
{
	const struct keys *keys = &call->api->keys;
	int64_t now_ms = clock_wall_ms();
	for (size_t i = 0; i < keys->count; i++) {
		const struct key_row *other = &keys->keys[i].row;
		if (other != row && is_own(call, other) && key_is_valid(other, now_ms))
			return false;
	}
	return true;
}

static bool revoke_key(struct call *call, struct error *err)
{
	struct api *api = call->api;
	const char *prefix = http_request_segment(call->request, 3);
	struct key_row *row = find(call, prefix);
	if (!row)
		return error_set(err, ERROR_TOKEN_NOT_FOUND, "you have no key of that prefix");
	if (is_last(call, row)) {
		error_set(err, ERROR_TOKEN_LAST, "this is your last valid key");
		return error_hint(err, "make another one first, and use that");
	}
	if (!key_row_revoke(api->store, row->hash, clock_wall_ms(), err))
		return false;
	log_write(LOG_INFO, "key.revoked", NULL, "owner '%s' revoked key %s", row->owner,
		row->prefix);
	row->revoked_ms = clock_wall_ms(); /* whatever comes of the rest */
	return keys_reload(&api->keys, api->store, err);
}

void tokens_revoke(struct call *call)
{
	struct error err = { 0 };
	if (revoke_key(call, &err))
		answer_empty(call, 204);
	else
		answer_error(call, &err);
}

void tokens_purge(struct api *api)
{
	struct error err = { 0 };
	if (!key_row_purge(api->store, clock_wall_ms() - EXPIRED_SHOWN_MS, &err) ||
		!keys_reload(&api->keys, api->store, &err))
		log_error("store.purge", NULL, &err);
}
