#include "base/clock.h"
#include "store/builds.h"
#include "store/idempotency.h"
#include "store/keys.h"
#include "store/ports.h"
#include "store/sandboxes.h"
#include "store/secrets.h"
#include "store/sessions.h"
#include "store/starts.h"

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

static void add_port(void *context, const struct port_row *row)
{
	char *text = context;
	sprintf(text + strlen(text), "%u %s,", row->port, row->label);
}

static void declared_ports_come_in_order_and_go_with_their_sandbox(void **state)
{
	struct error err = { 0 };
	const struct sandbox_id one = { { 1 } }, other = { { 2 } };
	const struct port_row rows[] = { { 80, "b" }, { 9, "a" }, { 80, "c" } };
	char text[64] = "";
	bool was_there;
	struct store *store = open_store();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_true(port_row_put(store, &one, &rows[i], &err));
	assert_true(port_row_put(store, &other, &rows[0], &err));
	assert_true(port_row_each(store, &one, add_port, text, &err));
	assert_string_equal(text, "9 a,80 c,");
	assert_true(port_row_delete(store, &one, 9, &was_there, &err) && was_there);
	assert_true(port_row_delete(store, &one, 9, &was_there, &err) && !was_there);
	assert_true(port_row_delete_all(store, &one, &err));
	text[0] = '\0';
	assert_true(port_row_each(store, &one, add_port, text, &err));
	assert_true(port_row_each(store, &other, add_port, text, &err));
	assert_string_equal(text, "80 b,");
	store_close(store);
}

static void declared_ports_are_bounded(void **state)
{
	struct error err = { 0 };
	const struct sandbox_id sandbox = { { 3 } };
	struct port_row row = { 0 };
	struct store *store = open_store();
	for (row.port = 1; row.port <= PORTS_A_SANDBOX; row.port++)
		assert_true(port_row_put(store, &sandbox, &row, &err));
	assert_false(port_row_put(store, &sandbox, &row, &err));
	assert_int_equal(err.code, ERROR_PORT_LIMIT);
	row.port = 1;
	assert_true(port_row_put(store, &sandbox, &row, &err));
	store_close(store);
}

static void a_secret_is_made_once(void **state)
{
	struct error err = { 0 };
	uint8_t first[32], again[32], other[32];
	struct store *store = open_store();
	assert_true(secret_row_get(store, "a", first, sizeof(first), &err));
	assert_true(secret_row_get(store, "b", other, sizeof(other), &err));
	store_close(store);
	store = open_store();
	assert_true(secret_row_get(store, "a", again, sizeof(again), &err));
	assert_memory_equal(first, again, sizeof(first));
	assert_memory_not_equal(first, other, sizeof(first));
	store_close(store);
}

static void each_start_has_a_number_of_its_own(void **state)
{
	struct error err = { 0 };
	uint64_t first = 0, second = 0;
	struct store *store = open_store();
	assert_true(starts_count(store, &first, &err));
	store_close(store);
	store = open_store();
	assert_true(starts_count(store, &second, &err));
	assert_true(first >= 1 && second == first + 1);
	store_close(store);
}

struct told_builds {
	unsigned count;
	char ids[4][SHORT_ID_TEXT], log[32];
	unsigned last_state;
};

static void take_build(void *context, const struct build_row *row)
{
	struct told_builds *told = context;
	memcpy(told->ids[told->count++], row->id, SHORT_ID_TEXT);
	snprintf(told->log, sizeof(told->log), "%.*s", (int)row->log_size, row->log);
	told->last_state = row->state;
}

static void builds_are_told_in_the_order_they_were_asked_for(void **state)
{
	struct error err = { 0 };
	struct told_builds told = { 0 };
	struct build_row later = { .id = "0000000000000001", .created_ms = 20, .state = 1 };
	struct build_row first = { .id = "0000000000000002", .created_ms = 10 };
	struct store *store = open_store();
	assert_true(build_row_put(store, &later, &err) && build_row_put(store, &first, &err));
	later.state = 3;
	later.log = "a\nb\n";
	later.log_size = 4;
	assert_true(build_row_put(store, &later, &err));
	store_close(store);
	store = open_store();
	assert_true(build_row_each(store, take_build, &told, &err));
	assert_int_equal(told.count, 2);
	assert_string_equal(told.ids[0], first.id);
	assert_string_equal(told.log, "a\nb\n");
	assert_int_equal(told.last_state, 3);
	assert_true(build_row_delete(store, first.id, &err));
	told.count = 0;
	assert_true(build_row_each(store, take_build, &told, &err) && told.count == 1);
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
		cmocka_unit_test(declared_ports_come_in_order_and_go_with_their_sandbox),
		cmocka_unit_test(declared_ports_are_bounded),
		cmocka_unit_test(a_secret_is_made_once),
		cmocka_unit_test(each_start_has_a_number_of_its_own),
		cmocka_unit_test(builds_are_told_in_the_order_they_were_asked_for),
		cmocka_unit_test(a_rolled_back_write_leaves_nothing),
		cmocka_unit_test(a_newer_database_is_refused_and_says_so),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
