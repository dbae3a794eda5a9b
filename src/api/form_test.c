/* Forms as the clients send them, and as they do not. */
#include "api/form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ENCODED "application/x-www-form-urlencoded"
#define MULTIPART "multipart/form-data; boundary=xyz"
#define PART(head, value) "--xyz\r\nContent-Disposition: form-data; " head "\r\n\r\n" value "\r\n"

static struct form read_form(const char *type, const char *body)
{
	struct form form;
	struct error err = { 0 };
	assert_true(form_parse(&form, type, body, strlen(body), &err));
	return form;
}

static void assert_field(const struct form *form, size_t index, const char *name, const char *value)
{
	assert_true(index < form->count);
	assert_string_equal(form->fields[index].name, name);
	assert_int_equal(form->fields[index].size, strlen(value));
	assert_memory_equal(form->fields[index].bytes, value, strlen(value));
}

static void an_encoded_form_is_decoded(void **state)
{
	struct form form =
		read_form(ENCODED "; charset=utf-8", "name=a+b&&size_mb=%31%32&empty=&bare");
	assert_int_equal(form.count, 4);
	assert_field(&form, 0, "name", "a b");
	assert_field(&form, 1, "size_mb", "12");
	assert_field(&form, 2, "empty", "");
	assert_field(&form, 3, "bare", "");
	assert_false(form.fields[0].is_file);
	form_deinit(&form);
}

static void parts_are_fields_and_files_by_their_path(void **state)
{
	struct form form = read_form("Multipart/Form-Data; charset=x; boundary=\"xyz\"",
		PART("name=\"name\"", "mine") PART(
			"name=\"app/a.py\"; filename=\"a.py\"\r\nContent-Type: text/plain",
			"x\r\n--xy\r\n") PART("filename=\"name=;\"; name=\"b\"", "") "--xyz--\r\n");
	assert_int_equal(form.count, 3);
	assert_field(&form, 0, "name", "mine");
	assert_field(&form, 1, "app/a.py", "x\r\n--xy\r\n");
	assert_field(&form, 2, "b", "");
	assert_false(form.fields[0].is_file);
	assert_true(form.fields[1].is_file && form.fields[2].is_file);
	form_deinit(&form);
}

static void an_escaped_quote_in_a_name_is_one(void **state)
{
	struct form form = read_form(MULTIPART, PART("name=\"a%22b%41\"", "1") "--xyz--");
	assert_field(&form, 0, "a\"b%41", "1");
	form_deinit(&form);
}

static void what_is_broken_is_refused(void **state)
{
	static const char *const bodies[] = { "", "--xy", "--xyz", "--xyzname", "\r\n--xyz--",
		"--xyz\r\n", "--xyz\r\n\r\nvalue\r\n--xyz--", PART("name=\"\"", "") "--xyz--",
		PART("name=a", "") "--xyz--", PART("name=\"a", "") "--xyz--",
		PART("name=\"a\tb\"", "") "--xyz--",
		PART("name=\"a\"\r\nContent-Disposition: form-data; name=\"b\"", "") "--xyz--",
		PART("name=\"a\"", ""), PART("name=\"a\"", "") "--xyz",
		PART("name=\"a\"", "") "--xyz\n--xyz--" };
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		struct form form;
		struct error err = { 0 };
		assert_false(form_parse(&form, MULTIPART, bodies[i], strlen(bodies[i]), &err));
		assert_int_equal(err.code, ERROR_INVALID);
	}
	static const char *const encoded[] = { "a=%4", "a=%zz", "%=1", "=1", "%00=1" };
	for (size_t i = 0; i < ARRAY_SIZE(encoded); i++) {
		struct form form;
		struct error err = { 0 };
		assert_false(form_parse(&form, ENCODED, encoded[i], strlen(encoded[i]), &err));
	}
}

static void other_types_are_not_taken(void **state)
{
	static const char *const types[] = { NULL, "", "application/json",
		"multipart/mixed; boundary=x" };
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct form form;
		struct error err = { 0 };
		assert_false(form_parse(&form, types[i], "a=b", 3, &err));
		assert_int_equal(err.code, ERROR_MEDIA_TYPE);
	}
	struct form form;
	struct error err = { 0 };
	assert_false(form_parse(&form, "multipart/form-data", "a=b", 3, &err));
	assert_non_null(strstr(err.message, "boundary"));
}

static void too_many_fields_are_refused(void **state)
{
	static char body[(FORM_FIELDS + 1) * 3 + 1];
	for (size_t i = 0; i <= FORM_FIELDS; i++)
		memcpy(body + i * 3, "a=&", 3);
	struct form form;
	struct error err = { 0 };
	assert_false(form_parse(&form, ENCODED, body, strlen(body), &err));
	assert_non_null(strstr(err.message, "2048"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_encoded_form_is_decoded),
		cmocka_unit_test(parts_are_fields_and_files_by_their_path),
		cmocka_unit_test(an_escaped_quote_in_a_name_is_one),
		cmocka_unit_test(what_is_broken_is_refused),
		cmocka_unit_test(other_types_are_not_taken),
		cmocka_unit_test(too_many_fields_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
