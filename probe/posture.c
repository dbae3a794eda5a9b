/*
 * What a process is: credentials, capabilities, namespaces, descriptors, limits, signals, mounts.
 * Mostly raw text of /proc, so that what the kernel adds in later versions is seen by the tests.
 */
#include "probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define PATH_SIZE 512

/* "Key:\tvalue" lines as members. */
static void status_lines(const char *key, const char *path)
{
	char *text = read_text(path, NULL);
	if (!text) {
		json_text(key, errno_name(errno));
		return;
	}
	json_open(key, '{');
	char *rest = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *colon = strchr(line, ':');
		if (!colon)
			continue;
		*colon = 0;
		char *value = colon + 1 + strspn(colon + 1, " \t");
		json_text(line, value);
	}
	json_close('}');
	free(text);
}

static void file_text(const char *key, const char *path)
{
	size_t size = 0;
	char *text = read_text(path, &size);
	if (!text) {
		json_text(key, errno_name(errno));
		return;
	}
	while (size && text[size - 1] == '\n')
		size--;
	json_bytes(key, text, size);
	free(text);
}

static void file_lines(const char *key, const char *path)
{
	char *text = read_text(path, NULL);
	if (!text) {
		json_text(key, errno_name(errno));
		return;
	}
	json_open(key, '[');
	char *rest = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		json_text(NULL, line);
	json_close(']');
	free(text);
}

static void link_target(const char *key, const char *path)
{
	char target[4096];
	ssize_t n = readlink(path, target, sizeof(target));
	if (n < 0)
		json_text(key, errno_name(errno));
	else
		json_bytes(key, target, (size_t)n);
}

/* Calls `each` with every name of a folder that is not hidden. */
static void for_names(const char *key, const char *folder, void (*each)(const char *, const char *))
{
	DIR *dir = opendir(folder);
	if (!dir) {
		json_text(key, errno_name(errno));
		return;
	}
	json_open(key, '{');
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] != '.')
			each(folder, entry->d_name);
	}
	json_close('}');
	closedir(dir);
}

static void one_link(const char *folder, const char *name)
{
	char path[PATH_SIZE];
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) < PATH_SIZE)
		link_target(name, path);
}

static void one_descriptor(const char *folder, const char *name)
{
	char path[PATH_SIZE];
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH_SIZE)
		return;
	json_open(name, '{');
	link_target("target", path);
	struct stat about;
	if (stat(path, &about) == 0) {
		json_format("mode", "%o", about.st_mode);
		json_format("device", "%u:%u", (unsigned)(about.st_rdev >> 8),
			(unsigned)(about.st_rdev & 255));
	}
	snprintf(path, sizeof(path), "%.*sinfo/%s", (int)strlen(folder), folder, name);
	status_lines("info", path);
	json_close('}');
}

static void one_thread(const char *folder, const char *name)
{
	char path[PATH_SIZE];
	if (snprintf(path, sizeof(path), "%s/%s/status", folder, name) < PATH_SIZE)
		status_lines(name, path);
}

/* /proc/PID/limits has columns of fixed width. */
static void limits(const char *path)
{
	char *text = read_text(path, NULL);
	if (!text) {
		json_text("limits", errno_name(errno));
		return;
	}
	json_open("limits", '{');
	char *rest = NULL;
	strtok_r(text, "\n", &rest);
	for (char *line = strtok_r(NULL, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char name[27] = "", soft[24] = "", hard[24] = "";
		if (strlen(line) < 47)
			continue;
		memcpy(name, line, 26);
		for (int i = 25; i >= 0 && name[i] == ' '; i--)
			name[i] = 0;
		sscanf(line + 26, "%23s %23s", soft, hard);
		json_open(name, '[');
		json_text(NULL, soft);
		json_text(NULL, hard);
		json_close(']');
	}
	json_close('}');
	free(text);
}

static void process(const char *pid)
{
	char path[PATH_SIZE];
#define OF_PROCESS(name) (snprintf(path, sizeof(path), "/proc/%s/%s", pid, name), path)
	json_open(pid, '{');
	status_lines("status", OF_PROCESS("status"));
	for_names("ns", OF_PROCESS("ns"), one_link);
	for_names("fd", OF_PROCESS("fd"), one_descriptor);
	for_names("threads", OF_PROCESS("task"), one_thread);
	limits(OF_PROCESS("limits"));
	file_text("cmdline", OF_PROCESS("cmdline"));
	file_text("oom_score_adj", OF_PROCESS("oom_score_adj"));
	file_text("personality", OF_PROCESS("personality"));
	file_text("timers", OF_PROCESS("timers"));
	file_text("cgroup", OF_PROCESS("cgroup"));
	link_target("cwd", OF_PROCESS("cwd"));
	link_target("root", OF_PROCESS("root"));
	link_target("exe", OF_PROCESS("exe"));
	json_close('}');
#undef OF_PROCESS
}

static void own_timers(void)
{
	json_open("itimers", '[');
	for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
		struct itimerval value = { 0 };
		getitimer(which, &value);
		json_number(NULL, value.it_value.tv_sec * 1000000 + value.it_value.tv_usec);
	}
	json_close(']');
}

static void own_affinity(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		json_text("affinity", errno_name(errno));
	else
		json_number("affinity", CPU_COUNT(&set));
}

/* What only the process itself can ask. */
static void own(void)
{
	int deathsig = 0;
	stack_t stack = { 0 };
	prctl(PR_GET_PDEATHSIG, &deathsig);
	sigaltstack(NULL, &stack);
	json_open("self", '{');
	json_number("pid", getpid());
	json_number("session", getsid(0));
	json_number("deathsig", deathsig);
	json_number("dumpable", prctl(PR_GET_DUMPABLE));
	json_number("securebits", prctl(PR_GET_SECUREBITS));
	json_number("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	json_number("timer_slack", prctl(PR_GET_TIMERSLACK));
	json_number("altstack", (stack.ss_flags & SS_DISABLE) ? 0 : (int64_t)stack.ss_size);
	json_number("personality", personality(0xffffffff));
	json_number("nice", getpriority(PRIO_PROCESS, 0));
	json_number("scheduler", sched_getscheduler(0));
	json_number("io_priority", syscall(SYS_ioprio_get, 1, 0));
	own_affinity();
	own_timers();
	file_lines("mounts", "/proc/self/mountinfo");
	json_close('}');
}

static int run_posture(int argc, char **argv)
{
	json_open(NULL, '{');
	own();
	json_open("processes", '{');
	for (int i = 1; i < argc; i++)
		process(argv[i]);
	DIR *dir = argc > 1 ? NULL : opendir("/proc");
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (isdigit((unsigned char)entry->d_name[0]))
			process(entry->d_name);
	}
	json_close('}');
	json_close('}');
	return 0;
}

const struct probe_command posture_commands[] = {
	{ "posture", run_posture,
		"[PID|self...]: all about these processes (default: every visible one)" },
	{ 0 },
};
