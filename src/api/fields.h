/*
 * Strict reading of JSON bodies: duplicate keys, unknown fields, lone surrogates, values of another
 * kind and numbers out of bounds are refused, with the field or the place named.
 */
#ifndef API_FIELDS_H
#define API_FIELDS_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

#define BODY_LIMIT ((size_t)16 << 20) /* bytes of a collected body */

/* An empty body is an empty object. `known` is a NULL-terminated list of the fields there are.
 * Returns an object that the caller owns; NULL and err. */
json_t *fields_parse(const char *body, size_t size, const char *const *known, struct error *err);
/* The same of a WebSocket's message; an empty one is none. fields_check() is still to be asked: who
 * answers has to find out first what the message is about. */
json_t *fields_parse_message(const char *text, size_t size, struct error *err);
/* Of who takes no field: a body may be empty, or `{}`. */
bool fields_none(const char *body, size_t size, struct error *err);
/* Refuses what `known` does not name; `inside` is the object's own field name, NULL for the body.
 */
bool fields_check(json_t *object, const char *const *known, const char *inside, struct error *err);

/* Each returns true and leaves *value as it was where the field is absent. */
bool fields_text(
	json_t *object, const char *name, const char **value, size_t *size, struct error *err);
bool fields_bool(json_t *object, const char *name, bool *value, struct error *err);
/* A whole number; one written as 2.0 counts too. */
bool fields_int(json_t *object, const char *name, int64_t least, int64_t most, int64_t *value,
	struct error *err);
/* Any number in (0, most], times `scale`, rounded up. */
bool fields_scaled(json_t *object, const char *name, double most, double scale, int64_t *value,
	struct error *err);

#define cleanup_json __attribute__((cleanup(fields_release)))
static inline void fields_release(json_t **json)
{
	json_decref(*json);
}

#endif
