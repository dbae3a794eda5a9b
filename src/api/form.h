/*
 * The fields of an HTML form, as bodies carry them: application/x-www-form-urlencoded, or
 * multipart/form-data with files. The whole body is there; values of a multipart form point into
 * it.
 */
#ifndef API_FORM_H
#define API_FORM_H

#include "base/error.h"

#include <stddef.h>

#define FORM_FIELDS 2048u

struct form_field {
	char *name;        /* owned; never empty */
	bool is_file;      /* it came with a file name */
	const char *bytes; /* not owned */
	size_t size;
};

struct form {
	struct form_field *fields; /* owned */
	size_t count;
	char *decoded; /* owned: values of a form that was encoded; NULL */
};

/* `type` is the Content-Type, `body` outlives the form. False and err (400, 415). */
bool form_parse(
	struct form *form, const char *type, const char *body, size_t size, struct error *err);
void form_deinit(struct form *form);

#endif
