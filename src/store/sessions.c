/* See sessions.h. */
#include "store/sessions.h"

#include "store/statement.h"

bool session_row_insert(struct store *store, const struct session_row *row, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SESSION_INSERT,
		"INSERT INTO sessions (sandbox, id, slot, generation, language, created_ms, cells)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
		err);
	statement_bind_blob(statement, 1, row->sandbox.bytes, SANDBOX_ID_SIZE);
	statement_bind_text(statement, 2, row->id);
	statement_bind_int(statement, 3, row->slot);
	statement_bind_int(statement, 4, row->generation);
	statement_bind_text(statement, 5, row->language);
	statement_bind_int(statement, 6, row->created_ms);
	statement_bind_int(statement, 7, (int64_t)row->cells);
	return statement_run(store, statement, err);
}

bool session_row_update(struct store *store, const struct session_row *row, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SESSION_UPDATE,
		"UPDATE sessions SET generation = ?3, cells = ?4 WHERE sandbox = ?1 AND id = ?2",
		err);
	statement_bind_blob(statement, 1, row->sandbox.bytes, SANDBOX_ID_SIZE);
	statement_bind_text(statement, 2, row->id);
	statement_bind_int(statement, 3, row->generation);
	statement_bind_int(statement, 4, (int64_t)row->cells);
	return statement_run(store, statement, err);
}

bool session_row_delete(
	struct store *store, const struct sandbox_id *sandbox, const char *id, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SESSION_DELETE,
		"DELETE FROM sessions WHERE sandbox = ?1 AND id = ?2", err);
	statement_bind_blob(statement, 1, sandbox->bytes, SANDBOX_ID_SIZE);
	statement_bind_text(statement, 2, id);
	return statement_run(store, statement, err);
}

bool session_row_delete_all(
	struct store *store, const struct sandbox_id *sandbox, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SESSION_DELETE_ALL,
		"DELETE FROM sessions WHERE sandbox = ?1", err);
	statement_bind_blob(statement, 1, sandbox->bytes, SANDBOX_ID_SIZE);
	return statement_run(store, statement, err);
}

bool session_row_each(
	struct store *store, session_row_visit visit, void *context, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SESSION_EACH,
		"SELECT sandbox, id, slot, generation, language, created_ms, cells FROM sessions"
		" ORDER BY created_ms",
		err);
	while (statement_next(statement)) {
		struct session_row row = {
			.slot = (uint32_t)sqlite3_column_int64(statement, 2),
			.generation = (uint32_t)sqlite3_column_int64(statement, 3),
			.created_ms = sqlite3_column_int64(statement, 5),
			.cells = (uint64_t)sqlite3_column_int64(statement, 6),
		};
		statement_column_text(statement, 1, row.id, sizeof(row.id));
		statement_column_text(statement, 4, row.language, sizeof(row.language));
		if (statement_column_blob(statement, 0, row.sandbox.bytes, SANDBOX_ID_SIZE))
			visit(context, &row);
	}
	return statement_done(store, statement, err);
}
