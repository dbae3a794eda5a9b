/*
 * A Dockerfile, as far as it can be told as inputs of the builder (templates/over_api.py): what it
 * starts from, Debian's packages, wheels, files of the context, environment, labels. Nothing of it
 * is ever given to a shell. Whatever cannot be told so is refused, with its line named.
 */
#ifndef API_DOCKERFILE_H
#define API_DOCKERFILE_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

#define DOCKERFILE_LIMIT ((size_t)64 << 10) /* bytes */

struct context_file {
	const char *path; /* relative, without dot segments; see dockerfile_path_is_plain */
	const char *bytes;
	size_t size;
};

struct context {
	const struct context_file *files;
	size_t count;
};

/* A new object {"base", "from", "debian": [], "wheels": [], "copy": [{"file": index, "to": path}],
 * "env": {}, "labels": {}} that the caller owns; NULL and err. */
json_t *dockerfile_read(
	const char *text, size_t size, const struct context *context, struct error *err);

/* "a/b": no empty, "." or ".." segment, no control characters, at most 255 bytes. */
bool dockerfile_path_is_plain(const char *path);

#endif
