/* See ports.h. */
#include "store/ports.h"

#include "store/statement.h"

static bool count(struct store *store, const struct sandbox_id *sandbox, uint16_t but, int *ret,
	struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_PORT_COUNT,
		"SELECT count(*) FROM ports WHERE sandbox = ?1 AND port <> ?2", err);
	statement_bind_blob(statement, 1, sandbox->bytes, SANDBOX_ID_SIZE);
	statement_bind_int(statement, 2, but);
	bool is_read = statement_next(statement);
	if (is_read)
		*ret = sqlite3_column_int(statement, 0);
	return statement_done(store, statement, err) && is_read;
}

bool port_row_put(struct store *store, const struct sandbox_id *sandbox, const struct port_row *row,
	struct error *err)
{
	int others = 0;
	if (!count(store, sandbox, row->port, &others, err))
		return false;
	if (others >= PORTS_A_SANDBOX)
		return error_set(err, ERROR_PORT_LIMIT, "the sandbox has %d declared ports",
			PORTS_A_SANDBOX);
	sqlite3_stmt *statement = statement_get(store, STATEMENT_PORT_PUT,
		"INSERT OR REPLACE INTO ports (sandbox, port, label) VALUES (?1, ?2, ?3)", err);
	statement_bind_blob(statement, 1, sandbox->bytes, SANDBOX_ID_SIZE);
	statement_bind_int(statement, 2, row->port);
	statement_bind_text(statement, 3, row->label);
	return statement_run(store, statement, err);
}

bool port_row_delete(struct store *store, const struct sandbox_id *sandbox, uint16_t port,
	bool *ret_was_there, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_PORT_DELETE,
		"DELETE FROM ports WHERE sandbox = ?1 AND port = ?2", err);
	statement_bind_blob(statement, 1, sandbox->bytes, SANDBOX_ID_SIZE);
	statement_bind_int(statement, 2, port);
	if (!statement_run(store, statement, err))
		return false;
	*ret_was_there = sqlite3_changes(store->db) > 0;
	return true;
}

bool port_row_delete_all(struct store *store, const struct sandbox_id *sandbox, struct error *err)
{
	sqlite3_stmt *statement = statement_get(
		store, STATEMENT_PORT_DELETE_ALL, "DELETE FROM ports WHERE sandbox = ?1", err);
	statement_bind_blob(statement, 1, sandbox->bytes, SANDBOX_ID_SIZE);
	return statement_run(store, statement, err);
}

bool port_row_each(struct store *store, const struct sandbox_id *sandbox, port_row_visit visit,
	void *context, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_PORT_EACH,
		"SELECT port, label FROM ports WHERE sandbox = ?1 ORDER BY port", err);
	statement_bind_blob(statement, 1, sandbox->bytes, SANDBOX_ID_SIZE);
	while (statement_next(statement)) {
		struct port_row row = { .port = (uint16_t)sqlite3_column_int(statement, 0) };
		statement_column_text(statement, 1, row.label, sizeof(row.label));
		visit(context, &row);
	}
	return statement_done(store, statement, err);
}
