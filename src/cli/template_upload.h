/* Sends a Dockerfile and its context to a daemon, as a form. */
#ifndef CLI_TEMPLATE_UPLOAD_H
#define CLI_TEMPLATE_UPLOAD_H

#include "cli/daemon.h"

struct template_upload {
	const char *name, *dockerfile; /* a path */
	const char *context;           /* a folder; NULL: no files */
	const char *size_mb;           /* NULL: the daemon's default */
};

/* The build that the daemon has taken, owned by the caller; NULL and err. */
json_t *template_upload(
	struct daemon *daemon, const struct template_upload *upload, struct error *err);

#endif
