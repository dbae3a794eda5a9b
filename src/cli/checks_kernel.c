/*
 * What the kernel lets the daemon do, by trying it. Version numbers and settings only hint at that:
 * a container's filter, a security module or a masked /proc refuse what the version promises.
 *
 * Each trial runs in a child that enters a user namespace the way the daemon's nursery does: this
 * process writes the maps, the child becomes root there and tries one thing; its exit status is the
 * errno of the refusal. Every mount is in a mount namespace that ends with the child.
 */
#include "cli/checks.h"

#include "cli/program.h"

#include "base/fd.h"
#include "base/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define NURSERY_HOST_ID 0x70000010u /* the nursery's root on the host; docs/architecture.md */
#define NURSERY_IDS 65536u
#define LEAST_KERNEL_MAJOR 5 /* 5.19: EROFS takes idmapped mounts */
#define LEAST_KERNEL_MINOR 19
#define ALL_NAMESPACES \
	(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* Each is 0 or the errno of a refusal; a later one is meaningless when an earlier one is not 0. */
struct outcome {
	int user_namespace, maps, act;
};

static bool is_root(void)
{
	return geteuid() == 0;
}

static int errno_of(long result)
{
	return result < 0 ? errno : 0;
}

/* ---- what is tried: each runs as root of a fresh user namespace ---- */

static int try_nothing(void)
{
	return 0;
}

static int try_namespaces(void)
{
	return errno_of(unshare(ALL_NAMESPACES));
}

static int try_nested(void)
{
	return errno_of(unshare(CLONE_NEWUSER | ALL_NAMESPACES));
}

static int make_mounts_private(void)
{
	return errno_of(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static int wait_for(pid_t pid)
{
	int status;
	if (pid < 0)
		return errno;
	if (waitpid(pid, &status, 0) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

/* A new /proc is allowed only where one is visible whole; a container that masks parts of it is
 * not. */
static int try_proc(void)
{
	int refusal = errno_of(unshare(CLONE_NEWNS | CLONE_NEWPID));
	if (refusal || (refusal = make_mounts_private()))
		return refusal;
	pid_t pid = fork();
	if (pid == 0)
		_exit(errno_of(
			mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)));
	return wait_for(pid);
}

static int try_overlay(void)
{
	static const char *const folders[] = { "/tmp/lower", "/tmp/upper", "/tmp/work",
		"/tmp/root" };
	int refusal = errno_of(unshare(CLONE_NEWNS));
	if (refusal || (refusal = make_mounts_private()))
		return refusal;
	refusal = errno_of(mount("tmpfs", "/tmp", "tmpfs", 0, "mode=755"));
	for (size_t i = 0; i < ARRAY_SIZE(folders) && !refusal; i++)
		refusal = errno_of(mkdir(folders[i], 0755));
	if (refusal)
		return refusal;
	return errno_of(mount("overlay", "/tmp/root", "overlay", 0,
		"lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work"));
}

/* ---- how it is tried ---- */

static bool write_map(pid_t pid, const char *name, const char *text, struct error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fd_write_kernel_file(AT_FDCWD, path, text, err);
}

static int write_maps(pid_t pid)
{
	char uids[64], gids[64];
	struct error err = { 0 };
	unsigned uid = is_root() ? NURSERY_HOST_ID : geteuid();
	unsigned gid = is_root() ? NURSERY_HOST_ID : getegid();
	unsigned count = is_root() ? NURSERY_IDS : 1;
	snprintf(uids, sizeof(uids), "0 %u %u", uid, count);
	snprintf(gids, sizeof(gids), "0 %u %u", gid, count);
	if (!is_root() && !write_map(pid, "setgroups", "deny", &err))
		return err.os_error;
	if (!write_map(pid, "uid_map", uids, &err) || !write_map(pid, "gid_map", gids, &err))
		return err.os_error;
	return 0;
}

static int become_root_inside(void)
{
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return errno;
	return 0;
}

/* The child's half. It says over `up` that it is in the namespace and hears over `down` that it has
 * maps. */
static _Noreturn void be_child(int up, int down, int (*act)(void))
{
	char byte = (char)errno_of(unshare(CLONE_NEWUSER));
	int refusal = byte;
	if (write(up, &byte, 1) != 1 || refusal || read(down, &byte, 1) != 1)
		_exit(refusal);
	refusal = become_root_inside();
	_exit(refusal ? refusal : act());
}

/* Runs `act` in a fresh user namespace; *ret_user_fd, when asked for, refers to that namespace. */
static struct outcome try_inside(int (*act)(void), int *ret_user_fd)
{
	int up[2], down[2];
	if (pipe2(up, O_CLOEXEC) < 0)
		return (struct outcome){ .user_namespace = errno };
	if (pipe2(down, O_CLOEXEC) < 0) {
		int problem = errno;
		close(up[0]);
		close(up[1]);
		return (struct outcome){ .user_namespace = problem };
	}
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(up[0]);
		close(down[1]);
		be_child(up[1], down[0], act);
	}
	close(up[1]);
	close(down[0]);
	struct outcome outcome = { 0 };
	char byte = EAGAIN;
	if (pid < 0 || read(up[0], &byte, 1) != 1 || byte) {
		outcome.user_namespace = pid < 0 ? EAGAIN : byte;
	} else {
		outcome.maps = write_maps(pid);
		if (ret_user_fd) {
			char path[64];
			snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
			*ret_user_fd = open(path, O_RDONLY | O_CLOEXEC);
		}
		if (outcome.maps == 0 && write(down[1], &byte, 1) != 1)
			outcome.maps = EPIPE;
	}
	close(up[0]);
	close(down[1]);
	if (pid > 0)
		outcome.act = wait_for(pid);
	return outcome;
}

/* One line on what was tried: well, or missing with the reason and what mends it. */
static void report_trial(struct report *report, const char *name, int refusal, const char *mend,
	const char *missing, const char *well)
{
	if (refusal)
		report_add(report, name, CHECK_MISSING, mend, "%s: %s", missing, strerror(refusal));
	else
		report_add(report, name, CHECK_OK, NULL, "%s", well);
}

/* ---- user namespaces and what they allow ---- */

static bool read_number(const char *path, long long *ret_number)
{
	cleanup_free char *text = fd_read_file(AT_FDCWD, path, 256, NULL, NULL);
	return text && sscanf(text, "%lld", ret_number) == 1;
}

static const char *user_namespace_mend(void)
{
	long long number;
	if (read_number("/proc/sys/user/max_user_namespaces", &number) && number < 1000)
		return "sysctl -w user.max_user_namespaces=15000";
	if (read_number("/proc/sys/kernel/unprivileged_userns_clone", &number) && number == 0)
		return "sysctl -w kernel.unprivileged_userns_clone=1";
	if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", &number) &&
		number)
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
	if (access("/.dockerenv", F_OK) == 0)
		return "start this container with --privileged, or use a virtual machine";
	return "use a kernel with CONFIG_USER_NS=y, outside a container that filters unshare";
}

static void check_user_namespaces(struct report *report)
{
	struct outcome outcome = try_inside(try_nothing, NULL);
	if (outcome.user_namespace) {
		report_add(report, "user namespaces", CHECK_MISSING, user_namespace_mend(),
			"cannot make one: %s", strerror(outcome.user_namespace));
		return;
	}
	if (outcome.maps || outcome.act) {
		report_add(report, "user namespaces", CHECK_MISSING,
			"run as root outside a user namespace, or give it the ids in /etc/subuid",
			"cannot map ids from %u on: %s", NURSERY_HOST_ID,
			strerror(outcome.maps ? outcome.maps : outcome.act));
		return;
	}
	long long limit = 0;
	read_number("/proc/sys/user/max_user_namespaces", &limit);
	if (limit < 1000)
		report_add(report, "user namespaces", CHECK_WARNING,
			"sysctl -w user.max_user_namespaces=15000",
			"only %lld at once, and a sandbox needs one", limit);
	else
		report_add(report, "user namespaces", CHECK_OK, NULL,
			"ids can be mapped, %lld at once", limit);

	report_trial(report, "namespaces", try_inside(try_namespaces, NULL).act,
		"use a kernel with namespaces, outside a container that filters unshare",
		"mount, pid, net, ipc, uts and cgroup namespaces",
		"mount, pid, net, ipc, uts, cgroup");
	report_trial(report, "nested namespaces", try_inside(try_nested, NULL).act,
		user_namespace_mend(), "none below a user namespace", "a sandbox in the nursery");
}

static void check_mounts_inside(struct report *report)
{
	struct outcome outcome = try_inside(try_proc, NULL);
	if (outcome.user_namespace || outcome.maps)
		return; /* said already */
	report_trial(report, "visible /proc", outcome.act,
		"start the container with --security-opt systempaths=unconfined, or use a host",
		"a sandbox gets no /proc of its own, since this one is masked",
		"a sandbox can mount its own");
	int refusal = try_inside(try_overlay, NULL).act;
	report_trial(report, "overlayfs", refusal,
		refusal == ENODEV ? "modprobe overlay" : "use Linux 5.11 or newer",
		"not in a user namespace", "works in a user namespace, on tmpfs");
}

/* ---- the image of a template ---- */

struct image_outcome {
	unsigned char mounted, idmapped; /* errno, or 0 */
};

static bool find_image(char *path, size_t size)
{
	char cache[PATH_MAX];
	if (!program_cache(cache, sizeof(cache), NULL))
		return false;
	static const char *const names[] = { "code-interpreter", "base" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (snprintf(path, size, "%s/%s/image.erofs", cache, names[i]) < (int)size &&
			access(path, R_OK) == 0)
			return true;
	return false;
}

static int give_other_owners(const char *place)
{
	int user_fd = -1;
	struct outcome outcome = try_inside(try_nothing, &user_fd);
	if (outcome.user_namespace || outcome.maps || user_fd < 0)
		return outcome.user_namespace ? outcome.user_namespace : EPERM;
	int refusal = 0;
	int tree =
		(int)syscall(SYS_open_tree, AT_FDCWD, place, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0) {
		refusal = errno;
	} else {
		struct kernel_mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP,
			.userns_fd = (uint64_t)user_fd };
		refusal = errno_of(
			syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)));
		close(tree);
	}
	close(user_fd);
	return refusal;
}

