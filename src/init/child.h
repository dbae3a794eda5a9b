/* What init's children do first: give up the descriptors and powers they do not need. */
#ifndef INIT_CHILD_H
#define INIT_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_KEEP 16 /* descriptors that can be kept, at most */

/* Closes all descriptors from 3 up but these. False and errno. */
bool child_keep_only(const int *fds, unsigned count);

/* Leaves the capabilities of the mask (of the lowest 32) and no others. False and errno. */
bool child_limit_capabilities(uint32_t mask);

/* Acts on files as the user from here on, without any capability and for good. The process keeps
 * init's uid, so user code can neither signal nor trace it. False and errno. */
bool child_act_as_user(uid_t uid, gid_t gid);

#endif
