/* Lines of the kernel's tables of sockets, and the list of ports. */
#include "init/ports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define REST " 00000000:00000000 00:00000000 00000000  1000        0 23 1 0000 100 0 0 10 0"

static void a_listener_for_any_address_counts(void **state)
{
	assert_int_equal(ports_of_line("   0: 00000000:1F90 00000000:0000 0A" REST), 8080);
	assert_int_equal(ports_of_line("  12: 0100007F:0050 00000000:0000 0A" REST), 80);
	assert_int_equal(ports_of_line("   3: 00000000000000000000000000000000:0BB8 "
				       "00000000000000000000000000000000:0000 0A" REST),
		3000);
	assert_int_equal(ports_of_line("   3: 0000000000000000FFFF00000100007F:0BB8 "
				       "00000000000000000000000000000000:0000 0A" REST),
		3000);
}

static void what_does_not_listen_for_loopback_does_not_count(void **state)
{
	static const char *const lines[] = {
		"",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt",
		"   0: 0100007F:1F90 0100007F:9999 01" REST, /* a connection */
		"   0: 0200007F:1F90 00000000:0000 0A" REST, /* 127.0.0.2 */
		"   0: 00000000:0000 00000000:0000 0A" REST,
		"   0: 00000000000000000000000001000000:0BB8 "
		"00000000000000000000000000000000:0000 0A" REST, /* ::1 */
		"   0: 0000:1F90 00000000:0000 0A" REST,
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(ports_of_line(lines[i]), 0);
}

static void ports_are_kept_in_order_and_once(void **state)
{
	struct inside_ports_answer answer = { 0 };
	const uint16_t given[] = { 80, 65535, 8080, 80, 1, 8080 };
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		ports_add(&answer, given[i]);
	assert_int_equal(answer.count, 4);
	assert_int_equal(answer.ports[0], 1);
	assert_int_equal(answer.ports[1], 80);
	assert_int_equal(answer.ports[2], 8080);
	assert_int_equal(answer.ports[3], 65535);
}

static void of_too_many_the_lowest_stay(void **state)
{
	struct inside_ports_answer answer = { 0 };
	for (unsigned i = 0; i < INSIDE_PORTS_LIMIT + 10; i++)
		ports_add(&answer, (uint16_t)(5000 - i));
	assert_int_equal(answer.count, INSIDE_PORTS_LIMIT);
	assert_int_equal(answer.ports[0], 5000 - INSIDE_PORTS_LIMIT - 9);
	ports_add(&answer, 60000);
	assert_int_equal(answer.count, INSIDE_PORTS_LIMIT);
	assert_int_not_equal(answer.ports[INSIDE_PORTS_LIMIT - 1], 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listener_for_any_address_counts),
		cmocka_unit_test(what_does_not_listen_for_loopback_does_not_count),
		cmocka_unit_test(ports_are_kept_in_order_and_once),
		cmocka_unit_test(of_too_many_the_lowest_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
