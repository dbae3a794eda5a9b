/* Memory that dies all at once: what one request needs, in a few blocks. */
#ifndef HTTP_ARENA_H
#define HTTP_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *blocks; /* owned; the newest first */
	char *next;                 /* free bytes of the newest block */
	size_t left;
};

/* Zeroed and aligned for any type; NULL when out of memory. A zeroed arena is an empty one. */
void *arena_alloc(struct arena *arena, size_t size);
/* A copy of size bytes with a NUL behind it; NULL when out of memory. */
char *arena_copy(struct arena *arena, const void *bytes, size_t size);
void arena_deinit(struct arena *arena);

#endif
