/* What an owner may have at once and make in a second, and what it has. */
#ifndef API_OWNERS_H
#define API_OWNERS_H

#include "api/call.h"

struct owner_use {
	int64_t sandboxes, memory_mb; /* the sum of limits, of those that are not ending */
};

struct owner_use owners_use(const struct api *api, const char *owner);
/* May the caller make one more sandbox with that much memory? Counts it towards those of this
 * second. False, err (429) and the call's retry_after_s. */
bool owners_admit(struct call *call, int64_t memory_mb, struct error *err);
void owners_deinit(struct api *api);

#endif
