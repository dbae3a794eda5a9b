/*
 * Opening, migrating, transactions, and the statement helpers. Each migration takes the schema from
 * version n to n + 1 and runs in one transaction with the change of PRAGMA user_version, so that a
 * crash leaves either the old or the new schema.
 *
 * synchronous=NORMAL: a commit survives the death of our process at once, and that of the machine
 * up to the last checkpoint; sandboxes do not survive the latter anyway.
 */
#include "store/statement.h"

#include <stdio.h>
#include <string.h>

static const char *const migrations[] = {
	"CREATE TABLE keys (hash BLOB PRIMARY KEY, owner TEXT NOT NULL, label TEXT NOT NULL,"
	" is_first INTEGER NOT NULL, created_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE sandboxes (id BLOB PRIMARY KEY, owner TEXT NOT NULL, template TEXT NOT NULL,"
	" metadata TEXT NOT NULL, ttl_seconds INTEGER NOT NULL, is_persistent INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, files_bytes INTEGER NOT NULL,"
	" inodes INTEGER NOT NULL, processes INTEGER NOT NULL, cpu_milli INTEGER NOT NULL,"
	" cell_seconds INTEGER NOT NULL, end_reason TEXT, ended_ms INTEGER) WITHOUT ROWID;"
	"CREATE INDEX sandboxes_ended ON sandboxes (ended_ms);"
	"CREATE TABLE sessions (sandbox BLOB NOT NULL, id TEXT NOT NULL, slot INTEGER NOT NULL,"
	" generation INTEGER NOT NULL, language TEXT NOT NULL, created_ms INTEGER NOT NULL,"
	" cells INTEGER NOT NULL, PRIMARY KEY (sandbox, id)) WITHOUT ROWID;"
	"CREATE TABLE idempotency (owner TEXT NOT NULL, key TEXT NOT NULL, body_hash BLOB NOT NULL,"
	" sandbox BLOB NOT NULL, created_ms INTEGER NOT NULL, PRIMARY KEY (owner, key)) WITHOUT "
	"ROWID;",
	"ALTER TABLE keys ADD COLUMN prefix TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE keys ADD COLUMN expires_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE keys ADD COLUMN used_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE keys ADD COLUMN revoked_ms INTEGER NOT NULL DEFAULT 0;",
	"CREATE TABLE ports (sandbox BLOB NOT NULL, port INTEGER NOT NULL, label TEXT NOT NULL,"
	" PRIMARY KEY (sandbox, port)) WITHOUT ROWID;"
	"CREATE TABLE secrets (name TEXT PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT ROWID;",
	"CREATE TABLE starts (id INTEGER PRIMARY KEY, count INTEGER NOT NULL);"
	"CREATE TABLE builds (id TEXT PRIMARY KEY, name TEXT NOT NULL, base TEXT NOT NULL,"
	" state INTEGER NOT NULL, error TEXT NOT NULL, created_ms INTEGER NOT NULL,"
	" started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, size_mb INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, log_dropped INTEGER NOT NULL, log BLOB NOT NULL);",
};

int store_version(void)
{
	return (int)ARRAY_SIZE(migrations);
}

static bool store_failed(struct store *store, const char *what, struct error *err)
{
	return error_set(err, ERROR_INTERNAL, "%s: %s", what, sqlite3_errmsg(store->db));
}

