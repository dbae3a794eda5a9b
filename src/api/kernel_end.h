/* How a kernel ended, in words: for the answer of the cell that ran in it, and for the next. */
#ifndef API_KERNEL_END_H
#define API_KERNEL_END_H

#include "api/cell.h"
#include "wire/requests.h"

#include <stddef.h>

/* `broken`: what it did that it may not, or empty. */
void kernel_end_describe(
	const struct warden_kernel_ended *ended, const char *broken, char *text, size_t size);
enum cell_outcome kernel_end_outcome(
	const struct cell *cell, const struct warden_kernel_ended *ended);
/* Never 0: a dead kernel is no success, whatever it exited with. */
int kernel_end_exit(const struct warden_kernel_ended *ended);

#endif
