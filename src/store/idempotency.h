/* Idempotency keys of creates: which sandbox a key and a body have made. */
#ifndef STORE_IDEMPOTENCY_H
#define STORE_IDEMPOTENCY_H

#include "base/id.h"
#include "store/store.h"

#include <stdint.h>

#define BODY_HASH_SIZE 32

struct idempotency_row {
	uint8_t body_hash[BODY_HASH_SIZE];
	struct sandbox_id sandbox;
	int64_t created_ms;
};

/* Replaces an older row of the same owner and key. */
bool idempotency_row_put(struct store *store, const char *owner, const char *key,
	const struct idempotency_row *row, struct error *err);
/* True with *ret_is_there false where there is no such row. */
bool idempotency_row_find(struct store *store, const char *owner, const char *key,
	bool *ret_is_there, struct idempotency_row *ret_row, struct error *err);
bool idempotency_row_purge(struct store *store, int64_t before_ms, struct error *err);

#endif
