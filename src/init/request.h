/* What is a request and what is not: the shape of each op, checked before anything is done. */
#ifndef INIT_REQUEST_H
#define INIT_REQUEST_H

#include "wire/inside.h"

#include <stddef.h>

enum request_kind { REQUEST_COMMAND, REQUEST_FILES, REQUEST_SWEEP, REQUEST_CONNECT, REQUEST_KINDS };

/* The request in a packet, or NULL when size, version, op or the number of descriptors are wrong.
 * `bytes` must be aligned for a uint64_t. Its path is not looked at. */
const struct inside_request *request_check(
	const void *bytes, size_t size, unsigned fd_count, enum request_kind *ret_kind);

#endif
