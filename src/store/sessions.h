/* Code contexts of the sandboxes that live: which kernel slot each has, and how often it was
 * renewed. */
#ifndef STORE_SESSIONS_H
#define STORE_SESSIONS_H

#include "base/id.h"
#include "store/store.h"

#include <stdint.h>

struct session_row {
	struct sandbox_id sandbox;
	char id[SHORT_ID_TEXT];
	uint32_t slot, generation;
	char language[16];
	int64_t created_ms;
	uint64_t cells; /* run so far; written late, so a crash may lose the last second's */
};

bool session_row_insert(struct store *store, const struct session_row *row, struct error *err);
/* Writes generation and cells. */
bool session_row_update(struct store *store, const struct session_row *row, struct error *err);
bool session_row_delete(
	struct store *store, const struct sandbox_id *sandbox, const char *id, struct error *err);
bool session_row_delete_all(
	struct store *store, const struct sandbox_id *sandbox, struct error *err);

typedef void (*session_row_visit)(void *context, const struct session_row *row);
bool session_row_each(
	struct store *store, session_row_visit visit, void *context, struct error *err);

#endif
