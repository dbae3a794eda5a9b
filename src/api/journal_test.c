/* Unit tests of journal.c. */
#include "api/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT ((size_t)1000)

static struct journal *make(uint64_t *total)
{
	struct journal *journal = journal_new(NULL, LIMIT, 1, total);
	assert_non_null(journal);
	return journal;
}

static void append(struct journal *journal, const char *text)
{
	assert_true(journal_append(journal, 0, text, strlen(text)));
}

static void records_keep_order_number_and_place(void **state)
{
	struct journal *journal = make(NULL);
	append(journal, "one");
	append(journal, "three");
	const struct record *record = journal_find(journal, 0);
	assert_int_equal(record->number, 1);
	record = journal_next(journal, record);
	assert_int_equal(record->number, 2);
	assert_int_equal(record->place, 3);
	assert_memory_equal(record->bytes, "three", 5);
	assert_null(journal_next(journal, record));
	journal_unref(journal);
}

static void a_place_inside_a_record_finds_that_record(void **state)
{
	struct journal *journal = make(NULL);
	append(journal, "one");
	append(journal, "three");
	assert_int_equal(journal_find(journal, 2)->number, 1);
	assert_int_equal(journal_find(journal, 3)->number, 2);
	assert_int_equal(journal_find(journal, 7)->number, 2);
	assert_null(journal_find(journal, 8));
	assert_null(journal_find(journal, UINT64_MAX));
	journal_unref(journal);
}

static void a_number_finds_what_came_after_it(void **state)
{
	struct journal *journal = make(NULL);
	append(journal, "a");
	append(journal, "b");
	assert_int_equal(journal_after(journal, 0)->number, 1);
	assert_int_equal(journal_after(journal, 1)->number, 2);
	assert_null(journal_after(journal, 2));
	assert_null(journal_after(journal, UINT64_MAX));
	journal_unref(journal);
}

static void the_oldest_go_and_places_stay_true(void **state)
{
	struct journal *journal = make(NULL);
	char text[100];
	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 50; i++)
		assert_true(journal_append(journal, 0, text, sizeof(text)));
	assert_true(journal->bytes <= LIMIT);
	const struct record *first = journal_find(journal, 0);
	assert_int_equal(first->place, (first->number - 1) * sizeof(text));
	assert_int_equal(journal_first_place(journal), first->place);
	assert_int_equal(journal->end_place, 50 * sizeof(text));
	journal_unref(journal);
}

static void what_is_larger_than_the_bound_is_cut(void **state)
{
	struct journal *journal = make(NULL);
	static char text[3 * LIMIT];
	append(journal, "before");
	assert_true(journal_append(journal, 0, text, sizeof(text)));
	assert_true(journal->bytes <= LIMIT);
	assert_int_equal(journal_find(journal, 0)->number, 2);
	journal_unref(journal);
}

static void bytes_are_added_up_over_journals(void **state)
{
	uint64_t total = 0;
	struct journal *one = make(&total), *two = make(&total);
	append(one, "one");
	append(two, "two");
	assert_int_equal(total, one->bytes + two->bytes);
	journal_trim(one, 0);
	assert_int_equal(total, two->bytes);
	assert_int_equal(journal_first_place(one), 3);
	journal_unref(one);
	journal_unref(two);
	assert_int_equal(total, 0);
}

static void a_journal_left_to_its_readers_counts_no_more(void **state)
{
	uint64_t total = 0;
	struct journal *journal = make(&total), *reader = journal_ref(journal);
	append(journal, "one");
	journal_uncount(journal);
	assert_int_equal(total, 0);
	journal_unref(journal);
	journal_unref(reader);
	assert_int_equal(total, 0);
}

static void a_journal_lives_as_long_as_its_last_reader(void **state)
{
	struct journal *journal = make(NULL), *reader = journal_ref(journal);
	append(journal, "still here");
	journal_close(journal);
	journal_unref(journal);
	assert_memory_equal(journal_find(reader, 0)->bytes, "still here", 10);
	journal_unref(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_keep_order_number_and_place),
		cmocka_unit_test(a_place_inside_a_record_finds_that_record),
		cmocka_unit_test(a_number_finds_what_came_after_it),
		cmocka_unit_test(the_oldest_go_and_places_stay_true),
		cmocka_unit_test(what_is_larger_than_the_bound_is_cut),
		cmocka_unit_test(bytes_are_added_up_over_journals),
		cmocka_unit_test(a_journal_left_to_its_readers_counts_no_more),
		cmocka_unit_test(a_journal_lives_as_long_as_its_last_reader),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
