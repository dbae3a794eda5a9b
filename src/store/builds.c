/* See builds.h. */
#include "store/builds.h"

#include "store/statement.h"

#define COLUMNS \
	"id, name, base, state, error, created_ms, started_ms, ended_ms, size_mb, bytes," \
	" log_dropped, log"

bool build_row_put(struct store *store, const struct build_row *row, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_BUILD_PUT,
		"INSERT OR REPLACE INTO builds (" COLUMNS
		") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
		err);
	statement_bind_text(statement, 1, row->id);
	statement_bind_text(statement, 2, row->name);
	statement_bind_text(statement, 3, row->base);
	statement_bind_int(statement, 4, row->state);
	statement_bind_text(statement, 5, row->error);
	statement_bind_int(statement, 6, row->created_ms);
	statement_bind_int(statement, 7, row->started_ms);
	statement_bind_int(statement, 8, row->ended_ms);
	statement_bind_int(statement, 9, row->size_mb);
	statement_bind_int(statement, 10, row->bytes);
	statement_bind_int(statement, 11, row->log_dropped);
	statement_bind_blob(statement, 12, row->log_size ? row->log : "", row->log_size);
	return statement_run(store, statement, err);
}

bool build_row_delete(struct store *store, const char *id, struct error *err)
{
	sqlite3_stmt *statement = statement_get(
		store, STATEMENT_BUILD_DELETE, "DELETE FROM builds WHERE id = ?1", err);
	statement_bind_text(statement, 1, id);
	return statement_run(store, statement, err);
}

static void read_row(sqlite3_stmt *statement, struct build_row *ret_row)
{
	*ret_row = (struct build_row){
		.state = (unsigned)sqlite3_column_int(statement, 3),
		.created_ms = sqlite3_column_int64(statement, 5),
		.started_ms = sqlite3_column_int64(statement, 6),
		.ended_ms = sqlite3_column_int64(statement, 7),
		.size_mb = sqlite3_column_int64(statement, 8),
		.bytes = sqlite3_column_int64(statement, 9),
		.log_dropped = sqlite3_column_int64(statement, 10),
		.log = sqlite3_column_blob(statement, 11),
		.log_size = (size_t)sqlite3_column_bytes(statement, 11),
	};
	statement_column_text(statement, 0, ret_row->id, sizeof(ret_row->id));
	statement_column_text(statement, 1, ret_row->name, sizeof(ret_row->name));
	statement_column_text(statement, 2, ret_row->base, sizeof(ret_row->base));
	statement_column_text(statement, 4, ret_row->error, sizeof(ret_row->error));
}

bool build_row_each(struct store *store, build_row_visit visit, void *context, struct error *err)
{
	struct build_row row;
	sqlite3_stmt *statement = statement_get(store, STATEMENT_BUILD_EACH,
		"SELECT " COLUMNS " FROM builds ORDER BY created_ms, rowid", err);
	while (statement_next(statement)) {
		read_row(statement, &row);
		visit(context, &row);
	}
	return statement_done(store, statement, err);
}
