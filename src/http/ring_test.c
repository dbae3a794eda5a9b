#include "base/macros.h"
#include "http/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void bytes_come_out_in_the_order_they_went_in(void **state)
{
	struct ring ring = { 0 };
	uint8_t next_in = 0, next_out = 0;
	for (size_t round = 1; round < 400; round++) {
		uint8_t bytes[613];
		size_t put = round * 7 % sizeof(bytes), want = round * 5 % sizeof(bytes);
		for (size_t i = 0; i < put; i++)
			bytes[i] = next_in++;
		assert_true(ring_put(&ring, bytes, put));
		size_t before = ring.size, taken = ring_take(&ring, bytes, want);
		assert_int_equal(taken, MIN(before, want));
		for (size_t i = 0; i < taken; i++)
			assert_int_equal(bytes[i], next_out++);
	}
	ring_deinit(&ring);
}

static void a_ring_grows_while_it_is_wrapped_around(void **state)
{
	struct ring ring = { 0 };
	char block[3000], taken[9000];
	memset(block, 'a', sizeof(block));
	assert_true(ring_put(&ring, block, sizeof(block)));
	assert_int_equal(ring_take(&ring, taken, 2000), 2000);
	memset(block, 'b', sizeof(block));
	assert_true(ring_put(&ring, block, sizeof(block)));
	memset(block, 'c', sizeof(block));
	assert_true(ring_put(&ring, block, sizeof(block)));
	assert_int_equal(ring_take(&ring, taken, sizeof(taken)), 7000);
	assert_true(taken[999] == 'a' && taken[1000] == 'b' && taken[4000] == 'c' &&
		    taken[6999] == 'c');
	ring_deinit(&ring);
}

static void an_empty_ring_gives_and_needs_nothing(void **state)
{
	struct ring ring = { 0 };
	char byte;
	assert_int_equal(ring_take(&ring, &byte, 1), 0);
	assert_true(ring_put(&ring, NULL, 0));
	assert_null(ring.bytes);
	ring_deinit(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_out_in_the_order_they_went_in),
		cmocka_unit_test(a_ring_grows_while_it_is_wrapped_around),
		cmocka_unit_test(an_empty_ring_gives_and_needs_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
