#include "base/clock.h"
#include "store/idempotency.h"
#include "store/keys.h"
#include "store/sandboxes.h"
#include "store/sessions.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/store-test-XXXXXX", path[64];

static struct store *open_store(void)
{
	struct error err = { 0 };
	struct store *store = store_open(path, &err);
	assert_non_null(store);
	return store;
}

static struct sandbox_row a_sandbox(uint8_t number)
{
	return (struct sandbox_row){ .id = { { number } },
		.owner = "owner-1",
		.template_name = "base",
		.metadata = "{\"k\":\"v\"}",
		.ttl_seconds = 300,
		.created_ms = number,
		.limits = { .memory_bytes = 1ull << 40, .processes = 7 },
		.cell_seconds = 28 };
}

static void keep_last(void *context, const struct sandbox_row *row)
{
	struct sandbox_row *last = context;
	*last = *row;
	last->metadata = strcmp(row->metadata, "{\"k\":\"v\"}") == 0 ? "same" : "other";
}

static void count_sessions(void *context, const struct session_row *row)
{
	++*(unsigned *)context;
}

static void rows_outlive_the_process_that_wrote_them(void **state)
{
	struct error err = { 0 };
	struct sandbox_row row = a_sandbox(1), found = { 0 };
	struct store *store = open_store();
	assert_true(sandbox_row_insert(store, &row, &err));
	assert_true(sandbox_row_set_life(store, &row.id, 60, true, &err));
	store_close(store);
	store = open_store();
	assert_true(sandbox_row_each(store, keep_last, &found, &err));
	assert_memory_equal(found.id.bytes, row.id.bytes, SANDBOX_ID_SIZE);
	assert_string_equal(found.metadata, "same");
	assert_true(found.ttl_seconds == 60 && found.is_persistent && !found.is_ended);
	assert_true(found.limits.memory_bytes == 1ull << 40 && found.limits.processes == 7);
	store_close(store);
}

static void an_ended_sandbox_keeps_its_row_and_loses_its_sessions(void **state)
{
	struct error err = { 0 };
	struct sandbox_row row = a_sandbox(2), found = { 0 };
	struct session_row session = {
		.sandbox = row.id, .id = "0123456789abcdef", .generation = 1
	};
	unsigned sessions = 0;
	struct store *store = open_store();
	assert_true(sandbox_row_insert(store, &row, &err));
	assert_true(session_row_insert(store, &session, &err));
	assert_true(session_row_each(store, count_sessions, &sessions, &err) && sessions == 1);
	assert_true(sandbox_row_end(store, &row.id, "idle", &err));
	assert_true(session_row_each(store, count_sessions, &sessions, &err) && sessions == 1);
	assert_true(sandbox_row_find(store, &row.id, keep_last, &found, &err));
	assert_true(found.is_ended);
	assert_true(sandbox_row_purge(store, clock_wall_ms() + 1000, &err));
	found = (struct sandbox_row){ 0 };
	assert_true(sandbox_row_find(store, &row.id, keep_last, &found, &err));
	assert_int_equal(found.ttl_seconds, 0);
	store_close(store);
}

static void an_idempotency_key_belongs_to_its_owner(void **state)
{
	struct error err = { 0 };
	struct idempotency_row row = { .body_hash = { 9 }, .created_ms = 5 }, found;
	bool is_there;
	struct store *store = open_store();
	assert_true(idempotency_row_put(store, "owner-1", "k", &row, &err));
	assert_true(idempotency_row_find(store, "owner-1", "k", &is_there, &found, &err));
	assert_true(is_there && found.body_hash[0] == 9 && found.created_ms == 5);
	assert_true(idempotency_row_find(store, "owner-2", "k", &is_there, &found, &err));
	assert_false(is_there);
	assert_true(idempotency_row_purge(store, 6, &err));
	assert_true(idempotency_row_find(store, "owner-1", "k", &is_there, &found, &err));
	assert_false(is_there);
	store_close(store);
}

/* ---- keys ---- */

static struct key_row a_key(uint8_t number, bool is_listed)
{
	return (struct key_row){ .hash = { number },
		.owner = "owner-1",
		.prefix = "sg_00000000",
		.label = "a label",
		.is_listed = is_listed,
		.created_ms = number };
}

struct seen {
	struct key_row rows[8];
	size_t count;
};

static void see(void *context, const struct key_row *row)
{
	struct seen *seen = context;
	seen->rows[seen->count++] = *row;
}

