/* Builds of templates that were asked for, the latest of them: how each ended, and what it said. */
#ifndef STORE_BUILDS_H
#define STORE_BUILDS_H

#include "base/id.h"
#include "store/store.h"
#include "wire/requests.h"

#include <stddef.h>

struct build_row {
	char id[SHORT_ID_TEXT];
	char name[TEMPLATE_NAME_SIZE], base[TEMPLATE_NAME_SIZE];
	unsigned state;                           /* the api's word */
	char error[512];                          /* empty: none */
	int64_t created_ms, started_ms, ended_ms; /* 0: not yet */
	int64_t size_mb, bytes;
	int64_t log_dropped; /* bytes of the log that were gone by then */
	const char *log;     /* lines; not owned, in visits good until they return */
	size_t log_size;
};

/* In place of an earlier one of that id. */
bool build_row_put(struct store *store, const struct build_row *row, struct error *err);
bool build_row_delete(struct store *store, const char *id, struct error *err);

typedef void (*build_row_visit)(void *context, const struct build_row *row);
/* In the order in which they were asked for. */
bool build_row_each(struct store *store, build_row_visit visit, void *context, struct error *err);

#endif
