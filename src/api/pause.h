/*
 * Pausing a sandbox and letting it go on. From the moment a pause is asked for, no work is taken;
 * cells and commands under way stand still with their clocks, and are answered after the sandbox
 * has gone on.
 */
#ifndef API_PAUSE_H
#define API_PAUSE_H

#include "api/sandbox.h"

/* The sandbox ends: whoever waits for it to pause or go on is told. */
void pause_on_end(struct sandbox *sandbox, const struct error *why);

#endif
