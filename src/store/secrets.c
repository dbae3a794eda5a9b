/* See secrets.h. */
#include "store/secrets.h"

#include "base/id.h"
#include "store/statement.h"

static bool make(
	struct store *store, const char *name, uint8_t *bytes, size_t size, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_SECRET_PUT,
		"INSERT OR IGNORE INTO secrets (name, bytes) VALUES (?1, ?2)", err);
	id_random(bytes, size);
	statement_bind_text(statement, 1, name);
	statement_bind_blob(statement, 2, bytes, size);
	return statement_run(store, statement, err);
}

static bool find(
	struct store *store, const char *name, uint8_t *bytes, size_t size, struct error *err)
{
	sqlite3_stmt *statement = statement_get(
		store, STATEMENT_SECRET_FIND, "SELECT bytes FROM secrets WHERE name = ?1", err);
	statement_bind_text(statement, 1, name);
	bool is_found =
		statement_next(statement) && statement_column_blob(statement, 0, bytes, size);
	if (!statement_done(store, statement, err))
		return false;
	return is_found || error_set(err, ERROR_INTERNAL, "cannot read the secret '%s'", name);
}

bool secret_row_get(
	struct store *store, const char *name, uint8_t *bytes, size_t size, struct error *err)
{
	return make(store, name, bytes, size, err) && find(store, name, bytes, size, err);
}
