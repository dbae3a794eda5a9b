/*
 * What POST /v1/templates/build asks for: the form is read, and becomes what the builder gets on
 * its standard input: one line of JSON, and behind it the files of the context, one after the
 * other.
 */
#ifndef API_BUILD_REQUEST_H
#define API_BUILD_REQUEST_H

#include "api/config.h"
#include "api/form.h"

#define BUILD_SIZE_MB 1024 /* of the image, at most, where nothing is said */
#define BUILD_SIZE_MB_LIMIT 16384

struct build_request {
	char name[TEMPLATE_NAME_SIZE];
	char base[TEMPLATE_NAME_SIZE];
	int64_t size_mb;
	int fd; /* owned: the sealed memfd */
};

/* False and err: what is wrong, for the client. */
bool build_request_read(struct build_request *request, const struct config *config,
	const struct form *form, struct error *err);
void build_request_deinit(struct build_request *request);

#endif
