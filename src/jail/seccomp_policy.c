/*
 * Writes the system call filters of user code and of zygotes as a C header. Runs at build time, on
 * the build machine: so the programs that apply a filter (init, static; the kernel's extension,
 * inside an image) need no library for it, and the filter is the same bytes everywhere.
 *
 * Two programs. The first is an allow-list by number; the second refuses by argument (libseccomp
 * cannot say "all but these values" in one). The kernel takes the stricter answer of the two.
 *
 * Unlisted: ENOSYS, since programs probe and fall back on it. EPERM where a program understands
 * refusal. Kill for a foreign architecture and for x32. Arguments are compared on their low 32
 * bits, as the kernel reads ints. Pointers are never looked at, so what hides its arguments behind
 * a pointer is refused whole (clone3, io_uring).
 *
 * A zygote's is that of user code, and what its loop needs to make a kernel: to join a sandbox, all of
 * its namespaces at once, so that none can be joined one by one; a child for its parent; a keyring of
 * its own. A kernel has its zygote's and, on top, that of user code.
 *
 * Sources of the rules: docs/threat-model.md; the refusals answer published holes.
 */
#include "jail/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOW32 0xffffffffu
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static scmp_filter_ctx filter;
static bool is_for_zygotes;

static void check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "seccomp_policy: %s: %s\n", what, strerror(-result));
		exit(1);
	}
}

/* Files. */
static const char *const allow_files[] = { "open", "openat", "openat2", "creat", "close",
	"close_range", "read", "pread64", "readv", "preadv", "preadv2", "write", "pwrite64",
	"writev", "pwritev", "pwritev2", "lseek", "stat", "fstat", "lstat", "newfstatat", "statx",
	"access", "faccessat", "faccessat2", "getdents", "getdents64", "getcwd", "chdir", "fchdir",
	"rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat", "symlink",
	"symlinkat", "unlink", "unlinkat", "readlink", "readlinkat", "chmod", "fchmod", "fchmodat",
	"chown", "fchown", "lchown", "fchownat", "umask", "utime", "utimes", "futimesat",
	"utimensat", "truncate", "ftruncate", "fallocate", "fadvise64", "readahead", "sync",
	"syncfs", "fsync", "fdatasync", "sync_file_range", "mknod", "mknodat", "setxattr",
	"lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr",
	"flistxattr", "removexattr", "lremovexattr", "fremovexattr", "copy_file_range", "sendfile",
	"splice", "tee", "flock", "fcntl", "dup", "dup2", "dup3", "statfs", "fstatfs",
	"inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch" };
/* Memory. */
static const char *const allow_memory[] = { "mmap", "mprotect", "mremap", "munmap", "brk",
	"madvise", "mlock", "mlock2", "munlock", "mlockall", "munlockall", "msync", "mincore",
	"memfd_create", "membarrier", "pkey_alloc", "pkey_free", "pkey_mprotect", "get_mempolicy" };
/* Processes. clone, unshare, prctl and personality have rules of their own below. */
static const char *const allow_processes[] = { "fork", "vfork", "execve", "execveat", "exit",
	"exit_group", "wait4", "waitid", "kill", "tkill", "tgkill", "pidfd_open",
	"pidfd_send_signal", "setpgid", "getpgid", "getpgrp", "setsid", "getsid", "getpid",
	"getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid",
	"getgroups", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
	"setfsuid", "setfsgid", "setgroups", "capget", "capset", "getrlimit", "setrlimit",
	"prlimit64", "getrusage", "getpriority", "setpriority", "sched_yield", "sched_getaffinity",
	"sched_setaffinity", "sched_getscheduler", "sched_setscheduler", "sched_getparam",
	"sched_setparam", "sched_getattr", "sched_setattr", "sched_get_priority_max",
	"sched_get_priority_min", "sched_rr_get_interval", "ioprio_get", "ioprio_set", "futex",
	"set_tid_address", "set_robust_list", "get_robust_list", "rseq", "arch_prctl", "uname",
	"sysinfo", "times", "getcpu", "getrandom", "seccomp", "landlock_create_ruleset",
	"landlock_add_rule", "landlock_restrict_self" };
