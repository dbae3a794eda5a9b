/*
 * Output of a kernel's threads and children while no cell runs: it belongs to no cell. Its last
 * part is kept and told with the next answer, in a field of its own.
 */
#ifndef API_UNHEARD_H
#define API_UNHEARD_H

#include "api/writer.h"

#include <stdint.h>

#define UNHEARD_LIMIT ((size_t)8 * 1024)

struct unheard {
	uint64_t total;  /* bytes */
	struct buf last; /* owned: the last of them */
};

void unheard_init(struct unheard *unheard);
void unheard_deinit(struct unheard *unheard);
void unheard_feed(struct unheard *unheard, const char *bytes, size_t size);
/* "between_cells": {stream: {"text", "total"}}, where there is any; then it is forgotten. */
void unheard_tell(struct unheard streams[2], struct writer *writer);

#endif
