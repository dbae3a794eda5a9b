/* A terminal of the sandbox's own: its two ends, and who sits at it. */
#ifndef INIT_TERMINAL_H
#define INIT_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Opens a new one that belongs to the user; the caller needs CAP_SETUID and CAP_SETGID, and keeps
 * its own ids. Both ends are CLOEXEC; the master does not block. False and errno: ENOSPC where
 * there are as many as there may be. */
bool terminal_open(
	uid_t uid, gid_t gid, uint16_t rows, uint16_t columns, int *ret_master, int *ret_slave);
/* In a fresh session: makes it the session's own, and 0, 1 and 2. */
bool terminal_take(int slave);

#endif
