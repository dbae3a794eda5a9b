/* See command.h: what a command is asked for with. */
#include "api/command.h"
#include "api/fields.h"

#include <string.h>

#define TEXT_LIMIT ((size_t)1 << 20)

bool command_read(json_t *order, uint32_t *limit_ms, const char **ret_text, size_t *ret_size,
	struct error *err)
{
	int64_t limit = *limit_ms;
	*ret_text = NULL;
	if (!fields_text(order, "cmd", ret_text, ret_size, err))
		return false;
	if (!*ret_text || *ret_size == 0)
		return error_set(err, ERROR_INVALID, "'cmd' is empty");
	if (*ret_size > TEXT_LIMIT)
		return error_set(err, ERROR_TOO_LARGE, "'cmd' is larger than 1 MiB");
	if (memchr(*ret_text, '\0', *ret_size))
		return error_set(err, ERROR_INVALID, "'cmd' must not hold a NUL");
	if (!fields_scaled(order, "timeout_seconds", COMMAND_LIMIT_S, 1000, &limit, err))
		return false;
	*limit_ms = (uint32_t)limit;
	return true;
}

bool command_read_body(struct call *call, uint32_t *limit_ms, json_t **ret_body,
	const char **ret_text, size_t *ret_size, struct error *err)
{
	static const char *const known[] = { "cmd", "timeout_seconds", NULL };
	size_t size;
	const char *text = http_request_body(call->request, &size);
	*ret_body = fields_parse(text, size, known, err);
	return *ret_body && command_read(*ret_body, limit_ms, ret_text, ret_size, err);
}
