/* Preview tokens and preview hosts. */
#include "api/preview.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants those first */
#include <cmocka.h>

static const uint8_t key[PREVIEW_KEY_SIZE] = { 1, 2, 3 };

static const struct preview wanted = {
	.sandbox = { { 1, 2, 254, 255 } }, .port = 8080, .expires_s = 2000, .paths = "/a\n/b/c"
};

static void a_token_opens_to_what_was_sealed(void **state)
{
	struct buf token = buf_make(4096);
	struct preview found;
	assert_true(preview_seal(key, &wanted, &token));
	assert_true(preview_open(key, buf_text(&token), 1999, &found, NULL));
	assert_memory_equal(&found.sandbox, &wanted.sandbox, sizeof(wanted.sandbox));
	assert_int_equal(found.port, 8080);
	assert_int_equal(found.expires_s, 2000);
	assert_string_equal(found.paths, wanted.paths);
	buf_deinit(&token);
}

static void a_token_that_was_touched_does_not_open(void **state)
{
	struct buf token = buf_make(4096);
	struct preview found;
	struct error err = { 0 };
	static const uint8_t other[PREVIEW_KEY_SIZE] = { 1, 2, 4 };
	assert_true(preview_seal(key, &wanted, &token));
	char *text = (char *)(uintptr_t)buf_text(&token);
	assert_false(preview_open(other, text, 0, &found, &err));
	assert_int_equal(err.code, ERROR_TOKEN);
	assert_false(preview_open(key, text, 2000, &found, &err));
	for (size_t i = 0; i < token.size; i++) {
		char old = text[i];
		text[i] = old == '0' ? '1' : '0';
		assert_false(preview_open(key, text, 0, &found, NULL));
		text[i] = 0;
		assert_false(preview_open(key, text, 0, &found, NULL));
		text[i] = old;
	}
	assert_true(preview_open(key, text, 0, &found, NULL));
	assert_false(preview_open(key, "", 0, &found, NULL));
	buf_deinit(&token);
}

static void the_longest_paths_fit(void **state)
{
	struct buf token = buf_make(4096);
	struct preview longest = wanted, found;
	memset(longest.paths, 'x', PREVIEW_PATHS_SIZE);
	longest.paths[PREVIEW_PATHS_SIZE] = '\0';
	assert_true(preview_seal(key, &longest, &token));
	assert_true(preview_open(key, buf_text(&token), 0, &found, NULL));
	assert_string_equal(found.paths, longest.paths);
	buf_deinit(&token);
}

static bool covers(const char *paths, const char *a, const char *b, const char *c)
{
	struct preview preview = { 0 };
	const char *segments[] = { a, b, c };
	strcpy(preview.paths, paths);
	return preview_covers(&preview, segments, !a ? 0u : !b ? 1u : !c ? 2u : 3u);
}

static void paths_cover_themselves_and_what_is_below(void **state)
{
	assert_true(covers("", "any", "thing", NULL));
	assert_true(covers("/a", "a", NULL, NULL));
	assert_true(covers("/a", "a", "b", NULL));
	assert_true(covers("/a/", "a", "", NULL));
	assert_true(covers("/a/b\n/c", "c", "d", NULL));
	assert_true(covers("/", "x", NULL, NULL));
	assert_true(covers("/", NULL, NULL, NULL));
	assert_false(covers("/a", NULL, NULL, NULL));
	assert_false(covers("/a", "ab", NULL, NULL));
	assert_false(covers("/a/b", "a", NULL, NULL));
	assert_false(covers("/a/b", "a", "c", NULL));
}

static void what_a_server_may_read_otherwise_is_not_covered(void **state)
{
	assert_false(covers("/a", "a", "..", "b"));
	assert_false(covers("/a", "a", ".", NULL));
	assert_false(covers("/a", "a", "x/../../b", NULL));
	assert_false(covers("/a", "a", "..\\b", NULL));
	assert_false(covers("/a", "a", "..;x", NULL));
	assert_false(covers("/a", "a", "", "b"));
	assert_false(covers("/a", "a", "%2e%2e", "b"));
}

static bool is_host(const char *host, uint16_t port)
{
	uint16_t found = 0;
	struct sandbox_id id;
	bool is_one = preview_host_parse(host, &found, &id);
	return is_one && found == port && id.bytes[0] == 0x01 && id.bytes[15] == 0x10;
}

static void preview_hosts_are_told_from_others(void **state)
{
#define ID "0123456789abcdeffedcba9876543210"
	assert_true(is_host("3000-" ID ".localhost", 3000));
	assert_true(is_host("65535-" ID ".127.0.0.1:8080", 65535));
	assert_true(is_host("1-01234567-89ab-cdef-fedc-ba9876543210.example.com", 1));
	assert_true(is_host("3000-0123456789ABCDEFfedcba9876543210.LocalHost", 3000));
	assert_false(is_host("3000-" ID, 3000));
	assert_false(is_host("3000-" ID ":8080", 3000));
	assert_false(is_host("03000-" ID ".localhost", 3000));
	assert_false(is_host("0-" ID ".localhost", 0));
	assert_false(is_host("65536-" ID ".localhost", 0));
	assert_false(is_host("3000-" ID "0.localhost", 3000));
	assert_false(is_host("x.3000-" ID ".localhost", 3000));
	assert_false(is_host("-" ID ".localhost", 0));
	assert_false(is_host("", 0));
	assert_false(is_host("localhost", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_opens_to_what_was_sealed),
		cmocka_unit_test(a_token_that_was_touched_does_not_open),
		cmocka_unit_test(the_longest_paths_fit),
		cmocka_unit_test(paths_cover_themselves_and_what_is_below),
		cmocka_unit_test(what_a_server_may_read_otherwise_is_not_covered),
		cmocka_unit_test(preview_hosts_are_told_from_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
