/*
 * Ranges of ids, one a sandbox and one a template. A process of a template's zygote may have joined a
 * sandbox and stay in its user namespace after its end, where nobody outside sees it; there it can
 * take every id of the slice. So a slice that a template has had for a sandbox is no other's while a
 * process of that template's zygotes can live.
 */
#ifndef WARDEN_SLICES_H
#define WARDEN_SLICES_H

#include "base/error.h"

#include <stdint.h>

struct slices {
	uint32_t count, next; /* numbers are 1 to count */
	struct slice *all;    /* owned: count + 1, 0 is never given */
};

/* Who has slices: a template, known by that of its own. */
struct slice_holder {
	uint32_t own;
	uint32_t last;        /* taken */
	unsigned held, taken; /* without its own; of those, by sandboxes that live */
};

bool slices_init(struct slices *slices, uint32_t count);
/* Its own. */
bool slice_hold(struct slices *slices, struct slice_holder *holder, struct error *err);
/* One for a sandbox. Never the one just given back, where there is another: late writes meet nobody. */
bool slice_take(
	struct slices *slices, struct slice_holder *holder, uint32_t *ret_slice, struct error *err);
void slice_give(struct slices *slices, struct slice_holder *holder, uint32_t slice);
/* No process of the holder is left: what it has can be anybody's. */
void slices_let_go(struct slices *slices, struct slice_holder *holder);

#endif
