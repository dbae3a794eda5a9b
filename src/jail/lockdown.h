/*
 * Giving up power: what the last steps into a sandbox share. Each function reads back what it did
 * and fails if it does not hold; the caller then must end the process.
 */
#ifndef JAIL_LOCKDOWN_H
#define JAIL_LOCKDOWN_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* Capability sets as bit masks of numbers below 64. */
#define LOCKDOWN_CAP(number) (1ULL << (number))

/* Drops everything not in `keep` from the bounding set and clears the ambient set. Needs
 * CAP_SETPCAP where something is to be dropped. */
bool lockdown_bounding_set(uint64_t keep, struct error *err);
/* Sets permitted and effective to exactly these; inheritable to none; and reads them back. */
bool lockdown_capabilities(uint64_t permitted, uint64_t effective, struct error *err);
/* No supplementary groups, all four user and group ids; capabilities survive if
 * `keep_capabilities`. */
bool lockdown_ids(uid_t uid, gid_t gid, bool keep_capabilities, struct error *err);
/* The fixed limits of user code, hard equal to soft (lockdown.c has the table). */
bool lockdown_limits(struct error *err);
bool lockdown_no_new_privileges(struct error *err);
/* Never traced, no core, /proc entries closed to the same uid. */
bool lockdown_not_dumpable(struct error *err);
/* Undone for user code, which may look at itself; only once nothing of ours is left in its
 * memory. */
bool lockdown_dumpable(struct error *err);
/* User code goes before init when memory runs out. Needs to be dumpable, or to have root's uid. */
bool lockdown_oom_score(struct error *err);
/* Signals as after boot: default handlers, nothing blocked, no timers. */
void lockdown_signals(void);

/* All of the above for user code: uid 1000, no capabilities, no_new_privs, limits, Landlock; not
 * the system call filter, which is last and the caller's. Runs as root of the sandbox (a kernel) or
 * as its init (a command). */
bool lockdown_user(unsigned degraded, struct error *err);

/* Into the folder where user code starts, as the user: made again if somebody has removed it. Where it cannot
 * be entered, into the root. */
bool lockdown_enter_workspace(struct error *err);

/* Layers that an operator may do without, by name in `allow_degraded`. */
#define LOCKDOWN_WITHOUT_LANDLOCK 1u

#endif
