/* Trees and sessions of processes: found in /proc, stopped, then killed. */
#ifndef INIT_TREE_H
#define INIT_TREE_H

#include <sys/types.h>

/* Stops and then kills the caller's descendants that exist now. The caller must be a child
 * subreaper; it reaps, and calls again until it has no child left: only then is nothing left. */
void tree_kill_descendants(void);

/* Kills the user's processes of a session until none is found, for a second at most. Processes of
 * the caller's own uid are spared. */
void tree_kill_session(pid_t session);
/* The same without waiting, in one go. */
void tree_kill_session_once(pid_t session);

#endif
