/* Claims of the api: a sandbox for each, from the pool or a new one. */
#ifndef WARDEN_CLAIM_H
#define WARDEN_CLAIM_H

#include "warden/sandbox.h"

/* CLAIMED goes to the api at once or later, or FAILED later; with false nothing was made. */
bool claim_begin(struct warden *warden, const struct warden_claim *claim, struct error *err);

#endif
