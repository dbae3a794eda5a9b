/* How often the api was started on this database: what one start numbers is told from what the next
 * does. */
#ifndef STORE_STARTS_H
#define STORE_STARTS_H

#include "store/store.h"

/* Counts one more, and tells which it is; the first is 1. */
bool starts_count(struct store *store, uint64_t *ret_start, struct error *err);

#endif
