/*
 * See arenas.h. Python takes memory for small objects by the MiB, wherever the system has room between
 * mapped libraries; half of it is in no aligned 2 MiB then, and cannot be a large page (large_pages.h).
 * Here the pieces come from one range of addresses, the lowest free one first. A piece that is given
 * back loses its memory at once, as it would by munmap. When the range is used up, and for pieces of
 * another size, Python's own functions serve.
 *
 * The functions that exchange the allocator are no part of the stable ABI, though there in each version
 * since 3.4: they are looked up, and Python without them is left as it is. Calls come under the
 * interpreter's lock.
 */
#include "python/arenas.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define PIECE ((size_t)1 << 20) /* ARENA_SIZE since 3.10 */
#define PIECES 128              /* three times what the warmed libraries need */
#define LARGE_PAGE ((uintptr_t)2 << 20)

struct allocator { /* PyObjectArenaAllocator */
	void *context;
	void *(*alloc)(void *context, size_t size);
	void (*free)(void *context, void *piece, size_t size);
};

static struct {
	struct allocator original;
	char *range;
	bool is_taken[PIECES];
} the_arenas;

static void *take(void *context, size_t size)
{
	for (size_t i = 0; i < PIECES && size == PIECE; i++)
		if (!the_arenas.is_taken[i]) {
			the_arenas.is_taken[i] = true;
			return the_arenas.range + i * PIECE;
		}
	return the_arenas.original.alloc(the_arenas.original.context, size);
}

static void give_back(void *context, void *piece, size_t size)
{
	uintptr_t offset = (uintptr_t)piece - (uintptr_t)the_arenas.range;
	if (offset >= PIECES * PIECE)
		return the_arenas.original.free(the_arenas.original.context, piece, size);
	madvise(piece, size, MADV_DONTNEED);
	the_arenas.is_taken[offset / PIECE] = false;
}

/* Aligned, and not counted as used before it is. */
static char *reserve(void)
{
	size_t size = PIECES * PIECE + LARGE_PAGE;
	char *range = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range == MAP_FAILED)
		return NULL;
	size_t ahead = (size_t)(-(uintptr_t)range & (LARGE_PAGE - 1));
	if (ahead > 0)
		munmap(range, ahead);
	if (ahead < LARGE_PAGE)
		munmap(range + ahead + PIECES * PIECE, LARGE_PAGE - ahead);
	return range + ahead;
}

bool arenas_gather(void)
{
	void (*get)(struct allocator *) = NULL, (*set)(struct allocator *) = NULL;
	*(void **)&get = dlsym(RTLD_DEFAULT, "PyObject_GetArenaAllocator");
	*(void **)&set = dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
	if (!get || !set || the_arenas.range)
		return false;
	the_arenas.range = reserve();
	if (!the_arenas.range)
		return false;
	get(&the_arenas.original);
	set(&(struct allocator){ .alloc = take, .free = give_back });
	return true;
}
