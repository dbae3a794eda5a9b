/*
 * See lockdown.h. Why all by hand: a zygote's child never calls execve, so the kernel never
 * recomputes its privileges; and setresuid() drops no capabilities when the creator's uid was not
 * mapped in the new user namespace.
 */
#include "jail/lockdown.h"

#include "base/fd.h"
#include "jail/ids.h"
#include "jail/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define LAST_CAPABILITY 63
#define WORKSPACE "/workspace"
#define OOM_SCORE "500" /* of 1000; init has 0 */

bool lockdown_bounding_set(uint64_t keep, struct error *err)
{
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int i = 0; i <= LAST_CAPABILITY; i++) {
		int is_there = prctl(PR_CAPBSET_READ, i, 0, 0, 0);
		if (is_there < 0)
			break; /* beyond the kernel's last */
		if (is_there && !(keep & LOCKDOWN_CAP(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
			return error_from_os(err, errno, "cannot drop capability %d for good", i);
	}
	return true;
}

bool lockdown_capabilities(uint64_t permitted, uint64_t effective, struct error *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = {
		{ .permitted = (uint32_t)permitted, .effective = (uint32_t)effective },
		{ .permitted = (uint32_t)(permitted >> 32),
			.effective = (uint32_t)(effective >> 32) },
	};
	struct __user_cap_data_struct seen[2];
	if (syscall(SYS_capset, &header, sets) < 0)
		return error_from_os(err, errno, "cannot set capabilities");
	if (syscall(SYS_capget, &header, seen) < 0 || memcmp(seen, sets, sizeof(sets)) != 0)
		return error_set(err, ERROR_INTERNAL, "capabilities did not become what was asked");
	return true;
}

bool lockdown_ids(uid_t uid, gid_t gid, bool keep_capabilities, struct error *err)
{
	if (keep_capabilities && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return error_from_os(err, errno, "cannot keep capabilities");
	if (setgroups(0, NULL) < 0)
		return error_from_os(err, errno, "cannot leave the groups");
	if (syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
		return error_from_os(err, errno, "cannot become user %u", uid);
	uid_t r, e, s;
	gid_t gr, ge, gs;
	if (getresuid(&r, &e, &s) < 0 || getresgid(&gr, &ge, &gs) < 0 || r != uid || e != uid ||
		s != uid || gr != gid || ge != gid || gs != gid || getgroups(0, NULL) != 0)
		return error_set(err, ERROR_INTERNAL, "the user ids did not become what was asked");
	if (keep_capabilities)
		prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
	return true;
}

/* Counts of a user namespace add up to its creator's, so message queues and pending signals are
 * small: one sandbox must not use up what all share. Memory is the cgroup's matter. */
static const struct {
	int resource;
	rlim_t limit;
	const char *name;
} limits[] = {
	{ RLIMIT_CORE, 0, "core" },
	{ RLIMIT_NOFILE, 4096, "nofile" },
	{ RLIMIT_FSIZE, 64ULL << 30, "fsize" },
	{ RLIMIT_MEMLOCK, 8 << 20, "memlock" },
	{ RLIMIT_MSGQUEUE, 64 << 10, "msgqueue" },
	{ RLIMIT_SIGPENDING, 256, "sigpending" },
	{ RLIMIT_STACK, 8 << 20, "stack" },
	{ RLIMIT_NPROC, 4096, "nproc" },
	{ RLIMIT_RTPRIO, 0, "rtprio" },
	{ RLIMIT_RTTIME, 0, "rttime" },
	{ RLIMIT_NICE, 0, "nice" },
};

bool lockdown_limits(struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit old, wanted = { limits[i].limit, limits[i].limit };
		if (getrlimit((__rlimit_resource_t)limits[i].resource, &old) == 0 &&
			old.rlim_max < wanted.rlim_max) /* the host's own hard limit is lower */
			wanted.rlim_cur = wanted.rlim_max = old.rlim_max;
		if (setrlimit((__rlimit_resource_t)limits[i].resource, &wanted) < 0)
			return error_from_os(err, errno, "cannot limit %s", limits[i].name);
	}
	return true;
}

bool lockdown_no_new_privileges(struct error *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return error_from_os(err, errno, "cannot give up new privileges");
	return true;
}

bool lockdown_not_dumpable(struct error *err)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return error_from_os(err, errno, "cannot become undumpable");
	return true;
}

/* The uid change made the process undumpable, and its files in /proc root's. */
bool lockdown_dumpable(struct error *err)
{
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return error_from_os(err, errno, "cannot become dumpable");
	return true;
}

bool lockdown_oom_score(struct error *err)
{
	return fd_write_kernel_file(AT_FDCWD, "/proc/self/oom_score_adj", OOM_SCORE, err);
}

void lockdown_signals(void)
{
	static const struct itimerval none;
	/* By the system's own call: the C library does not let its two signals (32, 33) be reset,
	 * and whoever started the daemon may have left them ignored. */
	static const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} by_default;
	for (int i = 1; i <= 64; i++)
		syscall(SYS_rt_sigaction, i, &by_default, NULL, sizeof(uint64_t));
	sigset_t nothing;
	sigemptyset(&nothing);
	sigprocmask(SIG_SETMASK, &nothing, NULL);
	setitimer(ITIMER_REAL, &none, NULL);
	setitimer(ITIMER_VIRTUAL, &none, NULL);
	setitimer(ITIMER_PROF, &none, NULL);
}

static const struct landlock_rule user_rules[] = {
	{ "/", LANDLOCK_READ | LANDLOCK_EXECUTE | LANDLOCK_WRITE },
	{ "/dev", LANDLOCK_DEVICES },
};

bool lockdown_user(unsigned degraded, struct error *err)
{
	umask(022);
	if (!lockdown_limits(err))
		return false;
	if (prctl(PR_CAPBSET_READ, CAP_SETPCAP, 0, 0, 0) == 1 && !lockdown_bounding_set(0, err))
		return false;
	if (!lockdown_ids(IDS_USER, IDS_USER, false, err) || !lockdown_capabilities(0, 0, err))
		return false;
	return lockdown_no_new_privileges(err) &&
	       (degraded & LOCKDOWN_WITHOUT_LANDLOCK ||
		       landlock_apply(user_rules, ARRAY_SIZE(user_rules), err));
}

bool lockdown_enter_workspace(struct error *err)
{
	if (chdir(WORKSPACE) == 0)
		return true;
	if (errno == ENOENT && (mkdir(WORKSPACE, 0755) == 0 || errno == EEXIST) &&
		chdir(WORKSPACE) == 0)
		return true;
	return chdir("/") == 0 || error_from_os(err, errno, "cannot enter '/'");
}
