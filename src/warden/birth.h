/* How an init comes to be: its box, its namespaces, its ids, its program. */
#ifndef WARDEN_BIRTH_H
#define WARDEN_BIRTH_H

#include "warden/sandbox.h"

/* Makes the box and starts init, which says more on control_fd later. On failure there may be a
 * process all the same (init_pid): then it has to be ended; else nothing is left. */
bool birth_give(struct sandbox *sandbox, struct error *err);

#endif
