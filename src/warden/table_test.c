/* What was added is found until it is removed, whatever else is in its bucket. */
#include "warden/table.h"

#include "warden/sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MANY 300

static struct table the_table;
static struct sandbox sandboxes[MANY];

/* Ids of one bucket, that differ only where the hash does not look. */
static struct sandbox_id id_of(unsigned number)
{
	struct sandbox_id id = { 0 };
	memcpy(id.bytes, &number, sizeof(number));
	return id;
}

static void sandboxes_of_one_bucket_are_told_apart(void **state)
{
	the_table = (struct table){ 0 };
	for (unsigned i = 0; i < MANY; i++) {
		sandboxes[i] = (struct sandbox){ .id = id_of(i), .limits = { .memory_bytes = i } };
		table_add(&the_table, &sandboxes[i]);
	}
	for (unsigned i = 0; i < MANY; i += 2)
		table_remove(&the_table, &sandboxes[i]);
	for (unsigned i = 0; i < MANY; i++) {
		struct sandbox_id id = id_of(i);
		assert_ptr_equal(table_find(&the_table, &id), i % 2 ? &sandboxes[i] : NULL);
	}
	assert_int_equal(the_table.claimed_bytes, MANY / 2 * (MANY / 2));
}

static void children_are_found_by_the_pid_they_have_now(void **state)
{
	static struct child children[3];
	the_table = (struct table){ 0 };
	for (unsigned i = 0; i < 3; i++) { /* all in one bucket */
		children[i].pid = (pid_t)(7 + i * TABLE_BUCKETS);
		table_add_child(&the_table, &children[i]);
	}
	table_remove_child(&the_table, &children[1]);
	table_remove_child(&the_table, &children[1]); /* changes nothing */
	assert_ptr_equal(table_find_child(&the_table, 7), &children[0]);
	assert_null(table_find_child(&the_table, 7 + TABLE_BUCKETS));
	assert_ptr_equal(table_find_child(&the_table, 7 + 2 * TABLE_BUCKETS), &children[2]);
	assert_null(table_find_child(&the_table, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sandboxes_of_one_bucket_are_told_apart),
		cmocka_unit_test(children_are_found_by_the_pid_they_have_now),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
