/* A growing queue of bytes: what a stream has not sent yet. Its user keeps it within bounds. */
#ifndef HTTP_RING_H
#define HTTP_RING_H

#include <stdbool.h>
#include <stddef.h>

struct ring {
	char *bytes;     /* owned; NULL until first used */
	size_t capacity; /* a power of two, or 0 */
	size_t start;    /* place of the oldest byte */
	size_t size;     /* bytes queued */
};

/* All or nothing: false when out of memory. A zeroed ring is an empty one. */
bool ring_put(struct ring *ring, const void *bytes, size_t size);
/* Takes up to size of the oldest bytes and returns how many. */
size_t ring_take(struct ring *ring, void *bytes, size_t size);
/* Some of the oldest bytes, as they lie; 0 when it is empty. ring_drop drops so many or fewer. */
size_t ring_peek(const struct ring *ring, const char **ret_bytes);
void ring_drop(struct ring *ring, size_t size);
void ring_deinit(struct ring *ring);

#endif