static struct image_outcome try_image(const char *image)
{
	struct image_outcome outcome = { .mounted = ECHILD };
	int pipe_fds[2];
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return outcome;
	pid_t pid = fork();
	if (pid == 0) {
		int refusal = errno_of(unshare(CLONE_NEWNS));
		if (!refusal)
			refusal = make_mounts_private();
		if (!refusal)
			refusal = errno_of(mount(image, "/tmp", "erofs", MS_RDONLY, NULL));
		outcome.mounted = (unsigned char)refusal;
		outcome.idmapped = (unsigned char)(refusal ? refusal : give_other_owners("/tmp"));
		ssize_t ignored = write(pipe_fds[1], &outcome, sizeof(outcome));
		(void)ignored;
		_exit(0);
	}
	close(pipe_fds[1]);
	struct image_outcome told;
	if (read(pipe_fds[0], &told, sizeof(told)) == sizeof(told))
		outcome = told;
	close(pipe_fds[0]);
	wait_for(pid);
	return outcome;
}

static bool knows_file_system(const char *name)
{
	cleanup_free char *text = fd_read_file(AT_FDCWD, "/proc/filesystems", 65536, NULL, NULL);
	char line[64];
	snprintf(line, sizeof(line), "\t%s\n", name);
	return text && strstr(text, line);
}

