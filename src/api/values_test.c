#include "api/values.h"

#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool take(struct values *values, uint16_t kind, const char *json)
{
	struct frames_value value = { .kind = kind, .bytes = json, .size = strlen(json) };
	struct values_shown shown;
	return values_take(values, &value, &shown);
}

static void assert_results(struct values *values, const char *expected)
{
	struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	values_write_results(values, &writer);
	writer_close(&writer, '}');
	assert_string_equal(buf_text(&writer.buf), expected);
	writer_deinit(&writer);
}

static void bundles_keep_their_order(void **state)
{
	struct values values;
	values_init(&values);
	assert_true(take(&values, FRAME_DISPLAY, "{\"data\":{\"text/html\":\"<b>\"}}"));
	assert_true(take(&values, FRAME_RESULT, "{\"data\":{\"text/plain\":\"2\"}}"));
	assert_results(&values, "{\"results\":[{\"text/html\":\"<b>\"},{\"text/plain\":\"2\"}]}");
	values_deinit(&values);
}

static void only_strings_and_no_type_get_into_a_bundle(void **state)
{
	struct values values;
	values_init(&values);
	assert_true(take(&values, FRAME_DISPLAY,
		"{\"data\":{\"a\":1,\"type\":\"x\",\"b\":\"y\",\"c\":null,\"d\":{\"e\":\"f\"}}}"));
	assert_false(take(&values, FRAME_DISPLAY, "{\"data\":{\"a\":1}}"));
	assert_false(take(&values, FRAME_DISPLAY, "{\"data\":[]}"));
	assert_false(take(&values, FRAME_DISPLAY, "{\"data\":{\"a\":\"1\",\"a\":\"2\"}}"));
	assert_false(take(&values, FRAME_DISPLAY, "not json"));
	assert_int_equal(values.lost, 4);
	assert_results(&values, "{\"results\":[{\"b\":\"y\"}]}");
	values_deinit(&values);
}

static void an_update_replaces_what_has_its_id(void **state)
{
	struct values values;
	values_init(&values);
	take(&values, FRAME_DISPLAY, "{\"data\":{\"t\":\"old\"},\"id\":\"a\"}");
	take(&values, FRAME_DISPLAY, "{\"data\":{\"t\":\"other\"}}");
	take(&values, FRAME_UPDATE, "{\"data\":{\"t\":\"new\"},\"id\":\"a\"}");
	assert_results(&values, "{\"results\":[{\"t\":\"new\"},{\"t\":\"other\"}]}");
	take(&values, FRAME_UPDATE, "{\"data\":{\"t\":\"of an earlier cell\"},\"id\":\"b\"}");
	assert_int_equal(values.count, 3);
	values_deinit(&values);
}

static void a_clear_may_wait_for_the_next_display(void **state)
{
	struct values values;
	values_init(&values);
	take(&values, FRAME_DISPLAY, "{\"data\":{\"t\":\"1\"}}");
	take(&values, FRAME_CLEAR, "{\"wait\":true}");
	assert_int_equal(values.count, 1);
	take(&values, FRAME_DISPLAY, "{\"data\":{\"t\":\"2\"}}");
	assert_results(&values, "{\"results\":[{\"t\":\"2\"}]}");
	take(&values, FRAME_CLEAR, "{\"wait\":false}");
	assert_int_equal(values.count, 0);
	values_deinit(&values);
}

static void any_done_ends_the_run(void **state)
{
	struct values values;
	values_init(&values);
	assert_true(take(&values, FRAME_DONE, "{\"exit\":3}"));
	assert_true(values.is_done && values.exit == 3);
	values_deinit(&values);
	assert_false(take(&values, FRAME_DONE, "{\"exit\":\"zero\"}"));
	assert_true(values.is_done && values.exit == 1);
	values_deinit(&values);
	assert_false(take(&values, FRAME_DONE, "garbage"));
	assert_true(values.is_done && values.exit == 1);
	values_deinit(&values);
}

static void the_first_error_counts_and_is_bounded(void **state)
{
	struct values values;
	values_init(&values);
	char json[2000];
	memset(json, 'n', sizeof(json));
	memcpy(json, "{\"name\":\"", 9);
	memcpy(json + 1000, "\",\"message\":\"m\",\"traceback\":\"t\"}", 33);
	assert_true(take(&values, FRAME_ERROR, json));
	assert_int_equal(strlen(values.error_name), 256);
	assert_true(take(&values, FRAME_ERROR, "{\"name\":\"Second\"}"));
	assert_string_equal(values.traceback, "t");
	values_deinit(&values);
}

/* A small update of many displays under one id must not become gigabytes. */
static void updates_cannot_multiply_what_is_kept(void **state)
{
	struct values values;
	values_init(&values);
	for (unsigned i = 0; i < 200; i++)
		take(&values, FRAME_DISPLAY, "{\"data\":{\"t\":\"s\"},\"id\":\"a\"}");
	size_t size = 1 << 20;
	char *json = malloc(size + 64);
	int n = sprintf(json, "{\"id\":\"a\",\"data\":{\"t\":\"");
	memset(json + n, 'x', size);
	strcpy(json + n + size, "\"}}");
	take(&values, FRAME_UPDATE, json);
	assert_true(values.kept <= VALUES_BYTES);
	assert_true(values.lost > 100);
	free(json);
	values_deinit(&values);
}

static void too_many_results_are_counted(void **state)
{
	struct values values;
	values_init(&values);
	for (unsigned i = 0; i < VALUES_LIMIT + 5; i++)
		take(&values, FRAME_DISPLAY, "{\"data\":{\"t\":\"s\"}}");
	assert_int_equal(values.count, VALUES_LIMIT);
	assert_int_equal(values.lost, 5);
	values_deinit(&values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bundles_keep_their_order),
		cmocka_unit_test(only_strings_and_no_type_get_into_a_bundle),
		cmocka_unit_test(an_update_replaces_what_has_its_id),
		cmocka_unit_test(a_clear_may_wait_for_the_next_display),
		cmocka_unit_test(any_done_ends_the_run),
		cmocka_unit_test(the_first_error_counts_and_is_bounded),
		cmocka_unit_test(updates_cannot_multiply_what_is_kept),
		cmocka_unit_test(too_many_results_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
