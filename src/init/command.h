/* One command: `/bin/sh -c`, or a login shell on a terminal, as the user; watched until its own
 * process ends, its time is over, or nobody waits for the answer any more. */
#ifndef INIT_COMMAND_H
#define INIT_COMMAND_H

#include "init/serve.h"
#include "wire/inside.h"

#define COMMAND_TEXT_LIMIT (1024 * 1024) /* bytes; a longer text is refused with E2BIG */
#define COMMAND_GRACE_MS 200             /* from SIGTERM to the end of all, at the limit */

/* In a process of its own (it becomes a subreaper): runs the request and answers it. `fds` are
 * those of INSIDE_COMMAND, INSIDE_FED_COMMAND or INSIDE_TERMINAL, and all other descriptors but the cgroups' are
 * closed. */
void command_serve(
	const struct serve_config *config, const struct inside_request *request, const int *fds);

#endif
