/*
 * The life of pid 1 once the walls are up: it takes requests about commands and files, has each one
 * served by a process of its own, and reaps whatever ends in the sandbox.
 */
#ifndef INIT_SERVE_H
#define INIT_SERVE_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

#define SERVE_CGROUPS 4

struct serve_config {
	int control_fd; /* SEQPACKET: `struct inside_request` and descriptors; becomes non-blocking
			 */
	int cgroup_fds[SERVE_CGROUPS]; /* entries of the work cgroup, opened by init's own uid
					*/
	unsigned cgroup_count;
	uid_t user_uid;
	gid_t user_gid;
	/* Called in a command's process, with init's uid and capabilities: enters the user's
	 * credentials and all that walls user code in. It must need no descriptor: all but the
	 * command's own are closed by then. */
	bool (*lock_down)(struct error *err);
	uint32_t stall_ms; /* a file call without progress ends after this; 0: FILES_STALL_MS */
};

/* Serves for ever; returns false only when it cannot go on. The configuration must outlive it.
 * Call with capabilities SETUID, SETGID, KILL, with 0, 1 and 2 on /dev/null, and no threads. */
bool serve(const struct serve_config *config, struct error *err);

#endif
