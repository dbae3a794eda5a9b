/* See arena.h. A large piece gets a block of its own and leaves the open block open. */
#include "http/arena.h"

#include "base/macros.h"

#include <stdint.h>
#include <string.h>

#define BLOCK_SIZE ((size_t)2048)
#define ALIGNMENT _Alignof(max_align_t)

struct arena_block {
	struct arena_block *older;
	_Alignas(max_align_t) char bytes[];
};

static struct arena_block *block_new(struct arena *arena, size_t size)
{
	struct arena_block *block = calloc(1, sizeof(*block) + size);
	if (!block)
		return NULL;
	block->older = arena->blocks;
	arena->blocks = block;
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (size > arena->left) {
		struct arena_block *block = block_new(arena, MAX(size, BLOCK_SIZE));
		if (!block || size >= BLOCK_SIZE)
			return block ? block->bytes : NULL;
		arena->next = block->bytes;
		arena->left = BLOCK_SIZE;
	}
	char *taken = arena->next;
	arena->next += size;
	arena->left -= size;
	return taken;
}

char *arena_copy(struct arena *arena, const void *bytes, size_t size)
{
	char *copy = arena_alloc(arena, size + 1);
	if (copy && size > 0)
		memcpy(copy, bytes, size);
	return copy;
}

void arena_deinit(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *block = arena->blocks;
		arena->blocks = block->older;
		free(block);
	}
	*arena = (struct arena){ 0 };
}
