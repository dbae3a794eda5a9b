#include "api/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_written(struct writer *writer, const char *expected)
{
	assert_false(writer->is_failed);
	assert_string_equal(buf_text(&writer->buf), expected);
	writer_deinit(writer);
}

static void objects_and_arrays_nest_with_commas_between(void **state)
{
	struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_int(&writer, "n", -5);
	writer_open(&writer, "list", '[');
	writer_text(&writer, NULL, "a");
	writer_open(&writer, NULL, '{');
	writer_close(&writer, '}');
	writer_close(&writer, ']');
	writer_bool(&writer, "yes", true);
	writer_raw(&writer, "raw", "{\"k\":1}");
	writer_close(&writer, '}');
	assert_written(&writer, "{\"n\":-5,\"list\":[\"a\",{}],\"yes\":true,\"raw\":{\"k\":1}}");
}

static void control_characters_and_quotes_are_escaped(void **state)
{
	struct writer writer = writer_make();
	writer_bytes(&writer, NULL, "\"\\\n\t\r\x01\0z", 8);
	assert_written(&writer, "\"\\\"\\\\\\n\\t\\r\\u0001\\u0000z\"");
}

static void beyond_ascii_is_written_as_it_is(void **state)
{
	struct writer writer = writer_make();
	writer_text(&writer, NULL, "\xc3\xa9\xe2\x80\xa8\xf0\x9f\x99\x82");
	assert_written(&writer, "\"\xc3\xa9\xe2\x80\xa8\xf0\x9f\x99\x82\"");
}

static void or_escaped_where_ascii_is_asked_for(void **state)
{
	struct writer writer = writer_make();
	writer.is_ascii = true;
	writer_text(&writer, NULL, "\xc3\xa9\xe2\x80\xa8\xc2\x85\xf0\x9f\x99\x82");
	assert_written(&writer, "\"\\u00e9\\u2028\\u0085\\ud83d\\ude42\"");
}

static void a_character_may_be_cut_between_two_strings(void **state)
{
	struct writer writer = writer_make();
	struct utf8 half = { 0 };
	writer_string_begin(&writer, NULL);
	writer_chars(&writer, &half, "a\xf0\x9f", 3);
	writer_string_cut(&writer);
	writer_string_begin(&writer, NULL);
	writer_chars(&writer, &half, "\x99\x82", 2);
	writer_string_end(&writer, &half);
	assert_written(&writer, "\"a\",\"\xf0\x9f\x99\x82\"");
}

static void overlong_forms_and_surrogates_are_replaced(void **state)
{
	struct writer writer = writer_make();
	writer_text(&writer, NULL, "\xc0\xaf");
	assert_written(&writer, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	writer = writer_make();
	writer_text(&writer, NULL, "\xed\xa0\x80");
	assert_written(&writer, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	writer = writer_make();
	writer_text(&writer, NULL,
		"\xf0\x9f\x99"
		"a");
	assert_written(&writer, "\"\xef\xbf\xbd"
				"a\"");
}

static void beyond_its_limit_it_fails_and_stays_failed(void **state)
{
	struct writer writer = { .buf = buf_make(8) };
	writer_text(&writer, NULL, "123456789");
	assert_true(writer.is_failed);
	writer_int(&writer, NULL, 1);
	assert_true(writer.is_failed && writer.buf.size <= 8);
	writer_deinit(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_and_arrays_nest_with_commas_between),
		cmocka_unit_test(control_characters_and_quotes_are_escaped),
		cmocka_unit_test(beyond_ascii_is_written_as_it_is),
		cmocka_unit_test(or_escaped_where_ascii_is_asked_for),
		cmocka_unit_test(a_character_may_be_cut_between_two_strings),
		cmocka_unit_test(overlong_forms_and_surrogates_are_replaced),
		cmocka_unit_test(beyond_its_limit_it_fails_and_stays_failed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
