/* See ring.h. It never shrinks: it lives as long as one answer. */
#include "http/ring.h"

#include "base/macros.h"

#include <string.h>

#define LEAST_CAPACITY ((size_t)4096)

/* Copies out the oldest bytes without dropping them. */
static void peek(const struct ring *ring, char *to, size_t size)
{
	size_t until_end = MIN(size, ring->capacity - ring->start);
	memcpy(to, ring->bytes + ring->start, until_end);
	memcpy(to + until_end, ring->bytes, size - until_end);
}

static bool grow(struct ring *ring, size_t needed)
{
	size_t capacity = MAX(ring->capacity, LEAST_CAPACITY);
	while (capacity < needed)
		capacity *= 2;
	if (capacity == ring->capacity)
		return true;
	char *bytes = malloc(capacity);
	if (!bytes)
		return false;
	if (ring->size > 0)
		peek(ring, bytes, ring->size);
	free(ring->bytes);
	ring->bytes = bytes;
	ring->capacity = capacity;
	ring->start = 0;
	return true;
}

bool ring_put(struct ring *ring, const void *bytes, size_t size)
{
	if (size == 0)
		return true;
	if (!grow(ring, ring->size + size))
		return false;
	size_t end = (ring->start + ring->size) & (ring->capacity - 1);
	size_t until_end = MIN(size, ring->capacity - end);
	memcpy(ring->bytes + end, bytes, until_end);
	memcpy(ring->bytes, (const char *)bytes + until_end, size - until_end);
	ring->size += size;
	return true;
}

void ring_drop(struct ring *ring, size_t size)
{
	if (size == 0)
		return;
	ring->start = (ring->start + size) & (ring->capacity - 1);
	ring->size -= size;
	if (ring->size == 0)
		ring->start = 0;
}

size_t ring_take(struct ring *ring, void *bytes, size_t size)
{
	size = MIN(size, ring->size);
	if (size == 0)
		return 0;
	peek(ring, bytes, size);
	ring_drop(ring, size);
	return size;
}

size_t ring_peek(const struct ring *ring, const char **ret_bytes)
{
	*ret_bytes = ring->bytes + ring->start;
	return MIN(ring->size, ring->capacity - ring->start);
}

void ring_deinit(struct ring *ring)
{
	free(ring->bytes);
	*ring = (struct ring){ 0 };
}
