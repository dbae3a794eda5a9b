/* Other processes: tracing, reading memory, signals, and pid 1. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NR_PIDFD_OPEN 434
#define NR_PIDFD_GETFD 438
#define NR_PROCESS_MADVISE 440
#define NR_PROCESS_MRELEASE 448

static pid_t target; /* a child of ours, or a pid that was named */

static long trace_me(const void *argument)
{
	return ptrace(PTRACE_TRACEME, 0, 0, 0);
}

static long attach(const void *argument)
{
	return ptrace(PTRACE_ATTACH, target, 0, 0);
}

static long seize(const void *argument)
{
	return ptrace(PTRACE_SEIZE, target, 0, 0);
}

static long move_memory(bool is_write)
{
	static char here[8];
	struct iovec local = { here, sizeof(here) }, remote = { here, sizeof(here) };
	if (is_write)
		return process_vm_writev(target, &local, 1, &remote, 1, 0);
	return process_vm_readv(target, &local, 1, &remote, 1, 0);
}

static long read_memory(const void *argument)
{
	return move_memory(false);
}

static long write_memory(const void *argument)
{
	return move_memory(true);
}

static long compare(const void *argument)
{
	return syscall(SYS_kcmp, getpid(), target, 0, 0, 0);
}

static long steal_descriptor(const void *number)
{
	int fd = (int)syscall(NR_PIDFD_OPEN, target, 0);
	return fd < 0 ? -1 : syscall(NR_PIDFD_GETFD, fd, *(const long *)number, 0);
}

static long advise(const void *argument)
{
	int fd = (int)syscall(NR_PIDFD_OPEN, target, 0);
	struct iovec range = { (void *)0x400000, 4096 };
	return fd < 0 ? -1 : syscall(NR_PROCESS_MADVISE, fd, &range, 1, MADV_COLD, 0);
}

static long release_memory(const void *argument)
{
	int fd = (int)syscall(NR_PIDFD_OPEN, target, 0);
	return fd < 0 ? -1 : syscall(NR_PROCESS_MRELEASE, fd, 0);
}

static long limit_it(const void *argument)
{
	struct rlimit value = { 10, 10 };
	return prlimit(target, RLIMIT_NOFILE, &value, NULL);
}

static long signal_it(const void *number)
{
	return kill(target, (int)*(const long *)number);
}

static void try_tracing(void)
{
	static const long one = 1;
	try("ATTACH", attach, NULL);
	try("SEIZE", seize, NULL);
	try("process_vm_readv", read_memory, NULL);
	try("process_vm_writev", write_memory, NULL);
	try("kcmp", compare, NULL);
	try("pidfd_getfd", steal_descriptor, &one);
	try("process_madvise", advise, NULL);
	try("process_mrelease", release_memory, NULL);
}

static int run_ptrace(int argc, char **argv)
{
	fflush(stdout);
	target = argc > 1 ? atoi(argv[1]) : fork();
	if (target == 0) {
		for (;;)
			pause();
	}
	json_open(NULL, '{');
	try("TRACEME", trace_me, NULL);
	try_tracing();
	json_close('}');
	if (argc <= 1) {
		kill(target, SIGKILL);
		waitpid(target, NULL, 0);
	}
	return 0;
}

/* Opening may succeed where writing or reading is refused: the effect counts. */
static long write_file(const void *path)
{
	int fd = open(path, O_WRONLY);
	return fd < 0 ? -1 : write(fd, "1", 1);
}

static long read_file(const void *path)
{
	char byte;
	int fd = open(path, O_RDONLY);
	return fd < 0 ? -1 : read(fd, &byte, 1);
}

static long read_link(const void *path)
{
	char byte[256];
	return readlink(path, byte, sizeof(byte));
}

static int run_pid1(int argc, char **argv)
{
	static const char *const read_names[] = { "mem", "environ", "maps", "stack", "syscall",
		"auxv", "io", "pagemap", "smaps", "personality", "map_files", "timers" };
	static const char *const link_names[] = { "root", "cwd", "exe", "ns/user", "ns/mnt", "fd/0",
		"fd/1", "fd/2", "fd/3", "fd/4" };
	static const char *const write_names[] = { "mem", "oom_score_adj", "comm",
		"coredump_filter", "clear_refs", "uid_map", "gid_map", "setgroups", "attr/current",
		"timerslack_ns", "autogroup" };
	static const long signals[] = { SIGTERM, SIGKILL, SIGSTOP, SIGHUP, SIGINT, SIGUSR1,
		SIGCHLD };
	const char *pid = argc > 1 ? argv[1] : "1";
	char path[128];
	target = atoi(pid);
	json_open(NULL, '{');
	json_open("read", '{');
	for (size_t i = 0; i < ARRAY_SIZE(read_names); i++) {
		snprintf(path, sizeof(path), "/proc/%s/%s", pid, read_names[i]);
		try(read_names[i], read_file, path);
	}
	json_close('}');
	json_open("link", '{');
	for (size_t i = 0; i < ARRAY_SIZE(link_names); i++) {
		snprintf(path, sizeof(path), "/proc/%s/%s", pid, link_names[i]);
		try(link_names[i], read_link, path);
	}
	json_close('}');
	json_open("write", '{');
	for (size_t i = 0; i < ARRAY_SIZE(write_names); i++) {
		snprintf(path, sizeof(path), "/proc/%s/%s", pid, write_names[i]);
		try(write_names[i], write_file, path);
	}
	json_close('}');
	json_open("signal", '{');
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		try(sigabbrev_np((int)signals[i]), signal_it, &signals[i]);
	json_close('}');
	json_open("trace", '{');
	try_tracing();
	try("prlimit", limit_it, NULL);
	json_close('}');
	json_close('}');
	return 0;
}

/* Signals every pid up to a bound, itself excepted: which of them exist for us? */
static int run_signals(int argc, char **argv)
{
	int reached = 0, refused = 0;
	json_open(NULL, '{');
	json_open("reached", '[');
	for (pid_t pid = 1; pid < 70000; pid++) {
		if (kill(pid, 0) == 0) {
			json_number(NULL, pid);
			reached++;
		} else if (errno != ESRCH) {
			refused++;
		}
	}
	json_close(']');
	json_number("count", reached);
	json_number("refused", refused);
	json_close('}');
	return 0;
}

const struct probe_command process_commands[] = {
	{ "ptrace", run_ptrace, "[PID]: tracing and its relatives, on a child of ours or PID" },
	{ "pid1", run_pid1, "[PID]: files, links, signals and limits of pid 1" },
	{ "signals", run_signals, "which pids can be signalled" },
	{ 0 },
};
