/* API keys: only the SHA-256 of a key's 40 hex digits is kept, and whose it is. */
#ifndef STORE_KEYS_H
#define STORE_KEYS_H

#include "store/store.h"

#include <stdint.h>

#define KEY_HASH_SIZE 32
#define OWNER_TEXT 40 /* an owner's name, with the NUL */

struct key_row {
	uint8_t hash[KEY_HASH_SIZE];
	char owner[OWNER_TEXT];
};

/* Puts the first key in the place of an earlier one; its owner is "owner-1". */
bool key_row_put_first(struct store *store, const uint8_t hash[KEY_HASH_SIZE], struct error *err);

typedef void (*key_row_visit)(void *context, const struct key_row *row);
bool key_row_each(struct store *store, key_row_visit visit, void *context, struct error *err);

#endif