static void check_image(struct report *report)
{
	char image[PATH_MAX + 64];
	if (!knows_file_system("erofs")) {
		/* The module is loaded by the first mount, so this is no refusal yet. */
		report_add(report, "EROFS", CHECK_WARNING, "modprobe erofs",
			"not loaded: without it templates need to be plain folders");
		return;
	}
	if (!is_root() || !find_image(image, sizeof(image))) {
		report_add(report, "EROFS", CHECK_UNKNOWN,
			is_root() ? "sandglass template build code-interpreter"
				  : "run this as root",
			"known to the kernel; mounting %s",
			is_root() ? "needs an image" : "needs root");
		return;
	}
	struct image_outcome outcome = try_image(image);
	if (outcome.mounted == 0)
		report_add(report, "EROFS", CHECK_OK, NULL,
			"an image file can be mounted without a loop device");
	else if (outcome.mounted == ENOTBLK && access("/dev/loop-control", R_OK | W_OK) == 0)
		report_add(report, "EROFS", CHECK_OK, NULL,
			"through loop devices (6.12 does without)");
	else
		report_add(report, "EROFS", CHECK_WARNING,
			"modprobe loop, or use Linux 6.12 or newer",
			"an image cannot be mounted: %s", strerror(outcome.mounted));
	if (outcome.mounted == 0)
		report_trial(report, "idmapped mounts", outcome.idmapped, "use Linux 5.19 or newer",
			"an image's owners cannot be mapped", "an image's owners can be mapped");
}

