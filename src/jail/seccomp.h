/* The system call filter of user code; what it allows is written in seccomp_policy.c. */
#ifndef JAIL_SECCOMP_H
#define JAIL_SECCOMP_H

#include "base/error.h"

/* Needs no_new_privs. Holds for this thread and all it starts, for ever. */
bool seccomp_apply(struct error *err);

#endif
