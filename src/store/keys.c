/* See keys.h. */
#include "store/keys.h"

#include "base/clock.h"
#include "store/statement.h"

#define FIRST_OWNER "owner-1"

static bool forget_first(struct store *store, const uint8_t *hash, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_KEY_FORGET_FIRST,
		"DELETE FROM keys WHERE is_first AND hash <> ?1", err);
	if (!statement)
		return false;
	statement_bind_blob(statement, 1, hash, KEY_HASH_SIZE);
	return statement_run(store, statement, err);
}

bool key_row_put_first(struct store *store, const uint8_t hash[KEY_HASH_SIZE], struct error *err)
{
	if (!forget_first(store, hash, err))
		return false;
	sqlite3_stmt *statement = statement_get(store, STATEMENT_KEY_PUT,
		"INSERT OR IGNORE INTO keys (hash, owner, label, is_first, created_ms)"
		" VALUES (?1, '" FIRST_OWNER "', 'first key', 1, ?2)",
		err);
	if (!statement)
		return false;
	statement_bind_blob(statement, 1, hash, KEY_HASH_SIZE);
	statement_bind_int(statement, 2, clock_wall_ms());
	return statement_run(store, statement, err);
}

bool key_row_each(struct store *store, key_row_visit visit, void *context, struct error *err)
{
	sqlite3_stmt *statement =
		statement_get(store, STATEMENT_KEY_EACH, "SELECT hash, owner FROM keys", err);
	if (!statement)
		return false;
	struct error failure = { 0 };
	while (statement_next(store, statement, &failure)) {
		struct key_row row;
		if (!statement_column_blob(statement, 0, row.hash, sizeof(row.hash)))
			continue;
		statement_column_text(statement, 1, row.owner, sizeof(row.owner));
		visit(context, &row);
	}
	if (failure.code && err)
		*err = failure;
	return failure.code == ERROR_NONE;
}
