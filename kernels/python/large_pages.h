/* Lets a warmed process be forked quickly: its memory in large pages. */
#ifndef KERNELS_LARGE_PAGES_H
#define KERNELS_LARGE_PAGES_H

#include <stddef.h>

/* Moves what is anonymous, writable and mostly in use to large pages; returns how many it made. Where
 * the system does not do it (before 6.1, or without transparent huge pages) all stays as it is. */
size_t large_pages_gather(void);

#endif
