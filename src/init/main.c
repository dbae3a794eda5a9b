/*
 * sandglass-init: pid 1 of a sandbox. It is exec'd by the warden's child as root of the sandbox's
 * user namespace, builds the sandbox's world (mounts, loopback, limits of the namespace), gives up
 * all power but to start processes as the user and to kill them, says that it is ready, and serves.
 *
 * Order matters: docs/architecture.md, "Entering". After the last mount no step can undo another;
 * the system call filter is last.
 *
 * Arguments: template, bytes of files, inodes, number of cgroup descriptors, layers to do without.
 * Descriptors: 3 control socket, 4... the files by which commands enter the work group.
 */
#include "base/fd.h"
#include "init/serve.h"
#include "jail/ids.h"
#include "jail/lockdown.h"
#include "jail/mounts.h"
#include "jail/net.h"
#include "jail/process.h"
#include "jail/seccomp.h"
#include "wire/nursery.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define CONTROL_FD 3
#define INIT_CAPABILITIES \
	(LOCKDOWN_CAP(CAP_SETUID) | LOCKDOWN_CAP(CAP_SETGID) | LOCKDOWN_CAP(CAP_KILL))

/* Second locks beside the system call filter, and small shares of what all sandboxes add up to. */
static const struct {
	const char *path, *value;
} sysctls[] = {
	{ "/proc/sys/user/max_user_namespaces", "0" },
	{ "/proc/sys/user/max_pid_namespaces", "0" },
	{ "/proc/sys/user/max_mnt_namespaces", "0" },
	{ "/proc/sys/user/max_net_namespaces", "0" },
	{ "/proc/sys/user/max_ipc_namespaces", "0" },
	{ "/proc/sys/user/max_uts_namespaces", "0" },
	{ "/proc/sys/user/max_cgroup_namespaces", "0" },
	{ "/proc/sys/user/max_time_namespaces", "0" },
	{ "/proc/sys/user/max_inotify_instances", "8" },
	{ "/proc/sys/user/max_inotify_watches", "8192" },
	{ "/proc/sys/user/max_fanotify_groups", "0" },
	{ "/proc/sys/fs/mqueue/queues_max", "8" },
};

static bool write_sysctls(struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++) {
		struct error failed;
		if (fd_write_kernel_file(AT_FDCWD, sysctls[i].path, sysctls[i].value, &failed))
			continue;
		if (failed.os_error == ENOENT || !strncmp(sysctls[i].path, "/proc/sys/fs/", 13))
			continue; /* this kernel does not count it */
		*err = failed;
		return false;
	}
	return true;
}

/* What may still be gained is nothing: no exec, no uid change gives a capability back. */
static bool lock_bits(struct error *err)
{
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS;
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return error_from_os(err, errno, "cannot lock the securebits");
	return true;
}

/* On cgroup v1 the files by which commands enter must have been opened by who enters: uid 999. */
static bool reopen_cgroups(unsigned count, int *ret_fds, struct error *err)
{
	for (unsigned i = 0; i < count; i++) {
		char path[32];
		int old = CONTROL_FD + 1 + (int)i;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", old);
		ret_fds[i] = open(path, O_WRONLY | O_CLOEXEC);
		if (ret_fds[i] < 0)
			return error_from_os(err, errno, "cannot open a cgroup of the sandbox");
		close(old);
	}
	return true;
}

static bool enter(const struct mounts_sandbox *sandbox, unsigned cgroups, int *ret_fds,
	int *ret_files, struct error *err)
{
	return mounts_enter_sandbox(sandbox, ret_files, err) && process_close_standard(true, err) &&
	       (sethostname("sandglass", 9) == 0 ||
		       error_from_os(err, errno, "cannot set the host name")) &&
	       net_loopback_only("/proc", err) && write_sysctls(err) && mounts_close_proc(err) &&
	       lockdown_limits(err) && lock_bits(err) && lockdown_bounding_set(0, err) &&
	       lockdown_ids(IDS_INIT, IDS_INIT, true, err) &&
	       reopen_cgroups(cgroups, ret_fds, err) &&
	       lockdown_capabilities(INIT_CAPABILITIES, INIT_CAPABILITIES, err) &&
	       lockdown_not_dumpable(err) && lockdown_no_new_privileges(err) && seccomp_apply(err);
}

/* With `files` (not -1): the file system that the warden may resize as long as nothing runs
 * here. */
static void tell(const struct error *err, int files)
{
	struct nursery_init_ready ready = { .is_ready = err == NULL };
	if (err) {
		snprintf(ready.message, sizeof(ready.message), "%s", err->message);
		snprintf(ready.hint, sizeof(ready.hint), "%s", err->hint);
	}
	wire_send(CONTROL_FD, &ready, sizeof(ready), &files, files >= 0 ? 1 : 0, NULL);
}

/* A command is a copy of init until it is exec'd, so it is dumpable only for the moment that the
 * score takes, and inside its own Landlock domain, which keeps other user code out. */
static bool lock_down(unsigned degraded, struct error *err)
{
	return lockdown_user(degraded, err) && lockdown_dumpable(err) && lockdown_oom_score(err) &&
	       lockdown_not_dumpable(err);
}

static bool lock_down_command(struct error *err)
{
	return lock_down(0, err);
}

static bool lock_down_command_degraded(struct error *err)
{
	return lock_down(LOCKDOWN_WITHOUT_LANDLOCK, err);
}

int main(int count, char **arguments)
{
	struct error err = { 0 };
	struct serve_config config = {
		.control_fd = CONTROL_FD,
		.user_uid = IDS_USER,
		.user_gid = IDS_USER,
		.lock_down = lock_down_command,
	};
	if (count != 6)
		return 2;
	if (strtoul(arguments[5], NULL, 10) & LOCKDOWN_WITHOUT_LANDLOCK)
		config.lock_down = lock_down_command_degraded;
	struct mounts_sandbox sandbox = {
		.template_name = arguments[1],
		.files_bytes = strtoull(arguments[2], NULL, 10),
		.inodes = (uint32_t)strtoul(arguments[3], NULL, 10),
	};
	cleanup_close int files = -1;
	config.cgroup_count = (unsigned)strtoul(arguments[4], NULL, 10);
	if (config.cgroup_count > ARRAY_SIZE(config.cgroup_fds) ||
		!enter(&sandbox, config.cgroup_count, config.cgroup_fds, &files, &err)) {
		tell(&err, -1);
		return 1;
	}
	fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC);
	signal(SIGPIPE, SIG_IGN);
	tell(NULL, files);
	fd_close(&files);
	serve(&config, &err);
	return 1;
}