/* Time, waiting, signals. */
static const char *const allow_time[] = { "time", "gettimeofday", "clock_gettime", "clock_getres",
	"clock_nanosleep", "nanosleep", "alarm", "pause", "getitimer", "setitimer", "timer_create",
	"timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "timerfd_create",
	"timerfd_settime", "timerfd_gettime", "poll", "ppoll", "select", "pselect6", "epoll_create",
	"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd",
	"eventfd2", "signalfd", "signalfd4", "pipe", "pipe2", "rt_sigaction", "rt_sigprocmask",
	"rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigreturn",
	"rt_sigsuspend", "sigaltstack", "restart_syscall" };
/* Sockets that exist; making them has rules of its own. Flags of sending and receiving too. */
static const char *const allow_sockets[] = { "bind", "connect", "listen", "accept", "accept4",
	"shutdown", "getsockopt", "getsockname", "getpeername" };
/* Inside its own ipc namespace, within RLIMIT_MSGQUEUE and the memory limit. */
static const char *const allow_ipc[] = { "shmget", "shmat", "shmctl", "shmdt", "semget", "semop",
	"semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink",
	"mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr" };
/* Newer than the library that writes this filter: by number, the same on all architectures. */
static const int allow_numbers[] = { 449 /* futex_waitv */, 451 /* cachestat */,
	452 /* fchmodat2 */, 454 /* futex_wake */, 455 /* futex_wait */, 456 /* futex_requeue */,
	462 /* mseal */ };

/* Passed by the first filter, judged by their arguments in the second. */
static const char *const judged[] = { "ioctl", "prctl", "clone", "unshare", "setsockopt", "sendto",
	"sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg" };

/* Refused in a way that programs understand. */
static const char *const refuse_eperm[] = { "mount", "umount2", "pivot_root", "chroot", "fsopen",
	"fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "mount_setattr", "setns",
	"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "process_madvise",
	"process_mrelease", "bpf", "perf_event_open", "fanotify_init", "open_by_handle_at",
	"name_to_handle_at", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff", "reboot",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname",
	"setdomainname", "syslog", "vhangup", "iopl", "ioperm", "nfsservctl", "kexec_load",
	"kexec_file_load", "init_module", "finit_module", "delete_module", "set_mempolicy", "mbind",
	"migrate_pages", "move_pages", "set_mempolicy_home_node", "vmsplice" };
static const int refuse_numbers[] = { 460 /* lsm_set_self_attr */, 467 /* open_tree_attr */ };

/* Terminal injection, kernel consoles, freezing, interfaces and routes: value, mask. */
static const uint32_t refuse_ioctls[][2] = { { 0x5412 /* TIOCSTI */, LOW32 },
	{ 0x541c /* TIOCLINUX */, LOW32 }, { 0x5423 /* TIOCSETD */, LOW32 },
	{ 0x541d /* TIOCCONS */, LOW32 }, { 0xc0045877 /* FIFREEZE */, LOW32 },
	{ 0xc0045878 /* FITHAW */, LOW32 }, { 0x4b00 /* KD... */, 0xffffff00 },
	{ 0x5600 /* VT_... */, 0xffffff00 }, { 0x890b /* SIOCADDRT */, LOW32 },
	{ 0x890c /* SIOCDELRT */, LOW32 }, { 0x8914 /* SIOCSIFFLAGS */, LOW32 },
	{ 0x8916 /* SIOCSIFADDR */, LOW32 }, { 0x8922 /* SIOCSIFMTU */, LOW32 },
	{ 0x8923 /* SIOCSIFNAME */, LOW32 }, { 0x8924 /* SIOCSIFHWADDR */, LOW32 } };
static const uint32_t refuse_clones[] = { 0x40049409 /* FICLONE */, 0x4020940d /* FICLONERANGE */ };

