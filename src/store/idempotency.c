/* See idempotency.h. */
#include "store/idempotency.h"

#include "store/statement.h"

bool idempotency_row_put(struct store *store, const char *owner, const char *key,
	const struct idempotency_row *row, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_IDEMPOTENCY_INSERT,
		"INSERT OR REPLACE INTO idempotency (owner, key, body_hash, sandbox, created_ms)"
		" VALUES (?1, ?2, ?3, ?4, ?5)",
		err);
	statement_bind_text(statement, 1, owner);
	statement_bind_text(statement, 2, key);
	statement_bind_blob(statement, 3, row->body_hash, BODY_HASH_SIZE);
	statement_bind_blob(statement, 4, row->sandbox.bytes, SANDBOX_ID_SIZE);
	statement_bind_int(statement, 5, row->created_ms);
	return statement_run(store, statement, err);
}

bool idempotency_row_find(struct store *store, const char *owner, const char *key,
	bool *ret_is_there, struct idempotency_row *ret_row, struct error *err)
{
	*ret_is_there = false;
	sqlite3_stmt *statement = statement_get(store, STATEMENT_IDEMPOTENCY_FIND,
		"SELECT body_hash, sandbox, created_ms FROM idempotency"
		" WHERE owner = ?1 AND key = ?2",
		err);
	statement_bind_text(statement, 1, owner);
	statement_bind_text(statement, 2, key);
	if (statement_next(statement)) {
		*ret_is_there =
			statement_column_blob(statement, 0, ret_row->body_hash, BODY_HASH_SIZE) &&
			statement_column_blob(
				statement, 1, ret_row->sandbox.bytes, SANDBOX_ID_SIZE);
		ret_row->created_ms = sqlite3_column_int64(statement, 2);
	}
	return statement_done(store, statement, err);
}

bool idempotency_row_purge(struct store *store, int64_t before_ms, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_IDEMPOTENCY_PURGE,
		"DELETE FROM idempotency WHERE created_ms < ?1", err);
	statement_bind_int(statement, 1, before_ms);
	return statement_run(store, statement, err);
}