/* ---- single calls ---- */

static void check_calls(struct report *report)
{
	/* Called with nonsense: what exists complains about that, what does not says ENOSYS. */
	static const struct {
		const char *name;
		long number;
	} calls[] = {
		{ "pidfd_open", SYS_pidfd_open },
		{ "pidfd_send_signal", SYS_pidfd_send_signal },
		{ "openat2", SYS_openat2 },
		{ "close_range", SYS_close_range },
		{ "fsopen", SYS_fsopen },
		{ "fsmount", SYS_fsmount },
		{ "open_tree", SYS_open_tree },
		{ "move_mount", SYS_move_mount },
		{ "mount_setattr", SYS_mount_setattr },
	};
	char lacking[200] = "";
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		/* For close_range this is first > last: refused. */
		if (syscall(calls[i].number, -1L, 0L, -1L, 0L, 0L) >= 0 || errno != ENOSYS)
			continue;
		size_t used = strlen(lacking);
		snprintf(lacking + used, sizeof(lacking) - used, "%s%s", used ? ", " : "",
			calls[i].name);
	}
	if (syscall(SYS_clone3, NULL, 0L) < 0 && errno == ENOSYS) {
		size_t used = strlen(lacking);
		snprintf(lacking + used, sizeof(lacking) - used, "%sclone3", used ? ", " : "");
	}
	if (lacking[0])
		report_add(report, "system calls", CHECK_MISSING,
			"use a newer kernel, or a container without a filter on them",
			"missing: %s", lacking);
	else
		report_add(report, "system calls", CHECK_OK, NULL,
			"pidfd, clone3, openat2, close_range, the mount calls");
}

static void check_walls(struct report *report)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0L, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi >= 1)
		report_add(report, "Landlock", CHECK_OK, NULL, "version %ld", abi);
	else
		report_add(report, "Landlock", CHECK_MISSING,
			errno == EOPNOTSUPP ? "boot with landlock in the kernel's lsm= list"
					    : "use a kernel with CONFIG_SECURITY_LANDLOCK=y",
			"the kernel has none: %s", strerror(errno));
	uint32_t action = SECCOMP_RET_ERRNO;
	report_trial(report, "seccomp",
		errno_of(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0L, &action)),
		"use a kernel with CONFIG_SECCOMP_FILTER=y", "no filters", "filters can be set");
}

static void check_release(struct report *report)
{
	struct utsname name;
	int major = 0, minor = 0;
	uname(&name);
	sscanf(name.release, "%d.%d", &major, &minor);
	bool is_new_enough = major > LEAST_KERNEL_MAJOR ||
			     (major == LEAST_KERNEL_MAJOR && minor >= LEAST_KERNEL_MINOR);
	if (is_new_enough)
		report_add(report, "kernel", CHECK_OK, NULL, "Linux %s", name.release);
	else
		report_add(report, "kernel", CHECK_MISSING, "install a newer kernel and boot it",
			"Linux %s; %d.%d is the oldest that has all that is needed", name.release,
			LEAST_KERNEL_MAJOR, LEAST_KERNEL_MINOR);
	if (strcmp(name.machine, "x86_64") == 0)
		report_add(report, "machine", CHECK_OK, NULL, "%s", name.machine);
	else
		report_add(report, "machine", CHECK_WARNING, "use an x86_64 machine",
			"%s: not tried yet", name.machine);
}

void checks_kernel(struct report *report)
{
	check_release(report);
	check_calls(report);
	check_user_namespaces(report);
	check_mounts_inside(report);
	check_image(report);
	check_walls(report);
}
