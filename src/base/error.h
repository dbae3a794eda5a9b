/*
 * What went wrong: one value of fixed size, filled where it is noticed, read by the API. Failing
 * needs no memory, and an error that is ignored leaks none.
 *
 * A function that can fail returns bool or a pointer and takes `struct error *` last. The setters
 * return false, so that a failing path is one line. They may be given NULL.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/error_table.h"
#include "base/macros.h"

#include <stdbool.h>

struct error {
	enum error_code code; /* the API's word for it; ERROR_NONE while all is well */
	int os_error;         /* the errno behind it, or 0: for the log, never for the client */
	char message[256];    /* what failed: "cannot limit the memory of sandbox 'a1'" */
	char hint[192];       /* what the reader can do about it; may be empty */
};

bool error_set(struct error *err, enum error_code code, const char *format, ...) PRINTF_LIKE(3, 4);
/* Code INTERNAL; the system's own words are put behind the message. */
bool error_from_os(struct error *err, int os_error, const char *format, ...) PRINTF_LIKE(3, 4);
/* Adds a hint to the error just set. */
bool error_hint(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);
/* Puts words ahead of the message: "words: message". */
bool error_context(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);
/* Out of memory; returns NULL for use in constructors. */
void *error_no_memory(struct error *err);

const char *error_word(enum error_code code); /* "sandbox.not_found" */
unsigned error_status(enum error_code code);  /* 404 */

#endif
