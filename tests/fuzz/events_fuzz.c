/* Server-sent events as the command line reads them: the same events must come out of one piece and
 * of single bytes. */
#include "cli/events.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct seen {
	uint64_t sum;
	unsigned count;
};

static void on_event(void *data, const char *name, const char *json, size_t size)
{
	struct seen *seen = data;
	assert(json[size] == '\0');
	for (const char *at = name; *at; at++)
		seen->sum = seen->sum * 31 + (uint8_t)*at;
	for (size_t i = 0; i < size; i++)
		seen->sum = seen->sum * 31 + (uint8_t)json[i];
	seen->count++;
}

static struct seen read_in_pieces(const uint8_t *bytes, size_t size, size_t piece)
{
	struct seen seen = { 0 };
	struct events events;
	events_init(&events, on_event, &seen);
	for (size_t at = 0; at < size; at += piece)
		assert(events_take(&events, (const char *)bytes + at, MIN(piece, size - at)));
	events_deinit(&events);
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct seen whole = read_in_pieces(bytes, size, size ? size : 1);
	struct seen single = read_in_pieces(bytes, size, 1);
	assert(whole.sum == single.sum && whole.count == single.count);
	return 0;
}
