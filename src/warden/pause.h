/*
 * Pausing a sandbox: its kernels and commands stand still, and so do the clocks of its kernels.
 * Init and the sandbox's end are not affected: what ends a paused sandbox thaws it.
 *
 *   RUNNING --PAUSE--> FREEZING --all stand still--> FROZEN --RESUME, end--> RUNNING
 */
#ifndef WARDEN_PAUSE_H
#define WARDEN_PAUSE_H

#include "warden/sandbox.h"

/* Answers PAUSED or FAILED, at once or later. */
bool pause_begin(struct sandbox *sandbox, uint32_t serial, struct error *err);
/* Answers RESUMED; with false nothing has changed. */
bool pause_resume(struct sandbox *sandbox, uint32_t serial, struct error *err);
/* The sandbox ends, or its pausing is given up: thaws, and clocks go on. Idempotent. */
void pause_give_up(struct sandbox *sandbox);

#endif
