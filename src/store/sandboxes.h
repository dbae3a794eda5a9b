/* Sandboxes, the ended ones included for a while: their end has a reason that can be asked for. */
#ifndef STORE_SANDBOXES_H
#define STORE_SANDBOXES_H

#include "base/id.h"
#include "store/keys.h"
#include "wire/requests.h"

#include <stdint.h>

struct sandbox_row {
	struct sandbox_id id;
	char owner[OWNER_TEXT];
	char template_name[TEMPLATE_NAME_SIZE];
	const char
		*metadata; /* JSON text of an object; not owned, in visits good until they return */
	int64_t ttl_seconds, created_ms;
	bool is_persistent;
	struct wire_limits limits;
	uint32_t cell_seconds;
	bool is_ended;
};

bool sandbox_row_insert(struct store *store, const struct sandbox_row *row, struct error *err);
/* Marks it ended and drops its sessions. `reason` is a short word: "released", "idle", ... */
bool sandbox_row_end(
	struct store *store, const struct sandbox_id *id, const char *reason, struct error *err);
bool sandbox_row_set_life(struct store *store, const struct sandbox_id *id, int64_t ttl_seconds,
	bool is_persistent, struct error *err);

typedef void (*sandbox_row_visit)(void *context, const struct sandbox_row *row);
/* Those that have not ended. */
bool sandbox_row_each(
	struct store *store, sandbox_row_visit visit, void *context, struct error *err);
/* The one of that id, ended or not; no visit when there is none. */
bool sandbox_row_find(struct store *store, const struct sandbox_id *id, sandbox_row_visit visit,
	void *context, struct error *err);
/* Forgets those that ended before that moment. */
bool sandbox_row_purge(struct store *store, int64_t before_ms, struct error *err);

#endif
