/* Pictures of a run, saved as files. */
#ifndef CLI_FIGURES_H
#define CLI_FIGURES_H

#include "base/error.h"

#include <jansson.h>

struct figures {
	const char *folder; /* not owned */
	unsigned last;      /* number of the last one saved */
	unsigned saved;
};

/* Saves each picture of a result (a MIME bundle) as figure-N.EXT, where N is free for every kind of
 * picture, and says on stderr where. *ret_count: how many there were. False when one cannot be
 * decoded or saved. */
bool figures_save(
	struct figures *figures, const json_t *result, unsigned *ret_count, struct error *err);

/* Base64 with or without line ends; fresh memory, NULL when it is none. For tests, too. */
unsigned char *figures_decode(const char *text, size_t *ret_size);

#endif