static bool execute(struct store *store, const char *sql, const char *what, struct error *err)
{
	if (sqlite3_exec(store->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_failed(store, what, err);
	return true;
}

static bool read_version(struct store *store, int *ret_version, struct error *err)
{
	sqlite3_stmt *statement = NULL;
	if (sqlite3_prepare_v2(store->db, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK)
		return store_failed(store, "cannot read the database", err);
	bool is_there = sqlite3_step(statement) == SQLITE_ROW;
	*ret_version = is_there ? sqlite3_column_int(statement, 0) : 0;
	sqlite3_finalize(statement);
	return is_there || store_failed(store, "cannot read the database", err);
}

static bool migrate(struct store *store, struct error *err)
{
	int version = 0;
	if (!read_version(store, &version, err))
		return false;
	if (version > store_version()) {
		error_set(err, ERROR_CONFIG,
			"the database has version %d, this program knows up to %d", version,
			store_version());
		return error_hint(
			err, "start the newer program again, or give --state a fresh folder");
	}
	for (; version < store_version(); version++) {
		char bump[64];
		snprintf(bump, sizeof(bump), "PRAGMA user_version = %d", version + 1);
		if (!store_begin(store, err))
			return false;
		if (!execute(store, migrations[version], "cannot migrate the database", err) ||
			!execute(store, bump, "cannot migrate the database", err)) {
			store_rollback(store);
			return false;
		}
		if (!store_commit(store, err))
			return false;
	}
	return true;
}

struct store *store_open(const char *path, struct error *err)
{
	CLEANUP(store_close) struct store *store = calloc(1, sizeof(*store));
	if (!store)
		return error_no_memory(err);
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	if (sqlite3_open_v2(path, &store->db, flags, NULL) != SQLITE_OK) {
		error_set(err, ERROR_INTERNAL, "cannot open the database: %s",
			store->db ? sqlite3_errmsg(store->db) : "out of memory");
		return NULL;
	}
	sqlite3_busy_timeout(store->db, 2000);
	if (!execute(store,
		    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = "
		    "MEMORY",
		    "cannot set up the database", err))
		return NULL;
	if (!migrate(store, err))
		return NULL;
	return TAKE(&store);
}

struct store *store_close(struct store *store)
{
	if (!store)
		return NULL;
	for (int i = 0; i < STATEMENT_COUNT; i++)
		sqlite3_finalize(store->statements[i]);
	sqlite3_close(store->db);
	free(store);
	return NULL;
}

bool store_begin(struct store *store, struct error *err)
{
	return execute(store, "BEGIN IMMEDIATE", "cannot begin a transaction", err);
}

bool store_commit(struct store *store, struct error *err)
{
	if (execute(store, "COMMIT", "cannot commit", err))
		return true;
	store_rollback(store);
	return false;
}

void store_rollback(struct store *store)
{
	sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

sqlite3_stmt *statement_get(
	struct store *store, enum statement_name name, const char *sql, struct error *err)
{
	sqlite3_stmt **place = &store->statements[name];
	if (!*place && sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, place,
			       NULL) != SQLITE_OK) {
		store_failed(store, "cannot prepare a statement", err);
		return NULL;
	}
	sqlite3_reset(*place);
	sqlite3_clear_bindings(*place);
	return *place;
}

bool statement_run(struct store *store, sqlite3_stmt *statement, struct error *err)
{
	if (!statement)
		return false;
	int result = sqlite3_step(statement);
	sqlite3_reset(statement);
	if (result != SQLITE_DONE && result != SQLITE_ROW)
		return store_failed(store, "cannot write to the database", err);
	return true;
}

bool statement_next(sqlite3_stmt *statement)
{
	return sqlite3_step(statement) == SQLITE_ROW;
}

bool statement_done(struct store *store, sqlite3_stmt *statement, struct error *err)
{
	if (!statement)
		return false;
	if (sqlite3_reset(statement) != SQLITE_OK) /* tells how the last step went */
		return store_failed(store, "cannot read the database", err);
	return true;
}

void statement_bind_text(sqlite3_stmt *statement, int place, const char *text)
{
	sqlite3_bind_text(statement, place, text, -1, SQLITE_TRANSIENT);
}

void statement_bind_blob(sqlite3_stmt *statement, int place, const void *bytes, size_t size)
{
	sqlite3_bind_blob(statement, place, bytes, (int)size, SQLITE_TRANSIENT);
}

void statement_bind_int(sqlite3_stmt *statement, int place, int64_t value)
{
	sqlite3_bind_int64(statement, place, value);
}

void statement_column_text(sqlite3_stmt *statement, int column, char *text, size_t size)
{
	const char *value = (const char *)sqlite3_column_text(statement, column);
	snprintf(text, size, "%s", value ? value : "");
}

bool statement_column_blob(sqlite3_stmt *statement, int column, void *bytes, size_t size)
{
	const void *value = sqlite3_column_blob(statement, column);
	if (!value || sqlite3_column_bytes(statement, column) != (int)size)
		return false;
	memcpy(bytes, value, size);
	return true;
}
