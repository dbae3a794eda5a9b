/*
 * Standbys: kernels of a sandbox that nobody has asked for yet, one a language at most. They are
 * made while the sandbox is in the pool. The first context of their language takes them; at the
 * first context, of whatever language, the others are ended, and all are when none comes for a
 * while.
 */
#ifndef WARDEN_STANDBY_H
#define WARDEN_STANDBY_H

#include "warden/sandbox.h"

/* Makes one that the pool should have and that is not there; false when none is missing. */
bool standby_make_missing(struct sandbox *sandbox);
bool standby_is_starting(const struct sandbox *sandbox);
/* All that the pool should have are ready. */
bool standby_is_complete(const struct sandbox *sandbox);
/* The sandbox has got its claim's limits: those that do not fit them are ended. */
void standby_on_claim(struct sandbox *sandbox);
/* The one of that language if it can be used, or NULL. */
struct kernel *standby_find(struct sandbox *sandbox, enum language language);
/* Gives it a slot; KERNEL_STARTED goes out when it is ready, which can be now. */
void standby_give(struct kernel *kernel, const struct kernel_plan *plan);
void standby_end_all(struct sandbox *sandbox);

#endif
