#include "api/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const known[] = { "n", "t", "b", NULL };
static struct error err;

static json_t *parse(const char *body)
{
	err = (struct error){ 0 };
	return fields_parse(body, strlen(body), known, &err);
}

static void assert_refused(const char *body, enum error_code code, const char *word)
{
	assert_null(parse(body));
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.message, word));
}

static void what_is_no_plain_object_is_refused(void **state)
{
	assert_refused("{not json", ERROR_INVALID, "line 1, column");
	assert_refused("[]", ERROR_INVALID, "JSON object");
	assert_refused("{} {}", ERROR_INVALID, "line 1");
	assert_refused("\xef\xbb\xbf{}", ERROR_INVALID, "line 1");
	assert_refused("{\"n\": NaN}", ERROR_INVALID, "line 1");
	assert_refused("{\"n\": 1e400}", ERROR_INVALID, "line 1");
	assert_refused("{\"n\": 9223372036854775808}", ERROR_INVALID, "line 1");
	assert_refused("{\"t\": \"\xff\"}", ERROR_INVALID, "line 1");
}

static void a_message_is_named_so_and_its_fields_are_not_judged_yet(void **state)
{
	static const char good[] = "{\"x\": 1}", bad[] = "nonsense", list[] = "[]";
	err = (struct error){ 0 };
	json_t *order = fields_parse_message(good, strlen(good), &err);
	assert_non_null(order);
	assert_false(fields_check(order, known, NULL, &err));
	json_decref(order);
	assert_null(fields_parse_message(bad, strlen(bad), &err));
	assert_non_null(strstr(err.message, "the message"));
	assert_null(fields_parse_message(list, strlen(list), &err));
	assert_non_null(strstr(err.message, "the message"));
	assert_null(fields_parse_message("", 0, &err));
}

static void duplicates_and_unknown_fields_are_named(void **state)
{
	assert_refused("{\"n\": 1, \"n\": 2}", ERROR_INVALID, "uplicate");
	assert_refused("{\"m\": 1}", ERROR_UNKNOWN_FIELD, "'m'");
}

static void lone_surrogates_are_refused_with_their_place(void **state)
{
	assert_refused("{\"t\": \"\\ud83d\"}", ERROR_INVALID, "line 1, column");
	assert_non_null(strstr(err.hint, "surrogate"));
}

static void depth_is_bounded(void **state)
{
	static char body[200006];
	memcpy(body, "{\"t\":", 5);
	memset(body + 5, '[', 200000);
	assert_refused(body, ERROR_INVALID, "line 1");
}

static void an_empty_body_is_an_empty_object(void **state)
{
	json_t *object = parse("");
	assert_int_equal(json_object_size(object), 0);
	json_decref(object);
}

static void whole_numbers_have_bounds(void **state)
{
	static const char *const bad[] = { "-1", "0", "11", "2.5", "\"10\"", "null", "true",
		"1e300" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		json_t *value = json_loads(bad[i], JSON_DECODE_ANY, NULL);
		json_t *object = json_pack("{so}", "n", value);
		int64_t n = 5;
		assert_false(fields_int(object, "n", 1, 10, &n, &err));
		assert_non_null(strstr(err.message, "'n'"));
		assert_int_equal(n, 5);
		json_decref(object);
	}
	json_t *object = parse("{\"n\": 7.0}");
	int64_t n = 5, other = 5;
	assert_true(fields_int(object, "n", 1, 10, &n, &err) && n == 7);
	assert_true(fields_int(object, "absent", 1, 10, &other, &err) && other == 5);
	json_decref(object);
}

static void scaled_numbers_round_up_and_are_never_zero(void **state)
{
	static const struct {
		const char *body;
		int64_t expected; /* 0: refused */
	} cases[] = { { "{\"n\": 2}", 2000 }, { "{\"n\": 0.0001}", 1 }, { "{\"n\": 1.1}", 1100 },
		{ "{\"n\": 0}", 0 }, { "{\"n\": -3}", 0 }, { "{\"n\": 86401}", 0 },
		{ "{\"n\": 1e300}", 0 }, { "{\"n\": \"5\"}", 0 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_t *object = parse(cases[i].body);
		int64_t value = 0;
		bool is_taken = fields_scaled(object, "n", 86400, 1000, &value, &err);
		assert_int_equal(is_taken, cases[i].expected != 0);
		assert_int_equal(value, cases[i].expected);
		json_decref(object);
	}
}

static void texts_say_whether_they_may_hold_a_nul(void **state)
{
	json_t *object = parse("{\"t\": \"a\\u0000b\"}");
	const char *text = NULL;
	size_t size = 0;
	assert_true(fields_text(object, "t", &text, &size, &err));
	assert_int_equal(size, 3);
	assert_false(fields_text(object, "t", &text, NULL, &err));
	json_decref(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_plain_object_is_refused),
		cmocka_unit_test(a_message_is_named_so_and_its_fields_are_not_judged_yet),
		cmocka_unit_test(duplicates_and_unknown_fields_are_named),
		cmocka_unit_test(lone_surrogates_are_refused_with_their_place),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(an_empty_body_is_an_empty_object),
		cmocka_unit_test(whole_numbers_have_bounds),
		cmocka_unit_test(scaled_numbers_round_up_and_are_never_zero),
		cmocka_unit_test(texts_say_whether_they_may_hold_a_nul),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
