/* The loop: what a handler may do to its sources and timers, and that timers come in order. */
#include "loop/loop.h"

#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

struct bench {
	struct loop loop;
	struct loop_source sources[2];
	struct loop_timer timers[64];
	int pipes[2][2];
	unsigned calls, order[64];
};

static int setup(void **state)
{
	struct error err;
	struct bench *bench = calloc(1, sizeof(*bench));
	*state = bench;
	return bench && loop_init(&bench->loop, &err) && pipe2(bench->pipes[0], O_CLOEXEC) == 0 &&
			       pipe2(bench->pipes[1], O_CLOEXEC) == 0
		       ? 0
		       : -1;
}

static int teardown(void **state)
{
	struct bench *bench = *state;
	for (int i = 0; i < 4; i++)
		close(bench->pipes[i / 2][i % 2]);
	loop_deinit(&bench->loop);
	free(bench);
	return 0;
}

static struct bench *the_bench;

static void forget_both(struct loop_source *source, uint32_t events)
{
	the_bench->calls++;
	loop_forget(&the_bench->sources[0]);
	loop_forget(&the_bench->sources[1]);
	loop_stop(&the_bench->loop);
}

static void source_forgotten_in_the_same_batch_is_not_called(void **state)
{
	struct bench *bench = the_bench = *state;
	struct error err;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(write(bench->pipes[i][1], "x", 1), 1);
		assert_true(loop_watch(&bench->loop, &bench->sources[i], bench->pipes[i][0],
			EPOLLIN, forget_both, &err));
	}
	assert_true(loop_run(&bench->loop, &err));
	assert_int_equal(bench->calls, 1);
}

static void note_order(struct loop_timer *timer)
{
	the_bench->order[the_bench->calls++] = (unsigned)(timer - the_bench->timers);
	if (the_bench->calls == 32)
		loop_stop(&the_bench->loop);
}

static void timers_come_in_order_of_their_time(void **state)
{
	struct bench *bench = the_bench = *state;
	struct error err;
	int64_t now = clock_monotonic_us();
	for (int i = 0; i < 64; i++)
		loop_timer_start_at(
			&bench->loop, &bench->timers[i], now + (i * 37 % 64) * 10, note_order);
	for (int i = 0; i < 64; i++)
		if (i * 37 % 64 % 2)
			loop_timer_stop(&bench->timers[i]);
	assert_true(loop_run(&bench->loop, &err));
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(bench->order[i] * 37 % 64, i * 2);
}

static void stop_now(struct loop_timer *timer)
{
	loop_stop(timer->loop ? timer->loop : &the_bench->loop);
}

static void timer_that_is_started_again_is_moved(void **state)
{
	struct bench *bench = the_bench = *state;
	struct error err;
	int64_t start = clock_monotonic_ms();
	loop_timer_start(&bench->loop, &bench->timers[0], 60000, stop_now);
	loop_timer_start(&bench->loop, &bench->timers[0], 20, stop_now);
	assert_true(loop_run(&bench->loop, &err));
	int64_t took = clock_monotonic_ms() - start;
	assert_in_range(took, 19, 5000);
	assert_null(bench->timers[0].loop);
}

static void halted_timer_comes_after_the_time_it_had_left(void **state)
{
	struct bench *bench = the_bench = *state;
	struct error err;
	int64_t start = clock_monotonic_ms();
	loop_timer_start(&bench->loop, &bench->timers[0], 20, stop_now);
	loop_timer_halt(&bench->timers[0]);
	loop_timer_start(&bench->loop, &bench->timers[1], 60, stop_now);
	assert_true(loop_run(&bench->loop, &err)); /* ended by the other one */
	assert_true(clock_monotonic_ms() - start >= 59);
	loop_timer_go_on(&bench->loop, &bench->timers[0]);
	assert_non_null(bench->timers[0].loop);
	assert_in_range(bench->timers[0].due_us - clock_monotonic_us(), 0, 20000);
	assert_true(loop_run(&bench->loop, &err));
	loop_timer_go_on(&bench->loop, &bench->timers[0]);
	assert_null(bench->timers[0].loop); /* only once */
}

static void halted_timer_that_is_stopped_never_comes(void **state)
{
	struct bench *bench = the_bench = *state;
	loop_timer_start(&bench->loop, &bench->timers[0], 20, stop_now);
	loop_timer_halt(&bench->timers[0]);
	loop_timer_stop(&bench->timers[0]);
	loop_timer_go_on(&bench->loop, &bench->timers[0]);
	assert_null(bench->timers[0].loop);
}

static void signal_arrives_as_a_descriptor(void **state)
{
	struct error err;
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	cleanup_close int fd = loop_signal_fd(&signals, &err);
	assert_true(fd >= 0);
	raise(SIGUSR1);
	char info[128];
	assert_int_equal(read(fd, info, sizeof(info)), 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			source_forgotten_in_the_same_batch_is_not_called, setup, teardown),
		cmocka_unit_test_setup_teardown(
			timers_come_in_order_of_their_time, setup, teardown),
		cmocka_unit_test_setup_teardown(
			timer_that_is_started_again_is_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(
			halted_timer_comes_after_the_time_it_had_left, setup, teardown),
		cmocka_unit_test_setup_teardown(
			halted_timer_that_is_stopped_never_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(signal_arrives_as_a_descriptor, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
