/*
 * The system call table, walked: each number with six arguments of all ones, in children.
 * EFAULT, EBADF, EINVAL and the like say that the filter let the call through; ENOSYS and EPERM
 * mostly are the filter's.
 */
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST_NUMBER 600
#define PATIENCE_MS 2000
#define X32_BIT 0x40000000L

/* No errno comes back from these, or the process is spoilt on the way. */
static const long not_walked[] = {
	SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_pause, SYS_vfork,
	335, /* uretprobe: SIGILL outside of a probe's trampoline */
	336, /* uprobe: the same */
};

static bool is_walked(long number)
{
	for (size_t i = 0; i < ARRAY_SIZE(not_walked); i++) {
		if (not_walked[i] == number)
			return false;
	}
	return true;
}

static long call_with_ones(const void *argument)
{
	long number = *(const long *)argument;
	long result = syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
	if (number == SYS_fork && result == 0)
		_exit(0);
	return result;
}

struct record {
	int number, error;
};

/* Walks on from `number` until the end or until a call ends or stops this process. */
static _Noreturn void walk_in_child(int answer_fd, long bit, long number, long last)
{
	for (; number <= last; number++) {
		if (!is_walked(number))
			continue;
		long with_bit = number | bit;
		struct record record = { .number = (int)number };
		/* The number first: should the call not return, the reader knows which it was. */
		if (write(answer_fd, &record, sizeof(record)) != sizeof(record))
			_exit(1);
		errno = 0;
		record.error = call_with_ones(&with_bit) < 0 ? errno : 0;
		if (write(answer_fd, &record, sizeof(record)) != sizeof(record))
			_exit(1);
	}
	_exit(0);
}

static void report_number(long number, const char *words)
{
	char name[32];
	snprintf(name, sizeof(name), "%ld", number);
	json_text(name, words);
}

/* One child's stretch of the walk; returns the number to go on with. */
static long walk_stretch(long bit, long first, long last)
{
	int ends[2];
	if (pipe(ends) < 0)
		return last + 1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[0]);
		walk_in_child(ends[1], bit, first, last);
	}
	close(ends[1]);
	struct record record;
	struct pollfd wait = { .fd = ends[0], .events = POLLIN };
	long number = last + 1;
	bool is_under_way = false, is_quick = false;
	while ((is_quick = poll(&wait, 1, PATIENCE_MS) > 0) &&
		read(ends[0], &record, sizeof(record)) == sizeof(record)) {
		if (is_under_way)
			report_number(record.number, errno_name(record.error));
		is_under_way = !is_under_way;
		number = record.number;
	}
	close(ends[0]);
	if (!is_quick)
		kill(pid, SIGKILL);
	int status = 0;
	waitpid(pid, &status, 0);
	if (!is_under_way)
		return last + 1;
	report_number(number, is_quick ? signal_name(status) : "hangs");
	return number + 1;
}

/* Many calls share a child, since a fork of a large process costs more than all of them. */
static void walk(long bit, long last)
{
	for (long number = 0; number <= last;)
		number = walk_stretch(bit, number, last);
}

static int run_syscalls(int argc, char **argv)
{
	json_open(NULL, '{');
	walk(0, argc > 1 ? atol(argv[1]) : LAST_NUMBER);
	json_close('}');
	return 0;
}