/* Options that reach far into the kernel: level, first and last option. */
static const uint32_t refuse_options[][3] = { { 6 /* TCP */, 31, 31 /* ULP */ },
	{ 1 /* SOCKET */, 26, 26 /* ATTACH_FILTER */ }, { 1, 50, 52 /* BPF, REUSEPORT */ },
	{ 1, 60, 60 /* ZEROCOPY */ }, { 0 /* IP */, 16, 17 /* IPSEC, XFRM */ },
	{ 0, 64, 72 /* netfilter */ }, { 0, 96, 99 /* arptables */ },
	{ 0, 128, 131 /* ebtables */ }, { 41 /* IPV6 */, 34, 35 }, { 41, 64, 72 },
	{ 282 /* TLS */, 0, 8 } };

/* Calls with message flags, and which argument holds them. */
static const struct {
	const char *name;
	unsigned argument;
} flagged[] = { { "sendto", 3 }, { "sendmsg", 2 }, { "sendmmsg", 3 }, { "recvfrom", 3 },
	{ "recvmsg", 2 }, { "recvmmsg", 3 } };

static const uint32_t refuse_prctls[] = { 28 /* SET_SECUREBITS */, 35 /* SET_MM */,
	62 /* SCHED_CORE */, 0x59616d61 /* SET_PTRACER */ };
static const uint32_t allow_personalities[] = { 0, 8, 0x20000, 0x20008, 0xffffffff };

#define RULE_ALL(names, action) rule_all(names, ARRAY_SIZE(names), action)

static void rule_all(const char *const *names, size_t count, uint32_t action)
{
	for (size_t i = 0; i < count; i++) {
		int number = seccomp_syscall_resolve_name(names[i]);
		if (number == __NR_SCMP_ERROR) {
			fprintf(stderr, "seccomp_policy: '%s' is unknown here, left to ENOSYS\n",
				names[i]);
			continue;
		}
		if (number < 0)
			continue; /* does not exist on this architecture */
		if (is_for_zygotes && strcmp(names[i], "setns") == 0)
			continue; /* judged by its arguments */
		check(seccomp_rule_add(filter, action, number, 0), names[i]);
	}
}

static void rule(uint32_t action, const char *name, struct scmp_arg_cmp compare)
{
	int number = seccomp_syscall_resolve_name(name);
	if (number >= 0)
		check(seccomp_rule_add(filter, action, number, 1, compare), name);
}

static void rule_numbers(const int *numbers, size_t count, uint32_t action)
{
	for (size_t i = 0; i < count; i++)
		check(seccomp_rule_add(filter, action, numbers[i], 0), "a number");
}

#define NEW_NAMESPACES \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		CLONE_NEWPID | CLONE_NEWNET)
#define NEW_TIME 0x80u /* in clone this bit belongs to the exit signal */

static void refuse_bits(const char *name, uint32_t mask)
{
	for (uint32_t bit = 1; bit; bit <<= 1)
		if (mask & bit)
			rule(SCMP_ACT_ERRNO(EPERM), name, SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
}

static void allow_socket(uint32_t family, uint32_t type, uint32_t protocol)
{
	int number = seccomp_syscall_resolve_name("socket");
	check(seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 3,
		      SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, family),
		      SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, type),
		      SCMP_A2(SCMP_CMP_MASKED_EQ, LOW32, protocol)),
		"socket");
}

enum { UNIX = 1, INET = 2, INET6 = 10, NETLINK = 16 };
enum { STREAM = 1, DGRAM = 2, RAW = 3, SEQPACKET = 5 };
enum { TCP = 6, UDP = 17 };

static void allow_sockets_listed(void)
{
	allow_socket(UNIX, STREAM, 0);
	allow_socket(UNIX, DGRAM, 0);
	allow_socket(UNIX, SEQPACKET, 0);
	for (uint32_t family = INET; family <= INET6; family += INET6 - INET) {
		allow_socket(family, STREAM, 0);
		allow_socket(family, STREAM, TCP);
		allow_socket(family, DGRAM, 0);
		allow_socket(family, DGRAM, UDP);
	}
	allow_socket(NETLINK, RAW, 0 /* ROUTE */);
	allow_socket(NETLINK, DGRAM, 0);
	rule(SCMP_ACT_ALLOW, "socketpair", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, UNIX));
}

