#include "api/hosts.h"

#include "base/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char *extra[] = { (char *)"box.example" };

static void loopback_and_configured_names_are_served(void **state)
{
	static const char *const good[] = { "127.0.0.1", "127.0.0.1:8080", "127.8.9.10", "[::1]:80",
		"[::1]", "localhost", "LocalHost:1", "a.localhost", "3000-abc.localhost:8080",
		"box.example", "BOX.example:443" };
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(host_is_served(good[i], extra, 1));
}

static void everything_else_is_refused(void **state)
{
	static const char *const bad[] = { "", "evil.test", "127.evil.test", "127.1", "0x7f.0.0.1",
		"2130706433", "localhost.evil.test", ".localhost", "a b.localhost", "127.0.0.1:8a",
		"127.0.0.1:123456", "[::1", "[::1]x", "[::ffff:127.0.0.1]", "::1", "user@localhost",
		"localhost:80:80", "128.0.0.1", "0.0.0.0" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (host_is_served(bad[i], extra, 1))
			fail_msg("'%s' was served", bad[i]);
	assert_false(host_is_served(NULL, extra, 1));
}

static void an_origin_must_be_the_host_itself(void **state)
{
	assert_true(origin_is_own("http://localhost:8080", "localhost:8080"));
	assert_false(origin_is_own("http://localhost:8081", "localhost:8080"));
	assert_false(origin_is_own("http://evil.test", "localhost:8080"));
	assert_false(origin_is_own("null", "localhost:8080"));
	assert_false(origin_is_own("file://localhost:8080", "localhost:8080"));
	assert_false(origin_is_own("http://localhost:8080.evil.test", "localhost:8080"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_and_configured_names_are_served),
		cmocka_unit_test(everything_else_is_refused),
		cmocka_unit_test(an_origin_must_be_the_host_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
