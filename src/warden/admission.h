/* Is there memory for one more sandbox? Asked before anything of it exists. */
#ifndef WARDEN_ADMISSION_H
#define WARDEN_ADMISSION_H

#include "warden/warden.h"

/* False: host.memory, which a client may try again. */
bool admission_check(const struct warden *warden, uint64_t memory_bytes, struct error *err);
/* May the pool have one more? Its sandboxes count with their default limits. */
bool admission_has_spare(const struct warden *warden);
/* Do the limits of all, the pool's included, add up to no more than they may? */
bool admission_is_kept(const struct warden *warden);

/* What a text like /proc/meminfo says is available, in bytes; UINT64_MAX when it does not. */
uint64_t admission_parse_available(const char *meminfo);

#endif
