/* See request.h. Nothing here trusts a byte of the packet; whatever is odd makes it no request. */
#include "init/request.h"

#include "base/macros.h"

struct shape {
	unsigned fd_count;
	enum request_kind kind;
};

static const struct shape shapes[] = {
	[INSIDE_COMMAND] = { 4, REQUEST_COMMAND },
	[INSIDE_READ] = { 1, REQUEST_FILES },
	[INSIDE_WRITE] = { 1, REQUEST_FILES },
	[INSIDE_LIST] = { 1, REQUEST_FILES },
	[INSIDE_STAT] = { 1, REQUEST_FILES },
	[INSIDE_DELETE] = { 1, REQUEST_FILES },
	[INSIDE_SWEEP] = { 0, REQUEST_SWEEP },
	[INSIDE_TERMINAL] = { 1, REQUEST_COMMAND },
	[INSIDE_CONNECT] = { 1, REQUEST_CONNECT },
	[INSIDE_PORTS] = { 1, REQUEST_FILES },
	[INSIDE_FED_COMMAND] = { 5, REQUEST_COMMAND },
};

const struct inside_request *request_check(
	const void *bytes, size_t size, unsigned fd_count, enum request_kind *ret_kind)
{
	const struct inside_request *request = bytes;
	if (size != sizeof(*request) || request->version != INSIDE_VERSION)
		return NULL;
	if (request->op < INSIDE_COMMAND || request->op >= ARRAY_SIZE(shapes))
		return NULL;
	if (fd_count != shapes[request->op].fd_count)
		return NULL;
	*ret_kind = shapes[request->op].kind;
	return request;
}
