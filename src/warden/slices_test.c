/* No template gets the ids that another's sandboxes had, and each gets its own again. */
#include "warden/slices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT 640 /* a share is 10 */

static struct slices slices;
static struct slice_holder one, other;

static int set_up(void **state)
{
	struct error err;
	return slices_init(&slices, COUNT) && slice_hold(&slices, &one, &err) &&
			       slice_hold(&slices, &other, &err)
		       ? 0
		       : -1;
}

static int take_down(void **state)
{
	free(slices.all);
	return 0;
}

static uint32_t take(struct slice_holder *holder)
{
	struct error err;
	uint32_t slice;
	assert_true(slice_take(&slices, holder, &slice, &err));
	assert_in_range(slice, 1, COUNT);
	return slice;
}

static void a_slice_that_one_has_had_is_never_the_others(void **state)
{
	bool was_ones[COUNT + 1] = { [0] = true };
	was_ones[one.own] = true;
	for (unsigned i = 0; i < 3 * COUNT; i++) {
		uint32_t slice = take(&one);
		was_ones[slice] = true;
		slice_give(&slices, &one, slice);
		slice = take(&other);
		assert_false(was_ones[slice]);
		slice_give(&slices, &other, slice);
	}
	assert_int_equal(one.held, COUNT / 64);
}

static void the_one_just_given_back_is_not_the_next(void **state)
{
	uint32_t last = 0;
	for (unsigned i = 0; i < 3 * COUNT; i++) {
		uint32_t slice = take(&one);
		assert_int_not_equal(slice, last);
		slice_give(&slices, &one, slice);
		last = slice;
	}
}

static void all_can_be_taken_once_and_then_there_are_none(void **state)
{
	bool is_taken[COUNT + 1] = { false };
	struct error err = { 0 };
	uint32_t slice;
	for (unsigned i = 0; i < COUNT - 2; i++) {
		slice = take(i % 2 ? &one : &other);
		assert_false(is_taken[slice]);
		is_taken[slice] = true;
	}
	assert_false(slice_take(&slices, &one, &slice, &err));
	assert_int_equal(err.code, ERROR_HOST_FULL);
	slice_give(&slices, &other, other.last);
	assert_false(slice_take(&slices, &one, &slice, &err));
	assert_int_equal(take(&other), other.last);
}

static void what_a_holder_had_is_anybodys_once_it_is_gone(void **state)
{
	struct error err;
	struct slice_holder third;
	uint32_t slice;
	for (unsigned i = 0; i < COUNT - 2; i++)
		take(&one);
	assert_false(slice_hold(&slices, &third, &err));
	slices_let_go(&slices, &one);
	assert_true(slice_hold(&slices, &third, &err));
	for (unsigned i = 0; i < COUNT - 2; i++)
		assert_true(slice_take(&slices, &third, &slice, &err));
	assert_int_not_equal(slice, other.own);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_slice_that_one_has_had_is_never_the_others),
		TEST(the_one_just_given_back_is_not_the_next),
		TEST(all_can_be_taken_once_and_then_there_are_none),
		TEST(what_a_holder_had_is_anybodys_once_it_is_gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
