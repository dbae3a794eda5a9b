/*
 * A value is the sum of its frames. User code shares the socket with the runner, so a frame of
 * another kind may fall into a value that is not finished: then the unfinished one is dropped and
 * counted, and the new one begins. Only what cannot be read as a frame ends the kernel.
 */
#include "api/frames.h"

#include <string.h>

void frames_init(struct frames *frames)
{
	*frames = (struct frames){ .value = buf_make(FRAME_VALUES_LIMIT) };
}

void frames_deinit(struct frames *frames)
{
	buf_deinit(&frames->value);
}

/* Memory of a big value is given back; a small one is kept for the next. */
static void drop_value(struct frames *frames)
{
	if (frames->value.capacity > FRAME_SIZE)
		buf_deinit(&frames->value);
	frames->value.size = 0;
	frames->kind = 0;
	frames->is_skipping = false;
}

void frames_begin(struct frames *frames, uint32_t run)
{
	drop_value(frames);
	frames->run = run;
	frames->received = 0;
	frames->lost = 0;
}

static bool is_kernel_kind(uint16_t kind)
{
	return kind >= FRAME_READY && kind <= FRAME_CLEAR;
}

/* Adds one frame's payload to the value under way. */
static void gather(
	struct frames *frames, const struct frame_header *header, const char *payload, size_t size)
{
	if (frames->kind != header->kind) {
		if (frames->kind && !frames->is_skipping)
			frames->lost++;
		drop_value(frames);
		frames->kind = header->kind;
	}
	if (frames->is_skipping)
		return;
	if (frames->received > FRAME_VALUES_LIMIT || !buf_append(&frames->value, payload, size)) {
		frames->is_skipping = true;
		frames->lost++;
		buf_deinit(&frames->value);
	}
}

static enum frames_result finish(struct frames *frames, struct frames_value *ret_value)
{
	bool is_skipping = frames->is_skipping;
	*ret_value = (struct frames_value){
		.kind = frames->kind, .bytes = buf_text(&frames->value), .size = frames->value.size
	};
	frames->kind = 0;
	frames->is_skipping = false;
	frames->value.size = 0; /* the bytes stay where they are until the next call */
	return is_skipping ? FRAMES_NOTHING : FRAMES_VALUE;
}

/* A value in one frame, with no other under way, needs no copy. DONE always passes. */
static bool is_alone(const struct frames *frames, const struct frame_header *header)
{
	return !(header->flags & FRAME_MORE) &&
	       (header->kind == FRAME_DONE ||
		       (frames->kind == 0 && frames->received <= FRAME_VALUES_LIMIT));
}

enum frames_result frames_feed(
	struct frames *frames, const void *packet, size_t size, struct frames_value *ret_value)
{
	struct frame_header header;
	if (size < sizeof(header) || size > FRAME_SIZE)
		return FRAMES_BROKEN;
	memcpy(&header, packet, sizeof(header));
	if (!is_kernel_kind(header.kind) || header.flags & ~FRAME_MORE)
		return FRAMES_BROKEN;
	bool is_ready = header.kind == FRAME_READY;
	if (is_ready ? header.run != 0 : header.run == 0 || header.run != frames->run)
		return FRAMES_NOTHING;
	const char *payload = (const char *)packet + sizeof(header);
	size -= sizeof(header);
	frames->received += size;
	if (is_alone(frames, &header)) {
		if (frames->kind && !frames->is_skipping)
			frames->lost++;
		drop_value(frames);
		*ret_value = (struct frames_value){ header.kind, payload, size };
		return FRAMES_VALUE;
	}
	gather(frames, &header, payload, size);
	return header.flags & FRAME_MORE ? FRAMES_NOTHING : finish(frames, ret_value);
}
