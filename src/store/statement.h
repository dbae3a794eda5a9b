/* For the tables only: prepared statements, their parameters and results, and errors as ours. */
#ifndef STORE_STATEMENT_H
#define STORE_STATEMENT_H

#include "store/store.h"

#include <sqlite3.h>
#include <stddef.h>

enum statement_name {
	STATEMENT_KEY_LIST,
	STATEMENT_KEY_FORGET,
	STATEMENT_KEY_INSERT,
	STATEMENT_KEY_MARK,
	STATEMENT_KEY_REVOKE,
	STATEMENT_KEY_USED,
	STATEMENT_KEY_PURGE,
	STATEMENT_KEY_EACH,
	STATEMENT_SANDBOX_INSERT,
	STATEMENT_SANDBOX_END,
	STATEMENT_SANDBOX_LIFE,
	STATEMENT_SANDBOX_EACH,
	STATEMENT_SANDBOX_FIND,
	STATEMENT_SANDBOX_PURGE,
	STATEMENT_SESSION_INSERT,
	STATEMENT_SESSION_DELETE,
	STATEMENT_SESSION_DELETE_ALL,
	STATEMENT_SESSION_UPDATE,
	STATEMENT_SESSION_EACH,
	STATEMENT_IDEMPOTENCY_INSERT,
	STATEMENT_IDEMPOTENCY_FIND,
	STATEMENT_IDEMPOTENCY_PURGE,
	STATEMENT_PORT_PUT,
	STATEMENT_PORT_DELETE,
	STATEMENT_PORT_DELETE_ALL,
	STATEMENT_PORT_EACH,
	STATEMENT_PORT_COUNT,
	STATEMENT_SECRET_PUT,
	STATEMENT_SECRET_FIND,
	STATEMENT_STARTS_COUNT,
	STATEMENT_BUILD_PUT,
	STATEMENT_BUILD_DELETE,
	STATEMENT_BUILD_EACH,
	STATEMENT_COUNT
};

struct store {
	sqlite3 *db; /* owned */
	sqlite3_stmt *statements[STATEMENT_COUNT];
};

/* The statement, reset and without parameters; NULL and err where it cannot be prepared. All others
 * take NULL too: nothing is bound, there is no row, and statement_run and statement_done return
 * false and leave err as it is. */
sqlite3_stmt *statement_get(
	struct store *store, enum statement_name name, const char *sql, struct error *err);
/* Steps once, for statements without rows, and resets. */
bool statement_run(struct store *store, sqlite3_stmt *statement, struct error *err);
/* One more row? False at the end and on failure, which statement_done tells apart. */
bool statement_next(sqlite3_stmt *statement);
/* All rows that are wanted are read: resets. False if reading failed. */
bool statement_done(struct store *store, sqlite3_stmt *statement, struct error *err);

void statement_bind_text(sqlite3_stmt *statement, int place, const char *text);
void statement_bind_blob(sqlite3_stmt *statement, int place, const void *bytes, size_t size);
void statement_bind_int(sqlite3_stmt *statement, int place, int64_t value);
/* Copies a text column, cut to the room there is. */
void statement_column_text(sqlite3_stmt *statement, int column, char *text, size_t size);
/* Copies a blob of exactly that size; false otherwise. */
bool statement_column_blob(sqlite3_stmt *statement, int column, void *bytes, size_t size);

#endif
