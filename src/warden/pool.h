/*
 * The pool: of each template some sandboxes that stand ready, with kernels that do (standby.h), for
 * claims to come. It is filled in the background, one step at a time, and shrinks before a claim is
 * refused. The api knows nothing of it.
 */
#ifndef WARDEN_POOL_H
#define WARDEN_POOL_H

#include "warden/sandbox.h"

/* Something has begun or ended: looks, when it has been quiet for a moment, what is missing. */
void pool_wake(struct warden *warden);
/* A template has become one of which sandboxes can stand ready. */
void pool_on_warm(struct warden *warden);
/* One of that template for a claim, or NULL; it stays in the pool until pool_take. */
struct sandbox *pool_find(struct template *template);
void pool_take(struct sandbox *sandbox);
/* Ends what is over the bounds now. */
void pool_trim(struct warden *warden);
/* Ends all of it, or all of one template. */
void pool_empty(struct warden *warden, struct template *template);
/* The sandbox is ending, unasked where its end says so. Idempotent; any sandbox. */
void pool_on_end(struct sandbox *sandbox);
/* A kernel for it could not be made. Any sandbox. */
void pool_on_kernel_failed(struct sandbox *sandbox);

#endif
