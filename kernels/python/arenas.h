/* Puts Python's small objects side by side, so that they fit into large pages. */
#ifndef KERNELS_ARENAS_H
#define KERNELS_ARENAS_H

#include <stdbool.h>

/* From now on Python's arenas lie in one reserved range; what exists stays where it is. False where
 * that cannot be done; then Python goes on as ever. To be called once, while there is one thread. */
bool arenas_gather(void);

#endif
