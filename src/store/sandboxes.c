/* See sandboxes.h. */
#include "store/sandboxes.h"

#include "base/clock.h"
#include "store/sessions.h"
#include "store/statement.h"

#define COLUMNS \
	"id, owner, template, metadata, ttl_seconds, is_persistent, created_ms, memory_bytes," \
	" files_bytes, inodes, processes, cpu_milli, cell_seconds"

bool sandbox_row_insert(struct store *store, const struct sandbox_row *row, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SANDBOX_INSERT,
		"INSERT INTO sandboxes (" COLUMNS
		") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
		err);
	statement_bind_blob(statement, 1, row->id.bytes, SANDBOX_ID_SIZE);
	statement_bind_text(statement, 2, row->owner);
	statement_bind_text(statement, 3, row->template_name);
	statement_bind_text(statement, 4, row->metadata);
	statement_bind_int(statement, 5, row->ttl_seconds);
	statement_bind_int(statement, 6, row->is_persistent);
	statement_bind_int(statement, 7, row->created_ms);
	statement_bind_int(statement, 8, (int64_t)row->limits.memory_bytes);
	statement_bind_int(statement, 9, (int64_t)row->limits.files_bytes);
	statement_bind_int(statement, 10, row->limits.inodes);
	statement_bind_int(statement, 11, row->limits.processes);
	statement_bind_int(statement, 12, row->limits.cpu_milli);
	statement_bind_int(statement, 13, row->cell_seconds);
	return statement_run(store, statement, err);
}

bool sandbox_row_end(
	struct store *store, const struct sandbox_id *id, const char *reason, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SANDBOX_END,
		"UPDATE sandboxes SET end_reason = ?2, ended_ms = ?3"
		" WHERE id = ?1 AND ended_ms IS NULL",
		err);
	statement_bind_blob(statement, 1, id->bytes, SANDBOX_ID_SIZE);
	statement_bind_text(statement, 2, reason);
	statement_bind_int(statement, 3, clock_wall_ms());
	return statement_run(store, statement, err) && session_row_delete_all(store, id, err);
}

bool sandbox_row_set_life(struct store *store, const struct sandbox_id *id, int64_t ttl_seconds,
	bool is_persistent, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SANDBOX_LIFE,
		"UPDATE sandboxes SET ttl_seconds = ?2, is_persistent = ?3 WHERE id = ?1", err);
	statement_bind_blob(statement, 1, id->bytes, SANDBOX_ID_SIZE);
	statement_bind_int(statement, 2, ttl_seconds);
	statement_bind_int(statement, 3, is_persistent);
	return statement_run(store, statement, err);
}

static bool read_row(sqlite3_stmt *statement, struct sandbox_row *ret_row)
{
	*ret_row = (struct sandbox_row){
		.metadata = (const char *)sqlite3_column_text(statement, 3),
		.ttl_seconds = sqlite3_column_int64(statement, 4),
		.is_persistent = sqlite3_column_int(statement, 5),
		.created_ms = sqlite3_column_int64(statement, 6),
		.limits = { .memory_bytes = (uint64_t)sqlite3_column_int64(statement, 7),
			.files_bytes = (uint64_t)sqlite3_column_int64(statement, 8),
			.inodes = (uint32_t)sqlite3_column_int64(statement, 9),
			.processes = (uint32_t)sqlite3_column_int64(statement, 10),
			.cpu_milli = (uint32_t)sqlite3_column_int64(statement, 11) },
		.cell_seconds = (uint32_t)sqlite3_column_int64(statement, 12),
		.is_ended = sqlite3_column_type(statement, 13) != SQLITE_NULL,
	};
	statement_column_text(statement, 1, ret_row->owner, sizeof(ret_row->owner));
	statement_column_text(statement, 2, ret_row->template_name, sizeof(ret_row->template_name));
	return ret_row->metadata &&
	       statement_column_blob(statement, 0, ret_row->id.bytes, SANDBOX_ID_SIZE);
}

static bool visit_rows(struct store *store, sqlite3_stmt *statement, sandbox_row_visit visit,
	void *context, struct error *err)
{
	struct sandbox_row row;
	while (statement_next(statement))
		if (read_row(statement, &row))
			visit(context, &row);
	return statement_done(store, statement, err);
}

bool sandbox_row_each(
	struct store *store, sandbox_row_visit visit, void *context, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SANDBOX_EACH,
		"SELECT " COLUMNS ", ended_ms FROM sandboxes WHERE ended_ms IS NULL"
		" ORDER BY created_ms",
		err);
	return visit_rows(store, statement, visit, context, err);
}

bool sandbox_row_find(struct store *store, const struct sandbox_id *id, sandbox_row_visit visit,
	void *context, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SANDBOX_FIND,
		"SELECT " COLUMNS ", ended_ms FROM sandboxes WHERE id = ?1", err);
	statement_bind_blob(statement, 1, id->bytes, SANDBOX_ID_SIZE);
	return visit_rows(store, statement, visit, context, err);
}

bool sandbox_row_purge(struct store *store, int64_t before_ms, struct error *err)
{
	sqlite3_stmt *statement = statement_get(
		store, STATEMENT_SANDBOX_PURGE, "DELETE FROM sandboxes WHERE ended_ms < ?1", err);
	statement_bind_int(statement, 1, before_ms);
	return statement_run(store, statement, err);
}
