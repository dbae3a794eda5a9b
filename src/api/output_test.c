#include "api/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What is kept of the text, as JSON: {"t":"..."}. */
static char *kept(struct output *output)
{
	struct writer writer = writer_make();
	output_finish(output);
	writer_open(&writer, NULL, '{');
	output_write(output, &writer, "t");
	writer_close(&writer, '}');
	assert_false(writer.is_failed);
	char *text = strdup(buf_text(&writer.buf));
	writer_deinit(&writer);
	output_deinit(output);
	return text;
}

static char *kept_of(const char *text)
{
	struct output output;
	output_init(&output);
	output_feed(&output, text, strlen(text));
	return kept(&output);
}

/* The same in one piece, and byte by byte. */
static void assert_kept(const char *text, const char *expected)
{
	char *whole = kept_of(text);
	assert_string_equal(whole, expected);
	free(whole);
	struct output output;
	output_init(&output);
	for (; *text; text++)
		output_feed(&output, text, 1);
	char *parts = kept(&output);
	assert_string_equal(parts, expected);
	free(parts);
}

static void plain_text_comes_back_as_it_was(void **state)
{
	assert_kept("", "{\"t\":\"\"}");
	assert_kept("a\nb", "{\"t\":\"a\\nb\"}");
	assert_kept("\n\n", "{\"t\":\"\\n\\n\"}");
}

static void a_redrawn_line_comes_back_in_its_last_state(void **state)
{
	assert_kept("one\n 1%\r 2%\r100%\ntwo", "{\"t\":\"one\\n100%\\ntwo\"}");
	assert_kept("\r 1 %\r 100 %\n", "{\"t\":\" 100 %\\n\"}");
	assert_kept("99%\r100%\r", "{\"t\":\"100%\"}");
}

static void windows_line_ends_are_no_redraw(void **state)
{
	assert_kept("a\r\nb\r\n", "{\"t\":\"a\\r\\nb\\r\\n\"}");
	assert_kept("a\rb\r\r\nc", "{\"t\":\"b\\r\\nc\"}");
}

static void bytes_that_are_no_utf8_are_replaced(void **state)
{
	assert_kept("\xff\xfe\nthen", "{\"t\":\"\xef\xbf\xbd\xef\xbf\xbd\\nthen\"}");
	assert_kept("\xe6\xbc\xa2 \xe6\xbc", "{\"t\":\"\xe6\xbc\xa2 \xef\xbf\xbd\"}");
}

static void head_and_tail_are_kept_and_the_rest_is_counted(void **state)
{
	struct output output;
	char line[64];
	output_init(&output);
	for (unsigned i = 0; i < 100000; i++)
		output_feed(&output, line, (size_t)snprintf(line, sizeof(line), "line %026u\n", i));
	output_finish(&output);
	assert_int_equal(output.total, 3200000);
	assert_true(output_is_cut(&output));
	assert_int_equal(output_kept(&output), 2 * OUTPUT_HALF);
	char *text = kept(&output);
	assert_non_null(strstr(text, "{\"t\":\"line 00000000000000000000000000\\n"));
	assert_non_null(strstr(text, "of 3200000 bytes left out ...]"));
	assert_non_null(strstr(text, "line 00000000000000000000099999\\n\"}"));
	free(text);
}

static void up_to_two_halves_nothing_is_cut(void **state)
{
	struct output output;
	char block[1000];
	memset(block, 'x', sizeof(block));
	output_init(&output);
	for (unsigned i = 0; i < 1048; i++)
		output_feed(&output, block, sizeof(block));
	output_feed(&output, "\nend\n", 5);
	output_finish(&output);
	assert_false(output_is_cut(&output));
	assert_int_equal(output_kept(&output), 1048005);
	char *text = kept(&output);
	assert_int_equal(strlen(text), 1048005 + 2 + strlen("{\"t\":\"\"}"));
	free(text);
}

static void a_cut_never_shows_half_a_character(void **state)
{
	struct output output;
	output_init(&output);
	output_feed(&output, "x", 1);
	for (unsigned i = 0; i < 700000; i++)
		output_feed(&output, "\xe6\xbc\xa2", 3);
	char *text = kept(&output);
	assert_null(strstr(text, "\xef\xbf\xbd"));
	free(text);
}

static void an_endless_line_needs_bounded_memory(void **state)
{
	struct output output;
	char block[65536];
	memset(block, 'y', sizeof(block));
	output_init(&output);
	for (unsigned i = 0; i < 200; i++)
		output_feed(&output, block, sizeof(block));
	assert_true(output.line.capacity <= 2 * OUTPUT_LINE);
	assert_true(output.head.capacity <= 2 * OUTPUT_HALF);
	output_finish(&output);
	assert_int_equal(output.total, 200 * sizeof(block));
	assert_int_equal(output_kept(&output), 2 * OUTPUT_HALF);
	output_deinit(&output);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_text_comes_back_as_it_was),
		cmocka_unit_test(a_redrawn_line_comes_back_in_its_last_state),
		cmocka_unit_test(windows_line_ends_are_no_redraw),
		cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
		cmocka_unit_test(head_and_tail_are_kept_and_the_rest_is_counted),
		cmocka_unit_test(up_to_two_halves_nothing_is_cut),
		cmocka_unit_test(a_cut_never_shows_half_a_character),
		cmocka_unit_test(an_endless_line_needs_bounded_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