/* getpid by the 32-bit gate: a filter that looks at numbers only takes 20 for writev. */
static long call_ia32_getpid(const void *argument)
{
	long result = 20;
	__asm__ volatile("int $0x80" : "+a"(result)::"memory", "r8", "r9", "r10", "r11");
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

static int run_x32(int argc, char **argv)
{
	json_open(NULL, '{');
	walk(X32_BIT, argc > 1 ? atol(argv[1]) : 60);
	json_open("ia32", '{');
	try_forked("getpid", call_ia32_getpid, NULL);
	json_close('}');
	json_close('}');
	return 0;
}

/* ---- doors into the kernel that no program here needs, with arguments that would work ---- */
struct call {
	const char *name;
	long number;
	long arguments[6];
};

static long make_call(const void *argument)
{
	const struct call *call = argument;
	const long *a = call->arguments;
	return syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int run_doors(int argc, char **argv)
{
	static char zeros[256];
	static char word[] = "probe", user[] = "user";
	long zero = (long)zeros;
	const struct call calls[] = {
		{ "io_uring_setup", 425, { 8, zero } },
		{ "io_uring_enter", 426, { -1 } },
		{ "io_uring_register", 427, { -1 } },
		{ "bpf", 321, { 0, zero, 64 } },
		{ "perf_event_open", 298, { zero, 0, -1, -1, 0 } },
		{ "userfaultfd", 323, { 1 } },
		{ "memfd_secret", 447, { 0 } },
		{ "keyctl", 250, { 0, -3, 0 } },
		{ "add_key", 248, { (long)user, (long)word, zero, 4, -3 } },
		{ "request_key", 249, { (long)user, (long)word, 0, -3 } },
		{ "fanotify_init", 300, { 0, 0 } },
		{ "quotactl", 179, { 0x800001, 0, 0, 0 } },
		{ "quotactl_fd", 443, { -1, 0, 0, 0 } },
		{ "acct", 163, { 0 } },
		{ "swapon", 167, { (long)word, 0 } },
		{ "swapoff", 168, { (long)word } },
		{ "reboot", 169, { 1, 2, 3, 0 } },
		{ "sethostname", 170, { (long)word, 5 } },
		{ "setdomainname", 171, { (long)word, 5 } },
		{ "init_module", 175, { zero, 0, zero } },
		{ "finit_module", 313, { -1, zero, 0 } },
		{ "delete_module", 176, { (long)word, 0 } },
		{ "kexec_load", 246, { 0, 0, 0, 0 } },
		{ "kexec_file_load", 320, { -1, -1, 0, 0, 0 } },
		{ "syslog", 103, { 10, 0, 0 } },
		{ "vhangup", 153, { 0 } },
		{ "iopl", 172, { 3 } },
		{ "ioperm", 173, { 0x80, 1, 1 } },
		{ "modify_ldt", 154, { 0, zero, 16 } },
		{ "settimeofday", 164, { zero, 0 } },
		{ "clock_settime", 227, { 0, zero } },
		{ "vmsplice", 278, { 1, zero, 0, 0 } },
		{ "move_pages", 279, { 0, 0, 0, 0, 0, 0 } },
		{ "migrate_pages", 256, { 0, 0, 0, 0 } },
		{ "mbind", 237, { zero & ~4095L, 4096, 0, 0, 0, 0 } },
		{ "set_mempolicy", 238, { 0, 0, 0 } },
		{ "set_mempolicy_home_node", 450, { 0, 0, 0, 0 } },
		{ "remap_file_pages", 216, { zero, 4096, 0, 0, 0 } },
		{ "lookup_dcookie", 212, { 0, zero, 64 } },
		{ "uselib", 134, { (long)word } },
		{ "ustat", 136, { 0, zero } },
		{ "sysfs", 139, { 3, 0, 0 } },
		{ "nfsservctl", 180, { 0, 0, 0 } },
		{ "map_shadow_stack", 453, { 0, 4096, 0 } },
		{ "lsm_set_self_attr", 460, { 100, zero, 32, 0 } },
		{ "statmount", 457, { zero, zero, 256, 0 } },
		{ "listmount", 458, { zero, zero, 8, 0 } },
	};
	json_open(NULL, '{');
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		try(calls[i].name, make_call, &calls[i]);
	json_close('}');
	return 0;
}

const struct probe_command syscall_commands[] = {
	{ "syscalls", run_syscalls,
		"[LAST]: every number up to 600, with arguments that are all ones" },
	{ "x32", run_x32,
		"[LAST]: the same numbers of the x32 table, and one call of the 32-bit gate" },
	{ "doors", run_doors,
		"calls into odd parts of the kernel, with arguments that would work" },
	{ 0 },
};
