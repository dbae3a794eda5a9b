/*
 * What a kernel sends: packets of any size and content, put together and read. The input is a row
 * of packets, each behind two bytes that hold its size; one of size 65535 begins a new run.
 */
#include "api/frames.h"
#include "api/values.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void write_out(struct values *values)
{
	struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	values_write_results(values, &writer);
	writer_close(&writer, '}');
	assert(!writer.is_failed);
	writer_deinit(&writer);
}

static void take(struct frames *frames, struct values *values, const uint8_t *packet, size_t size)
{
	struct frames_value value;
	struct values_shown shown;
	if (frames_feed(frames, packet, size, &value) != FRAMES_VALUE)
		return;
	assert(value.size <= FRAME_VALUES_LIMIT);
	if (value.kind != FRAME_READY)
		values_take(values, &value, &shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct frames frames;
	struct values values;
	uint16_t length;
	frames_init(&frames);
	values_init(&values);
	frames_begin(&frames, 1);
	while (size >= sizeof(length)) {
		memcpy(&length, bytes, sizeof(length));
		bytes += sizeof(length);
		size -= sizeof(length);
		if (length == UINT16_MAX)
			frames_begin(&frames, frames.run + 1);
		size_t taken = length < size ? length : size;
		take(&frames, &values, bytes, taken);
		bytes += taken;
		size -= taken;
	}
	write_out(&values);
	values_deinit(&values);
	frames_deinit(&frames);
	return 0;
}
