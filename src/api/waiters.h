/* Calls that wait for the same thing and are answered together. One whose client goes away leaves,
 * and nothing else changes by that. */
#ifndef API_WAITERS_H
#define API_WAITERS_H

#include "api/call.h"
#include "base/list.h"

/* The memory is the request's. False: there is none, and the call does not wait. */
bool waiters_add(struct list *waiters, struct call *call, struct error *err);
/* The first one, which waits no more and is the caller's to answer. NULL: none is left. */
struct call *waiters_take(struct list *waiters);

#endif
