/*
 * The target of a request line ("/a%20b/c?x=1") taken apart. Each piece is decoded exactly once and
 * on its own, so that an encoded slash, ampersand or percent sign is never taken for syntax. Bytes
 * need not be UTF-8. Dot segments are left as they are.
 */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include "base/error.h"
#include "http/arena.h"

#include <stddef.h>

struct target_parameter {
	const char *name, *value; /* NUL-terminated, and may hold NULs */
	size_t name_size, value_size;
};

struct target {
	const char *path;
	const char **segments; /* "/" has none, "/a/" has "a" and "" */
	unsigned segment_count;
	struct target_parameter *parameters; /* as sent, doubles too */
	unsigned parameter_count;
};

/* All memory comes from the arena. ERROR_INVALID: not a path, broken percent-encoding, a control
 * character, a NUL in the path. */
bool target_parse(struct target *target, struct arena *arena, const char *raw, struct error *err);

#endif