static struct seen keys_in(struct store *store)
{
	struct error err = { 0 };
	struct seen seen = { 0 };
	assert_true(key_row_each(store, see, &seen, &err));
	return seen;
}

static void a_listed_key_goes_when_it_is_listed_no_more_and_tokens_stay(void **state)
{
	struct error err = { 0 };
	struct store *store = open_store();
	struct key_row listed[] = { a_key(1, true), a_key(2, true) }, token = a_key(3, false);
	assert_true(key_rows_list(store, listed, 2, &err));
	assert_true(key_row_insert(store, &token, &err));
	strcpy(listed[1].label, "another");
	assert_true(key_rows_list(store, listed + 1, 1, &err));
	struct seen seen = keys_in(store);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.rows[0].hash[0], 2);
	assert_string_equal(seen.rows[0].label, "another");
	assert_int_equal(seen.rows[1].hash[0], 3);
	assert_string_equal(seen.rows[1].prefix, "sg_00000000");
	assert_true(key_rows_list(store, NULL, 0, &err));
	assert_true(key_row_revoke(store, token.hash, 5, &err));
	assert_int_equal(keys_in(store).count, 0);
	store_close(store);
}

static void a_revoked_listed_key_stays_revoked_when_it_is_listed_again(void **state)
{
	struct error err = { 0 };
	struct store *store = open_store();
	struct key_row listed = a_key(4, true);
	assert_true(key_rows_list(store, &listed, 1, &err));
	assert_true(key_row_revoke(store, listed.hash, 77, &err));
	assert_true(key_row_set_used(store, listed.hash, 66, &err));
	assert_true(key_rows_list(store, &listed, 1, &err));
	struct seen seen = keys_in(store);
	assert_true(seen.count == 1 && seen.rows[0].revoked_ms == 77 && seen.rows[0].used_ms == 66);
	assert_true(key_rows_list(store, NULL, 0, &err));
	store_close(store);
}

static void expired_tokens_are_forgotten_and_others_are_not(void **state)
{
	struct error err = { 0 };
	struct store *store = open_store();
	struct key_row old = a_key(5, false), later = a_key(6, false), forever = a_key(7, false);
	old.expires_ms = 10;
	later.expires_ms = 20;
	assert_true(key_row_insert(store, &old, &err) && key_row_insert(store, &later, &err) &&
		    key_row_insert(store, &forever, &err));
	assert_true(key_row_purge(store, 15, &err));
	struct seen seen = keys_in(store);
	assert_true(seen.count == 2 && seen.rows[0].hash[0] == 6 && seen.rows[1].hash[0] == 7);
	store_close(store);
}

static void a_rolled_back_write_leaves_nothing(void **state)
{
	struct error err = { 0 };
	struct sandbox_row row = a_sandbox(3), found = { 0 };
	struct store *store = open_store();
	assert_true(store_begin(store, &err) && sandbox_row_insert(store, &row, &err));
	store_rollback(store);
	assert_true(sandbox_row_find(store, &row.id, keep_last, &found, &err));
	assert_int_equal(found.ttl_seconds, 0);
	store_close(store);
}

static void a_newer_database_is_refused_and_says_so(void **state)
{
	struct error err = { 0 };
	char sql[64];
	sqlite3 *db;
	store_close(open_store());
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", store_version() + 1);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_null(store_open(path, &err));
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_non_null(strstr(err.message, "version"));
	assert_true(err.hint[0]);
}

static int make_folder(void **state)
{
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/state.db", folder);
	return 0;
}

static int remove_folder(void **state)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	char name[80];
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		snprintf(name, sizeof(name), "%s%s", path, ends[i]);
		unlink(name);
	}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_outlive_the_process_that_wrote_them),
		cmocka_unit_test(an_ended_sandbox_keeps_its_row_and_loses_its_sessions),
		cmocka_unit_test(an_idempotency_key_belongs_to_its_owner),
		cmocka_unit_test(a_listed_key_goes_when_it_is_listed_no_more_and_tokens_stay),
		cmocka_unit_test(a_revoked_listed_key_stays_revoked_when_it_is_listed_again),
		cmocka_unit_test(expired_tokens_are_forgotten_and_others_are_not),
		cmocka_unit_test(a_rolled_back_write_leaves_nothing),
		cmocka_unit_test(a_newer_database_is_refused_and_says_so),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
