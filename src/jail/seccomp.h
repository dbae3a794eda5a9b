/* The system call filters of user code and of zygotes; what they allow is written in seccomp_policy.c. */
#ifndef JAIL_SECCOMP_H
#define JAIL_SECCOMP_H

#include "base/error.h"

#include <sched.h>

/* What a zygote's child joins of a sandbox, all at once: the one thing that setns is let do. */
#define SECCOMP_JOINED \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
		CLONE_NEWCGROUP)

/* How many filters a process shows (Seccomp_filters) that has a zygote's alone, and one that has user
 * code's on top. */
#define SECCOMP_PROGRAMS 2

/* Both need no_new_privs, and hold for this thread and all it starts, for ever. */
bool seccomp_apply(struct error *err);
bool seccomp_apply_zygote(struct error *err);

#endif