/* The errno by which a program understands that this kind of socket is not to be had. */
static void refuse_sockets(void)
{
	int number = seccomp_syscall_resolve_name("socket");
	for (uint32_t family = 0; family < 64; family++) {
		struct scmp_arg_cmp is_family = SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, family);
		if (family != UNIX)
			rule(SCMP_ACT_ERRNO(EAFNOSUPPORT), "socketpair", is_family);
		if (family != UNIX && family != INET && family != INET6 && family != NETLINK) {
			rule(SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", is_family);
			continue;
		}
		if (family == INET || family == INET6)
			check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 2, is_family,
				      SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, RAW)),
				"raw");
		for (uint32_t protocol = 1; protocol <= UDP; protocol++)
			if ((family != INET && family != INET6) ||
				(protocol != TCP && protocol != UDP))
				check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPROTONOSUPPORT),
					      number, 2, is_family,
					      SCMP_A2(SCMP_CMP_MASKED_EQ, LOW32, protocol)),
					"protocol");
		check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPROTONOSUPPORT), number, 2,
			      is_family, SCMP_A2(SCMP_CMP_GT, UDP)),
			"protocols");
	}
}

/* What makes kernels. Unlisted is ENOSYS here too. */
static void allow_zygotes_own(void)
{
	rule(SCMP_ACT_ALLOW, "setns", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, SECCOMP_JOINED));
	int number = seccomp_syscall_resolve_name("keyctl");
	check(seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 2,
		      SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, KEYCTL_JOIN_SESSION_KEYRING),
		      SCMP_A1(SCMP_CMP_EQ, 0 /* without a name */)),
		"keyctl");
}

/* The first filter: what may pass at all. Calls judged by their arguments pass here as a whole,
 * except sockets and personality, which are allowed value by value. */
static void build_allow_list(void)
{
	RULE_ALL(allow_files, SCMP_ACT_ALLOW);
	RULE_ALL(allow_memory, SCMP_ACT_ALLOW);
	RULE_ALL(allow_processes, SCMP_ACT_ALLOW);
	RULE_ALL(allow_time, SCMP_ACT_ALLOW);
	RULE_ALL(allow_sockets, SCMP_ACT_ALLOW);
	RULE_ALL(allow_ipc, SCMP_ACT_ALLOW);
	RULE_ALL(judged, SCMP_ACT_ALLOW);
	rule_numbers(allow_numbers, ARRAY_SIZE(allow_numbers), SCMP_ACT_ALLOW);
	RULE_ALL(refuse_eperm, SCMP_ACT_ERRNO(EPERM));
	rule_numbers(refuse_numbers, ARRAY_SIZE(refuse_numbers), SCMP_ACT_ERRNO(EPERM));
	for (size_t i = 0; i < ARRAY_SIZE(allow_personalities); i++)
		rule(SCMP_ACT_ALLOW, "personality",
			SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, allow_personalities[i]));
	allow_sockets_listed();
	if (is_for_zygotes)
		allow_zygotes_own();
}

static void refuse_options_listed(void)
{
	int number = seccomp_syscall_resolve_name("setsockopt");
	for (size_t i = 0; i < ARRAY_SIZE(refuse_options); i++)
		for (uint32_t option = refuse_options[i][1]; option <= refuse_options[i][2];
			option++)
			check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOPROTOOPT), number, 2,
				      SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, refuse_options[i][0]),
				      SCMP_A2(SCMP_CMP_MASKED_EQ, LOW32, option)),
				"setsockopt");
}

/* The warden has a zygote's effective uid for moments (process_act_as), and that is who may set how a
 * process is scheduled; what was lowered it could not raise again. It is 1 to its zygotes. In a
 * sandbox 1 is init, which user code may not touch either. */
