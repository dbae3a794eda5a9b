/* What `sandglass doctor` looks at. Each check adds one line or more to the report. */
#ifndef CLI_CHECKS_H
#define CLI_CHECKS_H

#include "base/macros.h"

#include <stddef.h>

enum check_state {
	CHECK_OK,
	CHECK_WARNING, /* the daemon runs, but something is weaker or will be missed */
	CHECK_MISSING, /* the daemon does not start, or sandboxes do not */
	CHECK_UNKNOWN, /* cannot be seen by this user, or not yet */
};

struct check {
	const char *name;
	enum check_state state;
	char detail[256];
	char mend[256]; /* a command, or what to do; empty when all is well */
};

struct report {
	struct check checks[64];
	size_t count;
};

/* `mend` may be NULL. */
void report_add(struct report *report, const char *name, enum check_state state, const char *mend,
	const char *format, ...) PRINTF_LIKE(5, 6);

/* Tries what the kernel lets this user do, in child processes that leave nothing behind. */
void checks_kernel(struct report *report);
/* Files, limits and programs of the host. */
void checks_host(struct report *report);

#endif
