#include "api/unheard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_told(struct unheard streams[2], const char *expected)
{
	struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	unheard_tell(streams, &writer);
	writer_close(&writer, '}');
	assert_string_equal(buf_text(&writer.buf), expected);
	writer_deinit(&writer);
}

static void output_between_cells_is_told_once(void **state)
{
	struct unheard streams[2];
	unheard_init(&streams[0]);
	unheard_init(&streams[1]);
	assert_told(streams, "{}");
	unheard_feed(&streams[1], "a", 1);
	unheard_feed(&streams[1], "b\n", 2);
	assert_told(streams, "{\"between_cells\":{\"stderr\":{\"text\":\"ab\\n\",\"total\":3}}}");
	assert_told(streams, "{}");
}

static void only_the_last_of_it_is_kept(void **state)
{
	struct unheard unheard;
	char block[3000];
	unheard_init(&unheard);
	for (char c = 'a'; c <= 'z'; c++) {
		memset(block, c, sizeof(block));
		unheard_feed(&unheard, block, sizeof(block));
	}
	assert_int_equal(unheard.total, 26 * sizeof(block));
	assert_int_equal(unheard.last.size, UNHEARD_LIMIT);
	assert_true(unheard.last.bytes[0] == 'x' && unheard.last.bytes[UNHEARD_LIMIT - 1] == 'z');
	static char flood[3 * UNHEARD_LIMIT];
	unheard_feed(&unheard, flood, sizeof(flood));
	assert_int_equal(unheard.last.size, UNHEARD_LIMIT);
	unheard_deinit(&unheard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_between_cells_is_told_once),
		cmocka_unit_test(only_the_last_of_it_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
