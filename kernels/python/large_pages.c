/*
 * See large_pages.h. fork copies one entry for each page of the parent's own memory: 22,000 for a
 * warmed Python, which takes longer than all else a kernel does. Of memory in large pages it copies one
 * entry for 512 pages. The child's writes still copy single pages (do_huge_pmd_wp_page, since 5.8), so
 * what a sandbox takes of memory is as before; and what ends has fewer entries to take apart.
 *
 * Asked for each large page apart, and only where most of it is in use: memory that was reserved and
 * never touched must not become real by it.
 */
#include "python/large_pages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* 6.1 */
#endif
#define LARGE_PAGE ((uintptr_t)2 << 20)
#define MAPPING_MAX ((uintptr_t)1 << 30) /* larger ones are address space that was reserved */
#define PAGE_MAX_COUNT (LARGE_PAGE / 4096)

static bool is_mostly_used(uintptr_t start)
{
	unsigned char is_there[PAGE_MAX_COUNT];
	size_t count = LARGE_PAGE / (size_t)sysconf(_SC_PAGESIZE), used = 0;
	if (mincore((void *)start, LARGE_PAGE, is_there) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		used += is_there[i] & 1;
	return used > count / 2;
}

static size_t gather(uintptr_t start, uintptr_t end)
{
	size_t count = 0;
	start = (start + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
	for (; start + LARGE_PAGE <= end; start += LARGE_PAGE)
		if (is_mostly_used(start))
			count += madvise((void *)start, LARGE_PAGE, MADV_COLLAPSE) == 0;
	return count;
}

/* One line of maps: "start-end rw-p offset device inode name"; of files nothing is taken. */
static size_t gather_line(const char *line)
{
	uintptr_t start, end;
	uint64_t inode;
	char access[5];
	int fields = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*s %" SCNu64, &start, &end,
		access, &inode);
	if (fields != 4 || inode != 0 || strcmp(access, "rw-p") != 0 || strstr(line, "[stack") ||
		end - start > MAPPING_MAX)
		return 0;
	return gather(start, end);
}

size_t large_pages_gather(void)
{
	char line[512];
	size_t count = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		count += gather_line(line);
	if (maps)
		fclose(maps);
	return count;
}
