/* See query.h. */
#include "api/query.h"

#include <inttypes.h>
#include <string.h>

bool query_parse_number(const char *text, size_t size, uint64_t most, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (size_t i = 0; i < size; i++) {
		uint64_t digit = (uint64_t)(text[i] - '0');
		if (text[i] < '0' || text[i] > '9' || value > (most - MIN(digit, most)) / 10)
			return false;
		value = value * 10 + digit;
	}
	*ret_value = value;
	return size > 0 && value <= most;
}

bool query_number(const struct call *call, const char *name, uint64_t most, uint64_t *value,
	struct error *err)
{
	size_t size;
	const char *text = http_request_query(call->request, name, &size);
	if (!text || query_parse_number(text, size, most, value))
		return true;
	return error_set(
		err, ERROR_INVALID, "'%s' must be a whole number from 0 to %" PRIu64, name, most);
}

static bool is_word(const char *text, size_t size, const char *word)
{
	return strlen(word) == size && memcmp(text, word, size) == 0;
}

bool query_bool(const struct call *call, const char *name, bool *value, struct error *err)
{
	size_t size;
	const char *text = http_request_query(call->request, name, &size);
	if (!text)
		return true;
	*value = is_word(text, size, "true") || is_word(text, size, "1");
	if (*value || is_word(text, size, "false") || is_word(text, size, "0"))
		return true;
	return error_set(err, ERROR_INVALID, "'%s' must be true or false", name);
}
