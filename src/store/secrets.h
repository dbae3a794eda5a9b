/* Random keys of the daemon's own, each made when it is first asked for. */
#ifndef STORE_SECRETS_H
#define STORE_SECRETS_H

#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

bool secret_row_get(
	struct store *store, const char *name, uint8_t *bytes, size_t size, struct error *err);

#endif
