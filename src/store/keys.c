/* See keys.h. The column is_first dates from when there was one listed key only. */
#include "store/keys.h"

#include "store/statement.h"

#include <string.h>

/* ---- listed ones ---- */

struct stale {
	const struct key_row *rows;
	size_t count;
	struct key_row *found; /* owned */
	size_t found_count;
	bool is_failed;
};

static void note_stale(void *context, const struct key_row *row)
{
	struct stale *stale = context;
	for (size_t i = 0; i < stale->count; i++)
		if (memcmp(stale->rows[i].hash, row->hash, KEY_HASH_SIZE) == 0)
			return;
	if (!row->is_listed)
		return;
	struct key_row *found = reallocarray(stale->found, stale->found_count + 1, sizeof(*found));
	stale->is_failed = stale->is_failed || !found;
	if (!found)
		return;
	stale->found = found;
	found[stale->found_count++] = *row;
}

static bool forget(struct store *store, enum statement_name name, const char *sql,
	const uint8_t *hash, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, name, sql, err);
	statement_bind_blob(statement, 1, hash, KEY_HASH_SIZE);
	return statement_run(store, statement, err);
}

static bool forget_stale(
	struct store *store, const struct key_row *rows, size_t count, struct error *err)
{
	struct stale stale = { .rows = rows, .count = count };
	bool is_good = key_row_each(store, note_stale, &stale, err);
	if (is_good && stale.is_failed)
		is_good = error_no_memory(err) != NULL;
	for (size_t i = 0; is_good && i < stale.found_count; i++)
		is_good = forget(store, STATEMENT_KEY_FORGET, "DELETE FROM keys WHERE hash = ?1",
			stale.found[i].hash, err);
	free(stale.found);
	return is_good;
}

static bool put(struct store *store, enum statement_name name, const char *sql,
	const struct key_row *row, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, name, sql, err);
	statement_bind_blob(statement, 1, row->hash, KEY_HASH_SIZE);
	statement_bind_text(statement, 2, row->owner);
	statement_bind_text(statement, 3, row->label);
	statement_bind_int(statement, 4, row->is_listed);
	statement_bind_int(statement, 5, row->created_ms);
	statement_bind_text(statement, 6, row->prefix);
	statement_bind_int(statement, 7, row->expires_ms);
	return statement_run(store, statement, err);
}

#define INSERT \
	"INSERT INTO keys (hash, owner, label, is_first, created_ms, prefix, expires_ms)" \
	" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"

bool key_rows_list(struct store *store, const struct key_row *rows, size_t count, struct error *err)
{
	if (!store_begin(store, err))
		return false;
	bool is_good = forget_stale(store, rows, count, err);
	for (size_t i = 0; is_good && i < count; i++)
		is_good = put(store, STATEMENT_KEY_LIST,
			INSERT " ON CONFLICT (hash) DO UPDATE SET owner = ?2, label = ?3,"
			       " is_first = ?4, prefix = ?6, expires_ms = ?7",
			&rows[i], err);
	if (is_good)
		return store_commit(store, err);
	store_rollback(store);
	return false;
}

/* ---- each by itself ---- */

bool key_row_insert(struct store *store, const struct key_row *row, struct error *err)
{
	return put(store, STATEMENT_KEY_INSERT, INSERT, row, err);
}

static bool mark(struct store *store, enum statement_name name, const char *sql,
	const uint8_t *hash, int64_t at_ms, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, name, sql, err);
	statement_bind_blob(statement, 1, hash, KEY_HASH_SIZE);
	statement_bind_int(statement, 2, at_ms);
	return statement_run(store, statement, err);
}

bool key_row_revoke(
	struct store *store, const uint8_t hash[KEY_HASH_SIZE], int64_t now_ms, struct error *err)
{
	return mark(store, STATEMENT_KEY_MARK,
		       "UPDATE keys SET revoked_ms = ?2 WHERE hash = ?1 AND is_first", hash, now_ms,
		       err) &&
	       forget(store, STATEMENT_KEY_REVOKE,
		       "DELETE FROM keys WHERE hash = ?1 AND NOT is_first", hash, err);
}

bool key_row_set_used(
	struct store *store, const uint8_t hash[KEY_HASH_SIZE], int64_t used_ms, struct error *err)
{
	return mark(store, STATEMENT_KEY_USED, "UPDATE keys SET used_ms = ?2 WHERE hash = ?1", hash,
		used_ms, err);
}

bool key_row_purge(struct store *store, int64_t before_ms, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_KEY_PURGE,
		"DELETE FROM keys WHERE expires_ms > 0 AND expires_ms < ?1 AND NOT is_first", err);
	statement_bind_int(statement, 1, before_ms);
	return statement_run(store, statement, err);
}

bool key_row_each(struct store *store, key_row_visit visit, void *context, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_KEY_EACH,
		"SELECT hash, owner, label, is_first, created_ms, prefix, expires_ms, used_ms,"
		" revoked_ms FROM keys ORDER BY created_ms, hash",
		err);
	while (statement_next(statement)) {
		struct key_row row = { .is_listed = sqlite3_column_int(statement, 3),
			.created_ms = sqlite3_column_int64(statement, 4),
			.expires_ms = sqlite3_column_int64(statement, 6),
			.used_ms = sqlite3_column_int64(statement, 7),
			.revoked_ms = sqlite3_column_int64(statement, 8) };
		if (!statement_column_blob(statement, 0, row.hash, sizeof(row.hash)))
			continue;
		statement_column_text(statement, 1, row.owner, sizeof(row.owner));
		statement_column_text(statement, 2, row.label, sizeof(row.label));
		statement_column_text(statement, 5, row.prefix, sizeof(row.prefix));
		visit(context, &row);
	}
	return statement_done(store, statement, err);
}
