/* Ids, capabilities, limits: what a process may not get back. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- ids ---- */
static const long ids[] = { 0, 999, 1000, 1001, 65534, 70000 };

static long set_uid(const void *id)
{
	return syscall(SYS_setuid, *(const long *)id);
}

static long set_gid(const void *id)
{
	return syscall(SYS_setgid, *(const long *)id);
}

static long set_uids(const void *id)
{
	long i = *(const long *)id;
	return syscall(SYS_setresuid, i, i, i);
}

static long set_gids(const void *id)
{
	long i = *(const long *)id;
	return syscall(SYS_setresgid, i, i, i);
}

static long set_effective(const void *id)
{
	return syscall(SYS_setresuid, -1L, *(const long *)id, -1L);
}

static long set_real_and_effective(const void *id)
{
	long i = *(const long *)id;
	return syscall(SYS_setreuid, i, i);
}

/* These return the old id, whatever happened; the second call shows the effect. */
static long set_fsuid(const void *id)
{
	long i = *(const long *)id;
	setfsuid((uid_t)i);
	errno = EPERM;
	return setfsuid((uid_t)-1) == (int)i ? 0 : -1;
}

static long set_groups(const void *id)
{
	gid_t group = (gid_t) * (const long *)id;
	return syscall(SYS_setgroups, 1, &group);
}

static long clear_groups(const void *argument)
{
	return syscall(SYS_setgroups, 0, NULL);
}

static int run_uids(int argc, char **argv)
{
	static const struct {
		const char *name;
		attempt run;
	} calls[] = {
		{ "setuid", set_uid },
		{ "setgid", set_gid },
		{ "setresuid", set_uids },
		{ "setresgid", set_gids },
		{ "seteuid", set_effective },
		{ "setreuid", set_real_and_effective },
		{ "setfsuid", set_fsuid },
		{ "setgroups", set_groups },
	};
	json_open(NULL, '{');
	for (size_t c = 0; c < ARRAY_SIZE(calls); c++) {
		json_open(calls[c].name, '{');
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
			char name[32];
			snprintf(name, sizeof(name), "%ld", ids[i]);
			try(name, calls[c].run, &ids[i]);
		}
		json_close('}');
	}
	json_open("others", '{');
	try("setgroups to none", clear_groups, NULL);
	json_close('}');
	json_close('}');
	return 0;
}

/* ---- capabilities ---- */
static long set_all_capabilities(const void *argument)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	memset(data, 0xff, sizeof(data));
	return syscall(SYS_capset, &head, data);
}

static long set_one_capability(const void *number)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	long n = *(const long *)number;
	data[n / 32].permitted = data[n / 32].effective = 1U << (n % 32);
	return syscall(SYS_capset, &head, data);
}

static long raise_inheritable(const void *number)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	long n = *(const long *)number;
	data[n / 32].inheritable = 1U << (n % 32);
	return syscall(SYS_capset, &head, data);
}

static long raise_ambient(const void *number)
{
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, *(const long *)number, 0, 0);
}

static long drop_bounding(const void *number)
{
	return prctl(PR_CAPBSET_DROP, *(const long *)number, 0, 0, 0);
}

static long set_securebits(const void *argument)
{
	return prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
}

static long set_keepcaps(const void *argument)
{
	return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
}

static long clear_no_new_privs(const void *argument)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

/* A file capability, as setcap writes it: all of them, effective. */
static long give_file_capability(const void *argument)
{
	struct vfs_cap_data data = { .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE };
	data.data[0].permitted = data.data[1].permitted = 0xffffffff;
	int fd = open("/tmp/probe-capability", O_CREAT | O_WRONLY, 0755);
	if (fd < 0)
		return -1;
	return fsetxattr(fd, "security.capability", &data, XATTR_CAPS_SZ_2, 0);
}

static const long powers[] = { CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETUID, CAP_SETGID,
	CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_SYS_ADMIN };

static void try_powers(const char *key, attempt run)
{
	json_open(key, '{');
	for (size_t i = 0; i < ARRAY_SIZE(powers); i++) {
		char name[32];
		snprintf(name, sizeof(name), "%ld", powers[i]);
		try(name, run, &powers[i]);
	}
	json_close('}');
}

static int run_caps(int argc, char **argv)
{
	json_open(NULL, '{');
	try_powers("capset", set_one_capability);
	try_powers("inheritable", raise_inheritable);
	try_powers("ambient", raise_ambient);
	try_powers("bounding drop", drop_bounding);
	json_open("others", '{');
	try("capset all", set_all_capabilities, NULL);
	try("securebits", set_securebits, NULL);
	try("no_new_privs off", clear_no_new_privs, NULL);
	try("file capability", give_file_capability, NULL);
	try("keepcaps", set_keepcaps, NULL); /* harmless: no id can change */
	json_close('}');
	json_close('}');
	return 0;
}

/* ---- a file that would change who one is ---- */
static void print_ids(void)
{
	uid_t uid[3];
	gid_t gid[3];
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	getresuid(&uid[0], &uid[1], &uid[2]);
	getresgid(&gid[0], &gid[1], &gid[2]);
	syscall(SYS_capget, &head, data);
	json_open(NULL, '{');
	json_format("uid", "%u %u %u", uid[0], uid[1], uid[2]);
	json_format("gid", "%u %u %u", gid[0], gid[1], gid[2]);
	json_format("permitted", "%08x%08x", data[1].permitted, data[0].permitted);
	json_format("effective", "%08x%08x", data[1].effective, data[0].effective);
	json_number("groups", getgroups(0, NULL));
	json_close('}');
}

