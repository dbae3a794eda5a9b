/*
 * What a cell has shown: displays, the last value, an error, its exit code. Made from the kernel's
 * frames, whose JSON is hostile; kept as JSON text that is ready to be sent.
 */
#ifndef API_VALUES_H
#define API_VALUES_H

#include "api/frames.h"
#include "api/writer.h"

#include <stdint.h>

#define VALUES_LIMIT 10000                              /* results a cell, at most */
#define VALUES_BYTES (2 * (uint64_t)FRAME_VALUES_LIMIT) /* of their texts together */

struct bundle {
	char *json; /* owned: {"mime": "text", ...} */
	char *id;   /* owned: its display id; NULL mostly */
};

struct values {
	struct bundle *bundles; /* owned array */
	size_t count, capacity;
	uint64_t kept;                                /* bytes of all bundles */
	uint64_t lost;                                /* results that could not be kept or read */
	bool clears_at_next;                          /* CLEAR with wait */
	char *error_name, *error_message, *traceback; /* owned; NULL without an error */
	bool is_done;
	int exit;
	char *restarted; /* owned; why the runner has replaced the interpreter it drives, or NULL */
};

void values_init(struct values *values);
void values_deinit(struct values *values);
/* False where the value cannot be read (it is counted as lost). */
bool values_take(struct values *values, const struct frames_value *value);
/* "results": [bundles]; values of a bundle are strings, and none is called "type". */
void values_write_results(const struct values *values, struct writer *writer);

#endif
