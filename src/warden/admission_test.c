#include "warden/admission.h"

#include "warden/sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static void what_is_available_is_read_in_bytes(void **state)
{
	assert_true(admission_parse_available(
			    "MemTotal: 9 kB\nMemAvailable:   2048 kB\nBuffers: 1 kB\n") == 2 * MIB);
	assert_true(admission_parse_available("MemTotal: 9 kB\n") == UINT64_MAX);
	assert_true(admission_parse_available("") == UINT64_MAX);
	assert_true(admission_parse_available(NULL) == UINT64_MAX);
}

/* A warden with one sandbox of 100 MiB. */
static struct warden *a_warden(uint64_t commit, uint64_t reserve)
{
	static struct warden warden;
	static struct sandbox sandbox;
	warden = (struct warden){ .cgroups = CGROUP_TREE_NONE };
	warden.setup.memory_commit = commit;
	warden.setup.memory_reserve = reserve;
	sandbox = (struct sandbox){ .is_claimed = true, .limits = { .memory_bytes = 100 * MIB } };
	table_add(&warden.table, &sandbox);
	return &warden;
}

static void limits_add_up_to_what_is_allowed_and_no_further(void **state)
{
	struct error err = { 0 };
	assert_true(admission_check(a_warden(150 * MIB, 0), 50 * MIB, &err));
	assert_false(admission_check(a_warden(150 * MIB, 0), 51 * MIB, &err));
	assert_int_equal(err.code, ERROR_HOST_MEMORY);
	assert_non_null(strstr(err.message, "150"));
	assert_true(err.hint[0]);
}

static void without_a_configuration_anything_is_taken(void **state)
{
	struct error err = { 0 };
	assert_true(admission_check(a_warden(0, 0), UINT64_MAX / 2, &err));
}

static void the_unclaimed_count_for_the_pool_and_not_for_claims(void **state)
{
	struct error err = { 0 };
	struct warden *warden = a_warden(220 * MIB, 0);
	warden->setup.defaults.memory_bytes = 60 * MIB;
	assert_true(admission_has_spare(warden));
	warden->pool_count = 1;
	assert_true(admission_is_kept(warden));
	assert_true(admission_has_spare(warden));
	warden->pool_count = 2;
	assert_true(admission_is_kept(warden));
	assert_false(admission_has_spare(warden));
	assert_true(admission_check(warden, 120 * MIB, &err));
	warden->pool_count = 3;
	assert_false(admission_is_kept(warden));
}

static void the_pool_leaves_more_than_the_reserve(void **state)
{
	assert_false(admission_has_spare(a_warden(0, UINT64_MAX / 2)));
	assert_true(admission_has_spare(a_warden(0, 1)));
}

static void a_reserve_that_no_machine_has_refuses(void **state)
{
	struct error err = { 0 };
	assert_false(admission_check(a_warden(0, UINT64_MAX - 1), MIB, &err));
	assert_int_equal(err.code, ERROR_HOST_MEMORY);
	assert_true(admission_check(a_warden(0, 1), MIB, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_available_is_read_in_bytes),
		cmocka_unit_test(limits_add_up_to_what_is_allowed_and_no_further),
		cmocka_unit_test(without_a_configuration_anything_is_taken),
		cmocka_unit_test(the_unclaimed_count_for_the_pool_and_not_for_claims),
		cmocka_unit_test(the_pool_leaves_more_than_the_reserve),
		cmocka_unit_test(a_reserve_that_no_machine_has_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
