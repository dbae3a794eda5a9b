/* New namespaces and other ones' namespaces: by clone, clone3, unshare, setns. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const struct {
	const char *name;
	const char *file;
	long flag;
} kinds[] = {
	{ "user", "user", CLONE_NEWUSER },
	{ "mount", "mnt", CLONE_NEWNS },
	{ "pid", "pid", CLONE_NEWPID },
	{ "net", "net", CLONE_NEWNET },
	{ "ipc", "ipc", CLONE_NEWIPC },
	{ "uts", "uts", CLONE_NEWUTS },
	{ "cgroup", "cgroup", CLONE_NEWCGROUP },
	{ "time", "time", CLONE_NEWTIME },
};

/* A child that came to be ends at once and is reaped. */
static long finish_child(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, __WALL);
	return pid;
}

static long by_unshare(const void *flag)
{
	return unshare((int)*(const long *)flag);
}

static long by_clone(const void *flag)
{
	return finish_child(syscall(SYS_clone, *(const long *)flag | SIGCHLD, 0, 0, 0, 0));
}

/* The filter compares 32 bits; the kernel of the legacy call too, so a high bit must not help. */
static long by_clone_with_high_bit(const void *flag)
{
	return finish_child(
		syscall(SYS_clone, *(const long *)flag | SIGCHLD | (1L << 40), 0, 0, 0, 0));
}

static long by_clone3(const void *flag)
{
	struct clone_args arguments = { .flags = (uint64_t) * (const long *)flag,
		.exit_signal = SIGCHLD };
	return finish_child(syscall(SYS_clone3, &arguments, sizeof(arguments)));
}

static long by_setns(const void *file)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/ns/%s", (const char *)file);
	int fd = open(path, O_RDONLY);
	return fd < 0 ? -1 : setns(fd, 0);
}

static long by_setns_of_pid(const void *pid)
{
	int fd = (int)syscall(SYS_pidfd_open, *(const long *)pid, 0);
	long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
		     CLONE_NEWUTS;
	return fd < 0 ? -1 : setns(fd, (int)flags);
}

static void *nothing(void *argument)
{
	return argument;
}

static long make_thread(const void *argument)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, nothing, NULL);
	if (!error)
		error = pthread_join(thread, NULL);
	errno = error;
	return error ? -1 : 0;
}

static long plain_fork(const void *argument)
{
	return finish_child(fork());
}

static long plain_vfork(const void *argument)
{
	pid_t pid = vfork();
	if (pid == 0)
		_exit(0);
	return finish_child(pid);
}

/* The child would be reaped by our parent. */
static long clone_parent(const void *argument)
{
	long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	return pid;
}

static void try_kinds(const char *key, attempt run)
{
	json_open(key, '{');
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		try_forked(kinds[i].name, run, &kinds[i].flag);
	json_close('}');
}

static void try_setns(void)
{
	static const long first = 1;
	long self = getpid();
	json_open("setns", '{');
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		try_forked(kinds[i].name, by_setns, kinds[i].file);
	try_forked("pidfd of 1", by_setns_of_pid, &first);
	try_forked("pidfd of self", by_setns_of_pid, &self);
	json_close('}');
}

static void try_ordinary(void)
{
	static const long none = 0, files = CLONE_FILES | CLONE_FS;
	json_open("ordinary", '{');
	try_forked("thread", make_thread, NULL);
	try_forked("fork", plain_fork, NULL);
	try_forked("vfork", plain_vfork, NULL);
	try_forked("clone", by_clone, &none);
	try_forked("unshare nothing", by_unshare, &none);
	try_forked("unshare files", by_unshare, &files);
	json_close('}');
}

static int run_clone(int argc, char **argv)
{
	static const long none = 0, into_cgroup = 0x200000000L;
	json_open(NULL, '{');
	try_kinds("unshare", by_unshare);
	try_kinds("clone", by_clone);
	try_kinds("clone high bit", by_clone_with_high_bit);
	try_kinds("clone3", by_clone3);
	json_open("clone3 others", '{');
	try_forked("plain", by_clone3, &none);
	try_forked("into cgroup", by_clone3, &into_cgroup);
	json_close('}');
	try_setns();
	json_open("parent", '{');
	try_forked("CLONE_PARENT", clone_parent, NULL);
	json_close('}');
	try_ordinary();
	json_close('}');
	return 0;
}

/* For the test of what the warden does with children it never asked for: how many came to be. */
static int run_parents(int argc, char **argv)
{
	int made = 0;
	for (int i = 0; i < 100; i++)
		made += clone_parent(NULL) > 0;
	json_open(NULL, '{');
	json_number("made", made);
	json_close('}');
	return 0;
}

const struct probe_command namespace_commands[] = {
	{ "clone", run_clone,
		"every kind of new namespace in every way, and other ones' namespaces" },
	{ "parents", run_parents, "a hundred children of our parent (CLONE_PARENT)" },
	{ 0 },
};
