/* What the command line makes of figures, of foreign text, of rows, and of arguments for a shell.
 */
#include "cli/human.h"
#include "cli/shell_text.h"
#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_age(int64_t seconds, const char *wanted)
{
	char text[HUMAN_SIZE];
	human_age(seconds, text);
	assert_string_equal(text, wanted);
}

static void ages_have_one_unit(void **state)
{
	assert_age(-1, "-");
	assert_age(0, "0s");
	assert_age(99, "99s");
	assert_age(100, "1m");
	assert_age(99 * 60 + 59, "99m");
	assert_age(100 * 60, "1h");
	assert_age(48 * 3600 - 1, "47h");
	assert_age(48 * 3600, "2d");
	assert_age(INT64_MAX, "106751991167300d");
}

static void assert_bytes(double bytes, const char *wanted)
{
	char text[HUMAN_SIZE];
	human_bytes(bytes, text);
	assert_string_equal(text, wanted);
}

static void sizes_have_few_digits(void **state)
{
	assert_bytes(0, "0 B");
	assert_bytes(1023, "1023 B");
	assert_bytes(1024, "1 KiB");
	assert_bytes(1536, "1.5 KiB");
	assert_bytes(1048575, "1.0 MiB");
	assert_bytes(340.4 * 1048576, "340 MiB");
	assert_bytes(1ull << 30, "1 GiB");
	assert_bytes(1e18, "909495 TiB");
}

static void times_are_read_with_and_without_a_fraction(void **state)
{
	assert_int_equal(human_time_ms("1970-01-02T00:00:01Z"), 86401000);
	assert_int_equal(human_time_ms("1970-01-01T00:00:00.250Z"), 250);
	assert_int_equal(human_time_ms("soon"), -1);
	assert_int_equal(human_time_ms(NULL), -1);
}

static void assert_clean(const char *text, enum human_style style, const char *wanted)
{
	cleanup_buf struct buf out = buf_make(1000);
	assert_true(human_clean(&out, text, strlen(text), style));
	assert_string_equal(buf_text(&out), wanted);
}

static void foreign_text_commands_no_terminal(void **state)
{
	assert_clean("plain \xc3\xbc", HUMAN_PLAIN, "plain \xc3\xbc");
	assert_clean("a\033[2Jb\rc\nd\x7f", HUMAN_PLAIN, "a?[2Jb?c?d?");
	assert_clean("\xc2\x9b"
		     "2J",
		HUMAN_PLAIN, "?2J");
	assert_clean("a\tb\n\033[31mred\033[0m", HUMAN_LINES, "a\tb\n?[31mred?[0m");
	assert_clean("\033[31;1mred\033[m", HUMAN_COLOURS, "\033[31;1mred\033[m");
	assert_clean("\033[2J\033]0;x\a\033[", HUMAN_COLOURS, "?[2J?]0;x??[");
	assert_clean("\033[1111111111111111111111111111m", HUMAN_COLOURS,
		"?[1111111111111111111111111111m");
}

static void text_that_does_not_fit_is_said_to(void **state)
{
	cleanup_buf struct buf out = buf_make(3);
	assert_false(human_clean(&out, "four", 4, HUMAN_PLAIN));
}

static const struct table_column columns[] = { { "NAME", false }, { "SIZE", true },
	{ "X", false } };

static struct table *make_table(void)
{
	struct table *table = table_new(columns, 3);
	assert_non_null(table);
	assert_true(table_add(table,
		(const char *const[]){ "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc", "7", "end" }));
	assert_true(table_add(table, (const char *const[]){ "a\nb", "12345", NULL }));
	table_paint(table, 0, TABLE_GREEN);
	return table;
}

static void assert_table(const struct table_style *style, const char *wanted)
{
	CLEANUP(table_free) struct table *table = make_table();
	cleanup_buf struct buf out = buf_make(4096);
	assert_true(table_write(table, style, &out));
	assert_string_equal(buf_text(&out), wanted);
}

static void columns_stand_below_each_other(void **state)
{
	assert_table(&(struct table_style){ 0 },
		"NAME    SIZE  X\n"
		"\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc      7  end\n"
		"a?b    12345  -\n");
}

static void lines_are_cut_at_the_width_and_rows_at_the_height(void **state)
{
	assert_table(&(struct table_style){ .width = 9, .height = 1 },
		"NAME    S\n\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc    \n");
	assert_table(&(struct table_style){ .width = 2, .height = 1 }, "NA\n\xc3\xbc\xc3\xbc\n");
}

static void colours_take_no_room(void **state)
{
	assert_table(&(struct table_style){ .has_colour = true },
		"\033[1mNAME\033[0m    \033[1mSIZE\033[0m  \033[1mX\033[0m\n"
		"\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc      7  end\n"
		"\033[32ma?b\033[0m    12345  -\n");
}

static void arguments_reach_a_shell_as_they_are(void **state)
{
	cleanup_buf struct buf text = buf_make(1000);
	char *words[] = { "ls", "-la", "a b", "it's", "", "$x" };
	assert_true(shell_text_exec(&text, 6, words));
	assert_string_equal(buf_text(&text), "exec ls -la 'a b' 'it'\\''s' '' '$x'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ages_have_one_unit),
		cmocka_unit_test(sizes_have_few_digits),
		cmocka_unit_test(times_are_read_with_and_without_a_fraction),
		cmocka_unit_test(foreign_text_commands_no_terminal),
		cmocka_unit_test(text_that_does_not_fit_is_said_to),
		cmocka_unit_test(columns_stand_below_each_other),
		cmocka_unit_test(lines_are_cut_at_the_width_and_rows_at_the_height),
		cmocka_unit_test(colours_take_no_room),
		cmocka_unit_test(arguments_reach_a_shell_as_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
