#include "api/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char packet[FRAME_SIZE + 1];

static enum frames_result feed(struct frames *frames, uint32_t run, uint16_t kind, uint16_t flags,
	const char *payload, struct frames_value *value)
{
	struct frame_header header = { run, kind, flags };
	size_t size = strlen(payload);
	memcpy(packet, &header, sizeof(header));
	memcpy(packet + sizeof(header), payload, size);
	return frames_feed(frames, packet, sizeof(header) + size, value);
}

static void a_value_is_the_sum_of_its_frames(void **state)
{
	struct frames frames;
	struct frames_value value;
	frames_init(&frames);
	frames_begin(&frames, 7);
	assert_int_equal(feed(&frames, 7, FRAME_DISPLAY, FRAME_MORE, "ab", &value), FRAMES_NOTHING);
	assert_int_equal(feed(&frames, 7, FRAME_DISPLAY, FRAME_MORE, "cd", &value), FRAMES_NOTHING);
	assert_int_equal(feed(&frames, 7, FRAME_DISPLAY, 0, "e", &value), FRAMES_VALUE);
	assert_int_equal(value.size, 5);
	assert_memory_equal(value.bytes, "abcde", 5);
	assert_int_equal(feed(&frames, 7, FRAME_DONE, 0, "{}", &value), FRAMES_VALUE);
	assert_int_equal(value.kind, FRAME_DONE);
	frames_deinit(&frames);
}

static void frames_of_another_run_are_dropped(void **state)
{
	struct frames frames;
	struct frames_value value;
	frames_init(&frames);
	frames_begin(&frames, 7);
	assert_int_equal(feed(&frames, 6, FRAME_DONE, 0, "{}", &value), FRAMES_NOTHING);
	assert_int_equal(feed(&frames, 0, FRAME_DONE, 0, "{}", &value), FRAMES_NOTHING);
	assert_int_equal(feed(&frames, 7, FRAME_READY, 0, "{}", &value), FRAMES_NOTHING);
	frames_begin(&frames, 0);
	assert_int_equal(feed(&frames, 7, FRAME_DONE, 0, "{}", &value), FRAMES_NOTHING);
	assert_int_equal(feed(&frames, 0, FRAME_READY, 0, "{}", &value), FRAMES_VALUE);
	frames_deinit(&frames);
}

static void what_is_no_frame_is_broken(void **state)
{
	struct frames frames;
	struct frames_value value;
	frames_init(&frames);
	frames_begin(&frames, 7);
	assert_int_equal(frames_feed(&frames, packet, 0, &value), FRAMES_BROKEN);
	assert_int_equal(frames_feed(&frames, packet, 7, &value), FRAMES_BROKEN);
	assert_int_equal(frames_feed(&frames, packet, FRAME_SIZE + 1, &value), FRAMES_BROKEN);
	assert_int_equal(feed(&frames, 7, FRAME_RUN, 0, "", &value), FRAMES_BROKEN);
	assert_int_equal(feed(&frames, 7, 99, 0, "", &value), FRAMES_BROKEN);
	assert_int_equal(feed(&frames, 7, FRAME_DONE, 4, "", &value), FRAMES_BROKEN);
	frames_deinit(&frames);
}

static void endless_continuations_are_bounded_and_the_end_still_passes(void **state)
{
	struct frames frames;
	struct frames_value value;
	static char block[FRAME_PAYLOAD + 1];
	memset(block, 'x', FRAME_PAYLOAD);
	frames_init(&frames);
	frames_begin(&frames, 7);
	for (unsigned i = 0; i < 2000; i++) {
		assert_int_equal(
			feed(&frames, 7, FRAME_DISPLAY, FRAME_MORE, block, &value), FRAMES_NOTHING);
		assert_true(frames.value.capacity <= 2 * FRAME_VALUES_LIMIT);
	}
	assert_int_equal(frames.lost, 1);
	assert_int_equal(feed(&frames, 7, FRAME_RESULT, 0, "{}", &value), FRAMES_NOTHING);
	assert_int_equal(feed(&frames, 7, FRAME_DONE, 0, "{}", &value), FRAMES_VALUE);
	frames_deinit(&frames);
}

static void an_interrupted_value_is_counted_and_the_next_begins(void **state)
{
	struct frames frames;
	struct frames_value value;
	frames_init(&frames);
	frames_begin(&frames, 7);
	feed(&frames, 7, FRAME_DISPLAY, FRAME_MORE, "half", &value);
	assert_int_equal(feed(&frames, 7, FRAME_RESULT, 0, "whole", &value), FRAMES_VALUE);
	assert_int_equal(frames.lost, 1);
	assert_int_equal(value.size, 5);
	assert_memory_equal(value.bytes, "whole", 5);
	frames_deinit(&frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_the_sum_of_its_frames),
		cmocka_unit_test(frames_of_another_run_are_dropped),
		cmocka_unit_test(what_is_no_frame_is_broken),
		cmocka_unit_test(endless_continuations_are_bounded_and_the_end_still_passes),
		cmocka_unit_test(an_interrupted_value_is_counted_and_the_next_begins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
