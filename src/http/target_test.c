#include "http/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct arena arena;
	struct target target;
	struct error err;
};

static bool parse(struct fixture *fixture, const char *raw)
{
	arena_deinit(&fixture->arena);
	fixture->err = (struct error){ 0 };
	return target_parse(&fixture->target, &fixture->arena, raw, &fixture->err);
}

/* The segments as one text, each behind a bar. */
static const char *segments(struct fixture *fixture, const char *raw)
{
	static char text[256];
	assert_true(parse(fixture, raw));
	text[0] = '\0';
	for (unsigned i = 0; i < fixture->target.segment_count; i++) {
		strcat(text, "|");
		strcat(text, fixture->target.segments[i]);
	}
	return text;
}

static void a_path_is_cut_at_its_slashes(void **state)
{
	struct fixture fixture = { 0 };
	assert_string_equal(segments(&fixture, "/"), "");
	assert_string_equal(segments(&fixture, "/a"), "|a");
	assert_string_equal(segments(&fixture, "/a/"), "|a|");
	assert_string_equal(segments(&fixture, "//a//b"), "||a||b");
	assert_string_equal(segments(&fixture, "/v1/sandboxes/7f?x=/y/z"), "|v1|sandboxes|7f");
	arena_deinit(&fixture.arena);
}

static void an_encoded_slash_stays_in_its_segment(void **state)
{
	struct fixture fixture = { 0 };
	assert_string_equal(segments(&fixture, "/files/%2Fetc%2fpasswd/x"), "|files|/etc/passwd|x");
	assert_string_equal(fixture.target.path, "/files//etc/passwd/x");
	arena_deinit(&fixture.arena);
}

static void decoding_happens_once(void **state)
{
	struct fixture fixture = { 0 };
	assert_string_equal(segments(&fixture, "/%252F/%2e%2e"), "|%2F|..");
	assert_string_equal(segments(&fixture, "/a+b%3Fc"), "|a+b?c");
	arena_deinit(&fixture.arena);
}

static void bytes_that_are_no_utf8_are_kept(void **state)
{
	struct fixture fixture = { 0 };
	assert_string_equal(segments(&fixture, "/%ff%C3\xfe"), "|\xff\xc3\xfe");
	arena_deinit(&fixture.arena);
}

static void a_path_that_cannot_be_meant_is_refused(void **state)
{
	static const char *const broken[] = { "", "*", "a/b", "http://host/a", "/%", "/%4", "/%4g",
		"/%%41", "/a%00", "/a\tb", "/a\x7f", "/a?x=%", "/a?%zz=1", "/a?x=1&y=%1" };
	struct fixture fixture = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		assert_false(parse(&fixture, broken[i]));
		assert_int_equal(fixture.err.code, ERROR_INVALID);
		assert_true(fixture.err.message[0] != '\0');
	}
	arena_deinit(&fixture.arena);
}

static void assert_parameter(
	const struct fixture *fixture, unsigned index, const char *name, const char *value)
{
	assert_true(index < fixture->target.parameter_count);
	assert_string_equal(fixture->target.parameters[index].name, name);
	assert_string_equal(fixture->target.parameters[index].value, value);
}

static void a_query_is_a_list_of_decoded_pairs(void **state)
{
	struct fixture fixture = { 0 };
	assert_true(parse(&fixture, "/f?path=%2Fa+b%2B&x&&y=&=z&path=2&k%3D=v=w%26?"));
	assert_int_equal(fixture.target.parameter_count, 6);
	assert_parameter(&fixture, 0, "path", "/a b+");
	assert_parameter(&fixture, 1, "x", "");
	assert_parameter(&fixture, 2, "y", "");
	assert_parameter(&fixture, 3, "", "z");
	assert_parameter(&fixture, 4, "path", "2");
	assert_parameter(&fixture, 5, "k=", "v=w&?");
	arena_deinit(&fixture.arena);
}

static void a_nul_in_a_query_is_kept_and_counted(void **state)
{
	struct fixture fixture = { 0 };
	assert_true(parse(&fixture, "/f?a=1%002"));
	assert_int_equal(fixture.target.parameters[0].value_size, 3);
	assert_memory_equal(fixture.target.parameters[0].value,
		"1\0"
		"2",
		3);
	arena_deinit(&fixture.arena);
}

static void an_empty_query_has_no_parameters(void **state)
{
	struct fixture fixture = { 0 };
	assert_true(parse(&fixture, "/f?"));
	assert_int_equal(fixture.target.parameter_count, 0);
	assert_string_equal(fixture.target.path, "/f");
	arena_deinit(&fixture.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_cut_at_its_slashes),
		cmocka_unit_test(an_encoded_slash_stays_in_its_segment),
		cmocka_unit_test(decoding_happens_once),
		cmocka_unit_test(bytes_that_are_no_utf8_are_kept),
		cmocka_unit_test(a_path_that_cannot_be_meant_is_refused),
		cmocka_unit_test(a_query_is_a_list_of_decoded_pairs),
		cmocka_unit_test(a_nul_in_a_query_is_kept_and_counted),
		cmocka_unit_test(an_empty_query_has_no_parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
