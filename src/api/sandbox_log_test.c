/* Unit tests of sandbox_log.c. */
#include "api/sandbox_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct journal *log;
	struct log_lines lines;
	struct buf text;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	fixture->log = journal_new(NULL, LOG_LIMIT, 1, NULL);
	fixture->text = buf_make(SIZE_MAX);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	log_finish(fixture->log, &fixture->lines);
	journal_unref(fixture->log);
	buf_deinit(&fixture->text);
	free(fixture);
	return 0;
}

static void print(struct fixture *fixture, unsigned stream, const char *text)
{
	log_take(fixture->log, &fixture->lines, stream, text, strlen(text));
}

/* All that is logged; lines of stderr behind a '!'. */
static const char *logged(struct fixture *fixture)
{
	fixture->text.size = 0;
	for (const struct record *record = journal_find(fixture->log, 0); record;
		record = journal_next(fixture->log, record)) {
		assert_int_equal(record->bytes[record->size - 1], '\n');
		buf_append_text(&fixture->text, record->kind ? "!" : "");
		buf_append(&fixture->text, record->bytes, record->size);
	}
	return buf_text(&fixture->text);
}

static void whole_lines_are_one_record(void **state)
{
	struct fixture *fixture = *state;
	print(fixture, 0, "one\ntwo\n");
	assert_string_equal(logged(fixture), "one\ntwo\n");
	assert_int_equal(fixture->log->next_number, 2);
}

static void a_line_waits_for_its_end(void **state)
{
	struct fixture *fixture = *state;
	print(fixture, 0, "on");
	print(fixture, 1, "error\n");
	print(fixture, 0, "e\ntw");
	assert_string_equal(logged(fixture), "!error\none\n");
	log_finish(fixture->log, &fixture->lines);
	assert_string_equal(logged(fixture), "!error\none\ntw\n");
}

static void a_redrawn_line_counts_in_its_last_state(void **state)
{
	struct fixture *fixture = *state;
	print(fixture, 0, "10%\r20%");
	print(fixture, 0, "\r");
	print(fixture, 0, "30%\r\n");
	print(fixture, 0, "plain\r\nabc\r");
	log_finish(fixture->log, &fixture->lines);
	assert_string_equal(logged(fixture), "30%\nplain\nabc\n");
}

static void empty_lines_are_kept(void **state)
{
	struct fixture *fixture = *state;
	print(fixture, 0, "\n");
	print(fixture, 0, "a");
	print(fixture, 0, "\n\n");
	assert_string_equal(logged(fixture), "\na\n\n");
}

static void a_long_line_is_cut_between_characters(void **state)
{
	struct fixture *fixture = *state;
	static char text[3 * LOG_LINE + 2];
	for (size_t i = 0; i + 3 < sizeof(text); i += 3)
		memcpy(text + i, "\xe2\x82\xac", 3);
	log_take(fixture->log, &fixture->lines, 0, text, sizeof(text) - 2);
	log_take(fixture->log, &fixture->lines, 0, "\n", 1);
	for (const struct record *record = journal_find(fixture->log, 0); record;
		record = journal_next(fixture->log, record)) {
		assert_true(record->size <= LOG_LINE + 1);
		assert_int_equal((record->size - 1) % 3, 0);
	}
	assert_true(fixture->log->next_number > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whole_lines_are_one_record, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_line_waits_for_its_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_redrawn_line_counts_in_its_last_state, set_up, tear_down),
		cmocka_unit_test_setup_teardown(empty_lines_are_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_long_line_is_cut_between_characters, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
