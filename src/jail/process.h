/* Processes in namespaces: starting one, giving it its ids. */
#ifndef JAIL_PROCESS_H
#define JAIL_PROCESS_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* clone3 as fork, with namespace flags; 0 in the child, -1 and err on failure. ret_pidfd may be
 * NULL. The child must soon exec or _exit. */
pid_t process_clone(uint64_t flags, int *ret_pidfd, struct error *err);

/* Writes both id maps of a process: lines of "inside outside count". */
bool process_write_maps(pid_t pid, const char *map, struct error *err);

/* Closes all descriptors but those of `keep` (any order, at most 16), which become 3, 4, 5 ... in
 * their order, without CLOEXEC; 0, 1 stay, 2 stays. In a child before exec. */
bool process_keep_descriptors(const int *keep, unsigned count, struct error *err);

/* For a process of one thread with capabilities that it keeps whatever its uid is: from now on what it makes
 * and opens is that user's. process_act_as(0) is the way back. Dies with its parent, before and after;
 * in between that signal does not come. */
bool process_keep_power(struct error *err);
void process_act_as(uid_t uid);

/* Points 0 and 1 (and 2 if asked) at /dev/null. */
bool process_close_standard(bool is_stderr_too, struct error *err);

/* execveat by descriptor with an empty environment; returns only on failure. */
bool process_exec(int program_fd, char *const arguments[], struct error *err);

#endif
