/* What goes to a server inside, and what comes out. The headers as a whole:
 * tests/e2e/test_ports.py. */
#include "api/forward.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants those first */
#include <cmocka.h>

static struct buf out;

static int set_up(void **state)
{
	out = buf_make(4096);
	return 0;
}

static int tear_down(void **state)
{
	buf_deinit(&out);
	return 0;
}

static const char *text(bool is_good)
{
	assert_true(is_good);
	static char copy[4096];
	strcpy(copy, buf_text(&out));
	out.size = 0;
	return copy;
}

static void a_target_loses_prefix_and_secret(void **state)
{
	struct exposure exposure = { .prefix_size = 2, .parameter = "access_token" };
	assert_string_equal(text(forward_target(&out, "/p/a%20b?x=1", &exposure)), "/a%20b?x=1");
	assert_string_equal(text(forward_target(&out, "/p", &exposure)), "/");
	assert_string_equal(text(forward_target(&out, "/p?x", &exposure)), "/?x");
	assert_string_equal(text(forward_target(&out, "/p/?access_token=k", &exposure)), "/");
	assert_string_equal(
		text(forward_target(&out, "/p/?a&access_token=k&b=1", &exposure)), "/?a&b=1");
	assert_string_equal(
		text(forward_target(&out, "/p/?access_token&access_token=k", &exposure)), "/");
	assert_string_equal(
		text(forward_target(&out, "/p/?access_tokens=k", &exposure)), "/?access_tokens=k");
	exposure = (struct exposure){ 0 };
	assert_string_equal(
		text(forward_target(&out, "/p?access_token=k", &exposure)), "/p?access_token=k");
}

static void a_cookie_stays_with_its_server(void **state)
{
	assert_string_equal(
		text(forward_cookie(&out, "a=b; Domain=example.com; Path=/; HttpOnly", "/p", 2)),
		"a=b; HttpOnly; Path=/p/");
	assert_string_equal(text(forward_cookie(&out, "a=b;domain = .x ; SECURE;path=/q", NULL, 0)),
		"a=b; SECURE; path=/q");
	assert_string_equal(text(forward_cookie(&out, "a=domain; Domain", NULL, 0)), "a=domain");
	assert_string_equal(
		text(forward_cookie(&out, "a=b;;; Max-Age=1;", NULL, 0)), "a=b; Max-Age=1");
}

static void links_to_the_servers_root_lead_through_the_prefix(void **state)
{
	static const char *const cases[][2] = { { "/login", "/p/login" },
		{ "relative", "relative" }, { "//evil.test/", "//evil.test/" },
		{ "http://localhost:3000/a?b", "/p/a?b" }, { "http://127.0.0.1:3000", "/p/" },
		{ "HTTP://LOCALHOST:3000?x", "/p/?x" },
		{ "http://localhost:30001/", "http://localhost:30001/" },
		{ "http://localhost/", "http://localhost/" },
		{ "https://example.com/", "https://example.com/" } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(
			text(forward_location(&out, cases[i][0], "/p", 2, 3000)), cases[i][1]);
	assert_string_equal(text(forward_location(&out, "http://localhost/x", "", 0, 80)), "/x");
	assert_string_equal(text(forward_location(&out, "http://localhost:80/x", "", 0, 80)), "/x");
}

static void our_cookie_stays_here(void **state)
{
	assert_string_equal(text(forward_cookies(&out, "a=1; own=x; b=2", "own")), "a=1; b=2");
	assert_string_equal(text(forward_cookies(&out, "own=x", "own")), "");
	assert_string_equal(text(forward_cookies(&out, "owner=x;;  own = y", "own")), "owner=x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_target_loses_prefix_and_secret, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_cookie_stays_with_its_server, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			links_to_the_servers_root_lead_through_the_prefix, set_up, tear_down),
		cmocka_unit_test_setup_teardown(our_cookie_stays_here, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
