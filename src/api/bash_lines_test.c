#include "api/bash_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_mended(const char *text, const char *expected)
{
	char bytes[512];
	size_t size = strlen(text);
	memcpy(bytes, text, size);
	size = bash_lines_mend(bytes, size, 3);
	assert_int_equal(size, strlen(expected));
	assert_memory_equal(bytes, expected, size);
}

static void a_cell_is_named_by_its_line_only(void **state)
{
	assert_mended(
		"bash: /proc/3/fd/6: line 12: syntax error\n", "bash: line 12: syntax error\n");
	assert_mended("a\nbash: /proc/3/fd/6: line 2: x\nbash: /proc/3/fd/16: line 2: `done'\nb",
		"a\nbash: line 2: x\nbash: line 2: `done'\nb");
}

static void what_is_no_such_line_stays(void **state)
{
	static const char *const texts[] = { "", "\n", "bash: /proc/3/fd/", "bash: /proc/3/fd/6",
		"bash: /proc/4/fd/6: line 2: x\n", "bash: /proc/3/fd/: line 2: x\n",
		"sh: /proc/3/fd/6: line 2: x\n", " bash: /proc/3/fd/6: line 2: x\n",
		"bash: /proc/3/fd/6: No such file\n", "bash: /proc/3/fd/6: lin" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_mended(texts[i], texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cell_is_named_by_its_line_only),
		cmocka_unit_test(what_is_no_such_line_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
