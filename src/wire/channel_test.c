/* Packets: what arrives whole, with its descriptors, and what is refused. */
#include "wire/channel.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

static int ends[2];

static int setup(void **state)
{
	struct error err;
	return wire_pair(ends, &err) ? 0 : -1;
}

static int teardown(void **state)
{
	fd_close(&ends[0]);
	fd_close(&ends[1]);
	return 0;
}

static void packet_arrives_with_its_descriptors_closed_on_exec(void **state)
{
	struct error err;
	struct wire_header header = { .op = 7, .version = 1, .serial = 9 };
	struct wire_packet packet;
	int fds[2] = { 0, 1 };
	assert_true(wire_send(ends[0], &header, sizeof(header), fds, 2, &err));
	assert_int_equal(wire_receive(ends[1], &packet, &err), WIRE_GOT);
	assert_int_equal(packet.header.op, 7);
	assert_int_equal(packet.header.serial, 9);
	assert_int_equal(packet.fd_count, 2);
	assert_true(fcntl(packet.fds[0], F_GETFD) & FD_CLOEXEC);
	int taken = wire_packet_take(&packet, 1), left = packet.fds[0];
	assert_int_equal(wire_packet_take(&packet, 2), -1);
	wire_packet_deinit(&packet);
	assert_int_equal(fcntl(left, F_GETFD), -1);
	assert_true(fcntl(taken, F_GETFD) >= 0);
	close(taken);
}

static void short_packet_and_long_packet_are_refused(void **state)
{
	static char bytes[WIRE_PACKET + 1];
	struct error err;
	struct wire_packet packet;
	assert_int_equal(send(ends[0], bytes, 3, 0), 3);
	assert_int_equal(wire_receive(ends[1], &packet, &err), WIRE_BAD);
	assert_int_equal(err.code, ERROR_PROTOCOL);
	assert_int_equal(send(ends[0], bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(wire_receive(ends[1], &packet, &err), WIRE_BAD);
}

static void empty_packet_leaks_no_descriptor(void **state)
{
	struct error err;
	struct wire_packet packet;
	int fds[2] = { 0, 1 };
	int next = fd_duplicate(0);
	close(next);
	wire_send(ends[0], "", 0, fds, 2, &err);
	assert_int_equal(wire_receive(ends[1], &packet, &err), WIRE_BAD);
	int after = fd_duplicate(0);
	close(after);
	assert_int_equal(after, next);
}

static void hang_up_and_nothing_there_are_told_apart(void **state)
{
	struct error err;
	struct wire_packet packet;
	fd_set_nonblocking(ends[1], true);
	assert_int_equal(wire_receive(ends[1], &packet, &err), WIRE_NOTHING);
	fd_close(&ends[0]);
	assert_int_equal(wire_receive(ends[1], &packet, &err), WIRE_CLOSED);
}

static void full_socket_fails_with_eagain(void **state)
{
	struct error err = { 0 };
	struct wire_header header = { 0 };
	fd_set_nonblocking(ends[0], true);
	while (wire_send(ends[0], &header, sizeof(header), NULL, 0, &err))
		;
	assert_int_equal(err.os_error, EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			packet_arrives_with_its_descriptors_closed_on_exec, setup, teardown),
		cmocka_unit_test_setup_teardown(
			short_packet_and_long_packet_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(empty_packet_leaks_no_descriptor, setup, teardown),
		cmocka_unit_test_setup_teardown(
			hang_up_and_nothing_there_are_told_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(full_socket_fails_with_eagain, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
