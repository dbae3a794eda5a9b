/* The shapes of requests. */
#include "init/request.h"

#include "base/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>

static bool is_taken(uint16_t op, unsigned fd_count, enum request_kind kind)
{
	struct inside_request request = { .op = op, .version = INSIDE_VERSION };
	enum request_kind found = REQUEST_KINDS;
	bool is_request = request_check(&request, sizeof(request), fd_count, &found) == &request;
	if (is_request)
		assert_int_equal(found, kind);
	else
		assert_int_equal(found, REQUEST_KINDS);
	return is_request;
}

static void each_op_has_one_number_of_descriptors(void **state)
{
	for (unsigned count = 0; count <= 8; count++) {
		assert_int_equal(is_taken(INSIDE_COMMAND, count, REQUEST_COMMAND), count == 4);
		for (uint16_t op = INSIDE_READ; op <= INSIDE_DELETE; op++)
			assert_int_equal(is_taken(op, count, REQUEST_FILES), count == 1);
		assert_int_equal(is_taken(INSIDE_SWEEP, count, REQUEST_SWEEP), count == 0);
		assert_int_equal(is_taken(INSIDE_TERMINAL, count, REQUEST_COMMAND), count == 1);
		assert_int_equal(is_taken(INSIDE_CONNECT, count, REQUEST_CONNECT), count == 1);
		assert_int_equal(is_taken(INSIDE_PORTS, count, REQUEST_FILES), count == 1);
		assert_int_equal(is_taken(INSIDE_FED_COMMAND, count, REQUEST_COMMAND), count == 5);
	}
}

static void unknown_ops_are_none(void **state)
{
	static const uint16_t ops[] = { 0, INSIDE_FED_COMMAND + 1, 255, 256, 32768, UINT16_MAX };
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		for (unsigned count = 0; count <= 8; count++)
			assert_false(is_taken(ops[i], count, REQUEST_FILES));
}

static void other_sizes_and_versions_are_none(void **state)
{
	struct inside_request request = { .op = INSIDE_STAT, .version = INSIDE_VERSION };
	enum request_kind kind;
	for (size_t size = 0; size < sizeof(request); size += 8)
		assert_null(request_check(&request, size, 1, &kind));
	assert_null(request_check(&request, sizeof(request) + 1, 1, &kind));
	request.version = INSIDE_VERSION + 1;
	assert_null(request_check(&request, sizeof(request), 1, &kind));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_op_has_one_number_of_descriptors),
		cmocka_unit_test(unknown_ops_are_none),
		cmocka_unit_test(other_sizes_and_versions_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
