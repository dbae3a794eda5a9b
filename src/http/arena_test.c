#include "http/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
	struct arena arena = { 0 };
	char *pieces[200];
	for (size_t i = 0; i < 200; i++) {
		size_t size = i * 37 % 3000 + 1;
		pieces[i] = arena_alloc(&arena, size);
		assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(pieces[i][k], 0);
		memset(pieces[i], (int)i + 1, size);
	}
	for (size_t i = 0; i < 200; i++)
		assert_int_equal((unsigned char)pieces[i][i * 37 % 3000], (unsigned char)(i + 1));
	arena_deinit(&arena);
}

static void a_copy_has_a_nul_behind_it(void **state)
{
	struct arena arena = { 0 };
	assert_string_equal(arena_copy(&arena, "abcd", 2), "ab");
	assert_string_equal(arena_copy(&arena, NULL, 0), "");
	arena_deinit(&arena);
}

static void an_absurd_size_is_refused(void **state)
{
	struct arena arena = { 0 };
	assert_null(arena_alloc(&arena, SIZE_MAX - 3));
	arena_deinit(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
		cmocka_unit_test(a_copy_has_a_nul_behind_it),
		cmocka_unit_test(an_absurd_size_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
