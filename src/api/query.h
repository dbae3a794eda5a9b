/* Strict reading of query parameters: absent leaves the value as it was, anything odd is a 400 that
 * names the parameter. */
#ifndef API_QUERY_H
#define API_QUERY_H

#include "api/call.h"

bool query_number(const struct call *call, const char *name, uint64_t most, uint64_t *value,
	struct error *err);
/* "true", "1", "false", "0". */
bool query_bool(const struct call *call, const char *name, bool *value, struct error *err);
/* Decimal digits and nothing else, up to `most`. */
bool query_parse_number(const char *text, size_t size, uint64_t most, uint64_t *ret_value);

#endif