static void refuse_slowing_the_warden(void)
{
	static const char *const of_a_process[] = { "sched_setscheduler", "sched_setparam",
		"sched_setattr", "sched_setaffinity" };
	const struct scmp_arg_cmp is_process[] = { SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, PRIO_PROCESS),
		SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, 1 /* IOPRIO_WHO_PROCESS */) };
	static const char *const of_some[] = { "setpriority", "ioprio_set" };
	for (size_t i = 0; i < ARRAY_SIZE(of_a_process); i++)
		rule(SCMP_ACT_ERRNO(EPERM), of_a_process[i], SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, 1));
	for (size_t i = 0; i < ARRAY_SIZE(of_some); i++)
		check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
			      seccomp_syscall_resolve_name(of_some[i]), 2, is_process[i],
			      SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, 1)),
			of_some[i]);
}

/* The second filter: what must not pass with certain arguments. It is installed after the first, so
 * that its errno is the one a caller sees where both refuse. */
static void build_refusals(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(refuse_ioctls); i++)
		rule(SCMP_ACT_ERRNO(EPERM), "ioctl",
			SCMP_A1(SCMP_CMP_MASKED_EQ, refuse_ioctls[i][1], refuse_ioctls[i][0]));
	for (size_t i = 0; i < ARRAY_SIZE(refuse_clones); i++)
		rule(SCMP_ACT_ERRNO(EOPNOTSUPP), "ioctl",
			SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, refuse_clones[i]));
	for (size_t i = 0; i < ARRAY_SIZE(refuse_prctls); i++)
		rule(SCMP_ACT_ERRNO(EPERM), "prctl",
			SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, refuse_prctls[i]));
	for (size_t i = 0; i < ARRAY_SIZE(flagged); i++)
		rule(SCMP_ACT_ERRNO(EOPNOTSUPP), flagged[i].name,
			SCMP_CMP(flagged[i].argument, SCMP_CMP_MASKED_EQ, 1 /* OOB */, 1));
	rule(SCMP_ACT_ERRNO(EPERM), "seccomp", SCMP_A1(SCMP_CMP_MASKED_EQ, 8 /* LISTENER */, 8));
	refuse_bits("clone", NEW_NAMESPACES | CLONE_PTRACE);
	if (is_for_zygotes)
		refuse_slowing_the_warden();
	else
		refuse_bits("clone", CLONE_PARENT);
	refuse_bits("unshare", NEW_NAMESPACES | NEW_TIME);
	refuse_options_listed();
	refuse_sockets();
}

static void write_program(const char *program_name)
{
	char name[] = "/tmp/seccomp-policy-XXXXXX";
	int fd = mkstemp(name);
	if (fd < 0) {
		perror("seccomp_policy: mkstemp");
		exit(1);
	}
	unlink(name);
	check(seccomp_export_bpf(filter, fd), "export");
	struct sock_filter instruction;
	lseek(fd, 0, SEEK_SET);
	printf("static const struct sock_filter %s[] = {\n", program_name);
	while (read(fd, &instruction, sizeof(instruction)) == (ssize_t)sizeof(instruction))
		printf("\t{ 0x%04x, %u, %u, 0x%08x },\n", instruction.code, instruction.jt,
			instruction.jf, instruction.k);
	printf("};\n");
	close(fd);
}

static void make_program(const char *program_name, uint32_t default_action, void (*build)(void))
{
	filter = seccomp_init(default_action);
	if (!filter)
		exit(1);
	check(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "arch");
	check(seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2), "tree");
	build();
	write_program(program_name);
	seccomp_release(filter);
}

int main(void)
{
	printf("/* Made by seccomp_policy.c. Do not edit. */\n");
	make_program("seccomp_allow_list", SCMP_ACT_ERRNO(ENOSYS), build_allow_list);
	make_program("seccomp_refusals", SCMP_ACT_ALLOW, build_refusals);
	is_for_zygotes = true;
	make_program("seccomp_zygote_allow_list", SCMP_ACT_ERRNO(ENOSYS), build_allow_list);
	make_program("seccomp_zygote_refusals", SCMP_ACT_ALLOW, build_refusals);
	return 0;
}
