/*
 * API keys: only the SHA-256 of a key's 40 hex digits is kept, whose it is, and what tells it from
 * others. A key is listed (named by the state folder: it comes and goes with that) or a token (made
 * over the API). A listed one that is revoked keeps its row, so that it stays so at the next start.
 */
#ifndef STORE_KEYS_H
#define STORE_KEYS_H

#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

#define KEY_HASH_SIZE 32
#define OWNER_TEXT 40 /* an owner's name, with the NUL */
#define KEY_PREFIX_TEXT \
	28                 /* what a key begins with: its prefix, '_', eight digits; with the NUL \
			    */
#define KEY_LABEL_TEXT 101 /* with the NUL */

struct key_row {
	uint8_t hash[KEY_HASH_SIZE];
	char owner[OWNER_TEXT];
	char prefix[KEY_PREFIX_TEXT];
	char label[KEY_LABEL_TEXT];
	bool is_listed;
	int64_t created_ms;
	int64_t expires_ms; /* 0: never */
	int64_t used_ms;    /* 0: not yet */
	int64_t revoked_ms; /* 0: it is not */
};

/* Brings the listed ones up to date: those not among `rows` are forgotten, the others are put, or
 * renamed. When they were used or revoked stays as it is. */
bool key_rows_list(
	struct store *store, const struct key_row *rows, size_t count, struct error *err);
bool key_row_insert(struct store *store, const struct key_row *row, struct error *err);
/* A token is forgotten, a listed key marked. */
bool key_row_revoke(
	struct store *store, const uint8_t hash[KEY_HASH_SIZE], int64_t now_ms, struct error *err);
bool key_row_set_used(
	struct store *store, const uint8_t hash[KEY_HASH_SIZE], int64_t used_ms, struct error *err);
/* Forgets tokens that expired before that moment. */
bool key_row_purge(struct store *store, int64_t before_ms, struct error *err);

typedef void (*key_row_visit)(void *context, const struct key_row *row);
/* Oldest first. */
bool key_row_each(struct store *store, key_row_visit visit, void *context, struct error *err);

#endif
