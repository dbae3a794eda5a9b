/*
 * A small sandbox for tests of init: serve() as pid 1 on a tmpfs of its own, with the host's
 * programs read-only and the system call filter, but without the daemon, the image and most other
 * walls.
 *
 *     serve_box FOLDER CONTROL_FD STALL_MS [CGROUP_PROCS...]
 *
 * Started as root. FOLDER is empty; the tmpfs is mounted there in a mount namespace of its own, so
 * that nothing has to be cleaned up. Ends when it is killed, and everything in it too.
 */
#include "base/fd.h"
#include "init/child.h"
#include "init/serve.h"
#include "jail/seccomp.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Ids that nobody has: limits of processes count all of a user's, on the whole machine. */
#define INIT 61999
#define USER 61000
#define PROCESSES 160

static void must(bool is_done, const char *what)
{
	if (!is_done)
		err(1, "serve_box: %s", what);
}

static bool enter_user(struct error *failed)
{
	const struct rlimit processes = { PROCESSES, PROCESSES };
	if (setrlimit(RLIMIT_NPROC, &processes) < 0 || setgroups(0, NULL) < 0 ||
		setresgid(USER, USER, USER) < 0 || setresuid(USER, USER, USER) < 0 ||
		!child_limit_capabilities(0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_from_os(failed, errno, "cannot become the user");
	return true;
}

static void bind_from_host(const char *name)
{
	char from[64], to[64];
	struct stat status;
	snprintf(from, sizeof(from), "/%s", name);
	snprintf(to, sizeof(to), "%s", name);
	if (lstat(from, &status) < 0)
		return;
	if (S_ISLNK(status.st_mode)) {
		char target[64] = "";
		must(readlink(from, target, sizeof(target) - 1) > 0, from);
		must(symlink(target, to) == 0, to);
		return;
	}
	must(mkdir(to, 0755) == 0, to);
	must(mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0, from);
	must(mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0, to);
}

static void make_folder(const char *path, uid_t owner, mode_t mode)
{
	must(mkdir(path, mode) == 0 && chmod(path, mode) == 0 && chown(path, owner, owner) == 0,
		path);
}

static void make_root(const char *folder)
{
	static const char *const shared[] = { "usr", "bin", "lib", "lib64", "etc", "dev" };
	umask(0);
	must(mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) == 0, "private mounts");
	must(mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV,
		     "mode=1777,size=96m,nr_inodes=140000") == 0,
		folder);
	must(chdir(folder) == 0, folder);
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++)
		bind_from_host(shared[i]);
	make_folder("proc", 0, 0755);
	make_folder("sys", 0, 0755);
	make_folder("tmp", 0, 01777);
	make_folder("root_only", 0, 0700);
	make_folder("image", 0, 0755);
	make_folder("home", 0, 0755);
	make_folder("home/user", USER, 0755);
	make_folder("workspace", USER, 0755);
	make_folder("workspace/mounted", USER, 0755);
	must(mount("proc", "proc", "proc", 0, NULL) == 0, "proc");
	must(mount("sysfs", "sys", "sysfs", MS_RDONLY, NULL) == 0, "sysfs");
	must(mount("tmpfs", "workspace/mounted", "tmpfs", 0, "mode=777,size=1m") == 0, "mounted");
	must(close(open("image/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0666)) == 0, "image/file");
	must(syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0, "pivot_root");
}

static void become_init(void)
{
	const uint32_t capabilities = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
	must(prctl(PR_SET_KEEPCAPS, 1) == 0 && setgroups(0, NULL) == 0 &&
			setresgid(INIT, INIT, INIT) == 0 && setresuid(INIT, INIT, INIT) == 0,
		"init's ids");
	must(child_limit_capabilities(capabilities), "init's capabilities");
	must(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
}

/* The daemon's own filter, so that a call init needs and the filter lacks is found here. */
static void enter_filter(void)
{
#ifndef __SANITIZE_ADDRESS__ /* it makes calls of its own */
	struct error failed = { 0 };
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	if (!seccomp_apply(&failed))
		errx(1, "serve_box: %s", failed.message);
#endif
}

/* cgroup v1 asks for the opener's uid; the file itself was given to it by the test. */
static void open_cgroups(struct serve_config *config, char **paths, int count)
{
	for (int i = 0; i < count && i < SERVE_CGROUPS; i++) {
		must(seteuid(INIT) == 0, "euid");
		config->cgroup_fds[i] = open(paths[i], O_WRONLY | O_CLOEXEC);
		must(config->cgroup_fds[i] >= 0 && seteuid(0) == 0, paths[i]);
		config->cgroup_count++;
	}
}

int main(int count, char **arguments)
{
	if (count < 4)
		errx(2, "usage: serve_box FOLDER CONTROL_FD STALL_MS [CGROUP_PROCS...]");
	struct serve_config config = { .control_fd = atoi(arguments[2]),
		.user_uid = USER,
		.user_gid = USER,
		.lock_down = enter_user,
		.stall_ms = (uint32_t)atoi(arguments[3]) };
	open_cgroups(&config, arguments + 4, count - 4);
	must(unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC) == 0, "unshare");
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid > 0) {
		int status;
		must(waitpid(pid, &status, 0) == pid, "waitpid");
		return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	make_root(arguments[1]);
	become_init();
	enter_filter();
	struct error failed = { 0 };
	serve(&config, &failed);
	errx(1, "serve_box: %s", failed.message);
}