static int run_ids(int argc, char **argv)
{
	print_ids();
	return 0;
}

/* ---- limits ---- */
static const char *const limit_names[] = { "CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC",
	"NOFILE", "MEMLOCK", "AS", "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME" };

static long raise_limit(const void *which)
{
	long limit = *(const long *)which;
	struct rlimit value;
	if (getrlimit((unsigned)limit, &value) < 0)
		return -1;
	if (value.rlim_max == RLIM_INFINITY)
		return 0;
	value.rlim_max++;
	return setrlimit((unsigned)limit, &value);
}

static long limit_of_first(const void *which)
{
	struct rlimit value = { 0 };
	return prlimit(1, (unsigned)*(const long *)which, &value, NULL);
}

static void limit_number(rlim_t value)
{
	if (value == RLIM_INFINITY)
		json_text(NULL, "unlimited");
	else
		json_number(NULL, (int64_t)value);
}

static int run_rlimits(int argc, char **argv)
{
	json_open(NULL, '{');
	for (long i = 0; i < (long)ARRAY_SIZE(limit_names); i++) {
		struct rlimit value = { 0 };
		getrlimit((unsigned)i, &value);
		json_open(limit_names[i], '{');
		json_open("values", '[');
		limit_number(value.rlim_cur);
		limit_number(value.rlim_max);
		json_close(']');
		try("raise", raise_limit, &i);
		try("of pid 1", limit_of_first, &i);
		json_close('}');
	}
	json_close('}');
	return 0;
}

/* ---- prctl and personality ---- */
struct option {
	const char *name;
	int number;
	long arguments[4];
};

static long set_option(const void *argument)
{
	const struct option *o = argument;
	const long *a = o->arguments;
	return prctl(o->number, a[0], a[1], a[2], a[3]);
}

static long set_personality(const void *value)
{
	return syscall(SYS_personality, *(const long *)value);
}

static int run_prctl(int argc, char **argv)
{
	static char word[] = "probe";
	static const struct option options[] = {
		{ "SET_MM", 35, { 1, 0x10000, 0, 0 } },
		{ "SET_PTRACER", 0x59616d61, { -1, 0, 0, 0 } },
		{ "SCHED_CORE", 62, { 1, 0, 0, 0 } },
		{ "SET_SECUREBITS", PR_SET_SECUREBITS, { 0, 0, 0, 0 } },
		{ "SET_NAME", PR_SET_NAME, { (long)word, 0, 0, 0 } },
		{ "GET_DUMPABLE", PR_GET_DUMPABLE, { 0 } },
		{ "SET_PDEATHSIG", PR_SET_PDEATHSIG, { 0 } },
		{ "SET_CHILD_SUBREAPER", PR_SET_CHILD_SUBREAPER, { 1 } },
	};
	static const long personalities[] = { 0, 8, 0x20000, 0x20008, 0xffffffff, 0x40000,
		0x0400000, 6 };
	json_open(NULL, '{');
	json_open("prctl", '{');
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		try(options[i].name, set_option, &options[i]);
	json_close('}');
	json_open("personality", '{');
	for (size_t i = 0; i < ARRAY_SIZE(personalities); i++) {
		char name[24];
		snprintf(name, sizeof(name), "%#lx", personalities[i]);
		try(name, set_personality, &personalities[i]);
	}
	json_close('}');
	json_close('}');
	return 0;
}

/* ---- scheduling ---- */
static long be_nice(const void *value)
{
	return setpriority(PRIO_PROCESS, 0, (int)*(const long *)value);
}

static long be_realtime(const void *policy)
{
	struct sched_param parameters = { .sched_priority = 1 };
	return sched_setscheduler(0, (int)*(const long *)policy, &parameters);
}

static long be_deadline(const void *argument)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { sizeof(attributes), 6, 0, 0, 0, 10000000, 20000000, 20000000 };
	return syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static long io_realtime(const void *argument)
{
	return syscall(SYS_ioprio_set, 1, 0, (1 << 13) | 0);
}

static int run_sched(int argc, char **argv)
{
	static const long minus_one = -1, minus_twenty = -20, fifo = SCHED_FIFO,
			  round_robin = SCHED_RR;
	json_open(NULL, '{');
	try("nice -1", be_nice, &minus_one);
	try("nice -20", be_nice, &minus_twenty);
	try("SCHED_FIFO", be_realtime, &fifo);
	try("SCHED_RR", be_realtime, &round_robin);
	try("SCHED_DEADLINE", be_deadline, NULL);
	try("io realtime", io_realtime, NULL);
	json_close('}');
	return 0;
}

const struct probe_command credential_commands[] = {
	{ "uids", run_uids, "every call that changes an id, with mapped and unmapped ids" },
	{ "caps", run_caps, "ways to get capabilities back" },
	{ "ids", run_ids, "own ids and capabilities (for copies that would change them)" },
	{ "rlimits-raise", run_rlimits, "all limits, raising each, and those of pid 1" },
	{ "prctl", run_prctl, "options and personalities" },
	{ "sched", run_sched, "priorities above the own" },
	{ 0 },
};
