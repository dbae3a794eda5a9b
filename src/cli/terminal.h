/* A terminal in a sandbox, shown in ours. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "cli/daemon.h"

/* Until what runs there ends: *ret_status is its exit code, or 128 + N when signal N ended this
 * side. `command` is a text for the shell, NULL: a login shell. The daemon's signals must be held.
 * Our terminal is as it was when this returns, whatever it returns. */
bool terminal_run(struct daemon *daemon, const char *id, const char *command, int *ret_status,
	struct error *err);

#endif
