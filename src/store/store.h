/*
 * The database: one SQLite file in WAL mode, used from the api's thread. One file a table; rows are
 * plain structs. Statements are prepared once, at first use.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/error.h"

#include <stdint.h>

struct store;

/* Opens or makes the file and brings its schema up to date. A file of a newer version is refused.
 */
struct store *store_open(const char *path, struct error *err);
/* Closes; a transaction that is open is rolled back. */
struct store *store_close(struct store *store);
CLEANUP_FUNCTION(struct store *, store_close);

/* Several writes as one: begin, then commit; store_rollback undoes. */
bool store_begin(struct store *store, struct error *err);
bool store_commit(struct store *store, struct error *err);
void store_rollback(struct store *store);

/* The schema version that this build writes. */
int store_version(void);

#endif
