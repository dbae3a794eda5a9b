/*
 * See child.h. The kernel keeps a uid for files apart from the others (fsuid); permission to signal
 * or trace a process looks at the others only. Read back what was set: setfsuid() reports no error.
 */
#include "init/child.h"

#include "jail/lockdown.h"

#include <errno.h>
#include <limits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lowest kept descriptor from `from` up, or UINT_MAX. */
static unsigned next_kept(const int *fds, unsigned count, unsigned from)
{
	unsigned next = UINT_MAX;
	for (unsigned i = 0; i < count; i++)
		if (fds[i] >= 0 && (unsigned)fds[i] >= from && (unsigned)fds[i] < next)
			next = (unsigned)fds[i];
	return next;
}

bool child_keep_only(const int *fds, unsigned count)
{
	unsigned from = 3;
	for (;;) {
		unsigned next = next_kept(fds, count, from);
		if (next > from && close_range(from, next == UINT_MAX ? next : next - 1, 0) < 0)
			return false;
		if (next == UINT_MAX)
			return true;
		from = next + 1;
	}
}

bool child_limit_capabilities(uint32_t mask)
{
	struct error err = { 0 };
	if (lockdown_capabilities(mask, mask, &err))
		return true;
	errno = err.os_error ? err.os_error : EPERM;
	return false;
}

bool child_act_as_user(uid_t uid, gid_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
	if (!child_limit_capabilities(0))
		return false;
	errno = EPERM;
	if ((uid_t)setfsuid((uid_t)-1) != uid || (gid_t)setfsgid((gid_t)-1) != gid)
		return false;
	umask(022);
	/* A change of fsuid set it to fs.suid_dumpable, which an operator may have set to 1. */
	return prctl(PR_SET_DUMPABLE, 0) == 0;
}
