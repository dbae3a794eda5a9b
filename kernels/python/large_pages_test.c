/* Whatever the system grants: what was in memory is there afterwards, and nothing else is. */
#include "python/large_pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* cmocka wants those first */
#include <cmocka.h>

#define SIZE ((size_t)8 << 20)

static char *map(void)
{
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	return memory;
}

static size_t pages_there(char *memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
	unsigned char is_there[SIZE / 4096];
	assert_int_equal(mincore(memory, SIZE, is_there), 0);
	for (size_t i = 0; i < SIZE / page; i++)
		count += is_there[i] & 1;
	return count;
}

static void what_is_in_use_keeps_its_content(void **state)
{
	char *memory = map();
	for (size_t i = 0; i < SIZE; i += sizeof(uint32_t))
		*(uint32_t *)(memory + i) = (uint32_t)(i * 2654435761u);
	large_pages_gather();
	for (size_t i = 0; i < SIZE; i += sizeof(uint32_t))
		assert_int_equal(*(uint32_t *)(memory + i), (uint32_t)(i * 2654435761u));
	munmap(memory, SIZE);
}

static void what_was_never_touched_takes_no_memory(void **state)
{
	char *memory = map();
	for (size_t i = 0; i < SIZE; i += SIZE / 16)
		memory[i] = 1;
	size_t before = pages_there(memory);
	large_pages_gather();
	assert_int_equal(pages_there(memory), before);
	munmap(memory, SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_use_keeps_its_content),
		cmocka_unit_test(what_was_never_touched_takes_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
