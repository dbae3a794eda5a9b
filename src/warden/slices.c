/* See slices.h. */
#include "warden/slices.h"

#include "base/macros.h"

#include <stdlib.h>

#define SHARE 64 /* of all: beyond it a holder takes its own again before it takes more */

struct slice {
	uint16_t holder; /* 0: nobody's */
	bool is_taken;
};

bool slices_init(struct slices *slices, uint32_t count)
{
	*slices = (struct slices){ .count = count, .all = calloc(count + 1, sizeof(struct slice)) };
	return slices->all;
}

/* The first after `last` of that holder that is free; 0: none. */
static uint32_t find(const struct slices *slices, uint32_t last, uint32_t holder)
{
	for (uint32_t i = 0; i < slices->count; i++) {
		uint32_t number = 1 + (last + i) % slices->count;
		if (slices->all[number].holder == holder && !slices->all[number].is_taken)
			return number;
	}
	return 0;
}

static uint32_t take_new(struct slices *slices, uint32_t holder)
{
	uint32_t number = find(slices, slices->next, 0);
	if (number == 0)
		return 0;
	slices->next = number;
	slices->all[number] = (struct slice){ (uint16_t)(holder ? holder : number), true };
	return number;
}

static bool none_left(const struct slices *slices, struct error *err)
{
	return error_set(err, ERROR_HOST_FULL, "all %u ranges of ids are taken", slices->count);
}

bool slice_hold(struct slices *slices, struct slice_holder *holder, struct error *err)
{
	uint32_t number = take_new(slices, 0);
	*holder = (struct slice_holder){ .own = number, .last = number };
	return number || none_left(slices, err);
}

bool slice_take(
	struct slices *slices, struct slice_holder *holder, uint32_t *ret_slice, struct error *err)
{
	bool has_share = holder->held >= MAX(slices->count / SHARE, 2u);
	bool has_free = holder->held > holder->taken;
	uint32_t number = has_share && has_free ? 0 : take_new(slices, holder->own);
	holder->held += number != 0;
	if (number == 0 && has_free)
		number = find(slices, holder->last, holder->own);
	if (number == 0)
		return none_left(slices, err);
	slices->all[number].is_taken = true;
	holder->taken++;
	holder->last = *ret_slice = number;
	return true;
}

void slice_give(struct slices *slices, struct slice_holder *holder, uint32_t slice)
{
	slices->all[slice].is_taken = false;
	holder->taken--;
}

void slices_let_go(struct slices *slices, struct slice_holder *holder)
{
	for (uint32_t i = 1; i <= slices->count; i++)
		if (slices->all[i].holder == holder->own)
			slices->all[i] = (struct slice){ 0 };
}
