/* See checks.h: rights, control groups, limits, files and programs of the host. */
#include "cli/checks.h"

#include "cli/program.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The host ids that a daemon with default settings takes: docs/architecture.md says for whom. */
#define FIRST_ID 0x70000000u
#define ID_COUNT (16u * 65537u)
#define GOOD_DESCRIPTORS 16384u
#define DESCRIPTORS_A_SANDBOX 10u

/* ---- who we are ---- */

static void check_rights(struct report *report)
{
	static const struct {
		const char *name;
		unsigned bit;
	} needed[] = {
		{ "SYS_ADMIN", CAP_SYS_ADMIN },
		{ "SETUID", CAP_SETUID },
		{ "SETGID", CAP_SETGID },
		{ "CHOWN", CAP_CHOWN },
		{ "SETPCAP", CAP_SETPCAP },
		{ "KILL", CAP_KILL },
		{ "DAC_OVERRIDE", CAP_DAC_OVERRIDE },
		{ "SETFCAP", CAP_SETFCAP },
	};
	if (geteuid() != 0) {
		report_add(report, "rights", CHECK_MISSING,
			"start sandglassd as root: sudo sandglassd ...",
			"you are uid %u; the daemon needs root to start", (unsigned)geteuid());
		return;
	}
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { 0 };
	syscall(SYS_capget, &header, sets);
	char lacking[160] = "";
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (sets[needed[i].bit / 32].effective & 1u << needed[i].bit % 32)
			continue;
		size_t used = strlen(lacking);
		snprintf(lacking + used, sizeof(lacking) - used, " CAP_%s", needed[i].name);
	}
	if (lacking[0])
		report_add(report, "rights", CHECK_MISSING, "start the container with --privileged",
			"root here lacks%s", lacking);
	else
		report_add(report, "rights", CHECK_OK, NULL, "root, with all its capabilities");
}

/* ---- control groups ---- */

static bool has_word(const char *words, const char *word)
{
	size_t size = strlen(word);
	for (const char *at = words; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, size) == 0 && (at[size] == ',' || at[size] == '\0'))
			return true;
		if (!*at)
			break;
	}
	return false;
}

/* This process's path in the hierarchy with `controller`; "" asks for version 2. */
static bool own_group(const char *controller, char *path, size_t size)
{
	cleanup_free char *text = fd_read_file(AT_FDCWD, "/proc/self/cgroup", 65536, NULL, NULL);
	char *rest = NULL;
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
		line = strtok_r(NULL, "\n", &rest)) {
		char *names = strchr(line, ':');
		char *place = names ? strchr(names + 1, ':') : NULL;
		if (!place)
			continue;
		*place = '\0';
		if (*controller ? has_word(names + 1, controller) : names[1] == '\0')
			return snprintf(path, size, "%s", place + 1) < (int)size;
	}
	return false;
}

/* The folder of that group, as it is mounted here. */
static bool group_folder(const char *controller, char *folder, size_t size)
{
	char place[1024], line[4096];
	if (!own_group(controller, place, sizeof(place)))
		return false;
	FILE *file = fopen("/proc/self/mountinfo", "re");
	bool is_found = false;
	while (file && !is_found && fgets(line, sizeof(line), file)) {
		char root[1024], point[1024], type[64], options[512];
		const char *tail = strstr(line, " - ");
		if (!tail || sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2 ||
			sscanf(tail, " - %63s %*s %511s", type, options) != 2)
			continue;
		if (strcmp(type, *controller ? "cgroup" : "cgroup2") != 0 ||
			(*controller && !has_word(options, controller)))
			continue;
		size_t cut = strcmp(root, "/") == 0 ? 0 : strlen(root);
		if (strncmp(place, root, cut) != 0)
			continue;
		const char *below = strcmp(place + cut, "/") == 0 ? "" : place + cut;
		is_found = snprintf(folder, size, "%s%s", point, below) < (int)size;
	}
	if (file)
		fclose(file);
	return is_found;
}

/* Makes a group below and removes it: the only question that matters. */
static int try_group(const char *folder)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/sandglass-doctor-%d", folder, (int)getpid());
	if (mkdir(path, 0755) < 0)
		return errno;
	rmdir(path);
	return 0;
}

static void check_group(struct report *report, const char *name, const char *controller)
{
	char folder[PATH_MAX], mend[200];
	if (!group_folder(controller, folder, sizeof(folder))) {
		snprintf(mend, sizeof(mend),
			"mkdir -p /sys/fs/cgroup/%s && mount -t cgroup -o %s cgroup "
			"/sys/fs/cgroup/%s",
			controller, controller, controller);
		report_add(report, name, CHECK_MISSING, mend, "the controller is mounted nowhere");
		return;
	}
	int refusal = try_group(folder);
	if (refusal == 0)
		report_add(report, name, CHECK_OK, NULL, "version 1, %.180s", folder);
	else
		report_add(report, name, geteuid() ? CHECK_UNKNOWN : CHECK_MISSING,
			geteuid() ? "run this as root"
				  : "mount it read-write here, or start the container with "
				    "--privileged",
			"cannot make a group in %.160s: %s", folder, strerror(refusal));
}

static void check_unified(struct report *report, const char *folder)
{
	char path[PATH_MAX + 32];
	snprintf(path, sizeof(path), "%s/cgroup.controllers", folder);
	cleanup_free char *text = fd_read_file(AT_FDCWD, path, 4096, NULL, NULL);
	static const char *const needed[] = { "memory", "pids", "cpu" };
	char lacking[64] = "";
	for (size_t i = 0; text && i < ARRAY_SIZE(needed); i++)
		if (!strstr(text, needed[i]))
			snprintf(lacking + strlen(lacking), sizeof(lacking) - strlen(lacking),
				" %s", needed[i]);
	int refusal = try_group(folder);
	static const char delegate[] = "systemd-run --scope -p Delegate=yes sandglassd ...";
	if (lacking[0])
		report_add(report, "control groups", CHECK_MISSING, delegate,
			"version 2, but %.120s lacks%s", folder, lacking);
	else if (refusal)
		report_add(report, "control groups", geteuid() ? CHECK_UNKNOWN : CHECK_MISSING,
			geteuid() ? "run this as root" : delegate,
			"cannot make a group in %.160s: %s", folder, strerror(refusal));
	else
		report_add(report, "control groups", CHECK_OK, NULL, "version 2, %.180s", folder);
}

static void check_groups(struct report *report)
{
	char folder[PATH_MAX], controllers[PATH_MAX + 32];
	char ignored[1024];
	bool has_v1 = own_group("memory", ignored, sizeof(ignored));
	if (!has_v1 && group_folder("", folder, sizeof(folder))) {
		snprintf(controllers, sizeof(controllers), "%s/cgroup.controllers", folder);
		if (access(controllers, R_OK) == 0) {
			check_unified(report, folder);
			return;
		}
	}
	check_group(report, "control group memory", "memory");
	check_group(report, "control group pids", "pids");
	check_group(report, "control group cpu", "cpu");
	check_group(report, "control group freezer", "freezer");
}

/* ---- ids, limits, settings ---- */

/* Does a line NAME:FIRST:COUNT of /etc/subuid or subgid reach into our ids? */
static bool range_clashes(const char *path, char *who, size_t size)
{
	FILE *file = fopen(path, "re");
	char line[512];
	bool is_clash = false;
	while (file && !is_clash && fgets(line, sizeof(line), file)) {
		char name[128];
		unsigned long long first, count;
		if (sscanf(line, "%127[^:]:%llu:%llu", name, &first, &count) != 3)
			continue;
		is_clash =
			first < (unsigned long long)FIRST_ID + ID_COUNT && first + count > FIRST_ID;
		if (is_clash)
			snprintf(who, size, "%s gives '%s' %llu ids from %llu", path, name, count,
				first);
	}
	if (file)
		fclose(file);
	return is_clash;
}

static bool id_is_ours(uint64_t id)
{
	return id >= FIRST_ID && id < (uint64_t)FIRST_ID + ID_COUNT;
}

/* A user or group of the host with an id of ours? */
static bool someone_clashes(char *who, size_t size)
{
	bool is_clash = false;
	setpwent();
	for (struct passwd *user; !is_clash && (user = getpwent());)
		if ((is_clash = id_is_ours(user->pw_uid)))
			snprintf(who, size, "user '%s' has uid %u", user->pw_name,
				(unsigned)user->pw_uid);
	endpwent();
	setgrent();
	for (struct group *group; !is_clash && (group = getgrent());)
		if ((is_clash = id_is_ours(group->gr_gid)))
			snprintf(who, size, "group '%s' has gid %u", group->gr_name,
				(unsigned)group->gr_gid);
	endgrent();
	return is_clash;
}

static void check_ids(struct report *report)
{
	char who[200];
	if (range_clashes("/etc/subuid", who, sizeof(who)) ||
		range_clashes("/etc/subgid", who, sizeof(who)) || someone_clashes(who, sizeof(who)))
		report_add(report, "ids", CHECK_MISSING,
			"set id_base in the configuration to the first of 1048592 free ids",
			"%s, which sandboxes would share", who);
	else
		report_add(report, "ids", CHECK_OK, NULL, "%u to %u are nobody's", FIRST_ID,
			FIRST_ID + ID_COUNT - 1);
}

static void check_descriptors(struct report *report)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	unsigned long long hard = limit.rlim_max;
	if (hard >= GOOD_DESCRIPTORS)
		report_add(report, "open files", CHECK_OK, NULL, "%llu a process at most", hard);
	else
		report_add(report, "open files", CHECK_WARNING,
			"ulimit -Hn 65536, or LimitNOFILE=65536 in the unit",
			"%llu a process at most: room for about %llu sandboxes", hard,
			hard / DESCRIPTORS_A_SANDBOX);
}

static void check_core_pattern(struct report *report)
{
	cleanup_free char *text =
		fd_read_file(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096, NULL, NULL);
	if (!text)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (text[0] == '|')
		report_add(report, "core dumps", CHECK_WARNING,
			"sysctl -w kernel.core_pattern=core",
			"a crash in a sandbox starts a program of the host as root: %.150s",
			text + 1);
	else
		report_add(
			report, "core dumps", CHECK_OK, NULL, "no program of the host reads them");
}

/* ---- templates and the programs that build them ---- */

static void check_template(
	struct report *report, const char *title, const char *name, enum check_state without)
{
	char cache[PATH_MAX], path[PATH_MAX + 128], mend[128];
	if (!program_cache(cache, sizeof(cache), NULL))
		return;
	snprintf(path, sizeof(path), "%s/%s/template.json", cache, name);
	snprintf(mend, sizeof(mend), "sandglass template build %s", name);
	if (access(path, R_OK) == 0)
		report_add(report, title, CHECK_OK, NULL, "built");
	else
		report_add(report, title, without, mend, "not built in %.200s", cache);
}

static bool is_in_path(const char *program)
{
	const char *variable = getenv("PATH");
	char folders[4096];
	snprintf(folders, sizeof(folders), "%s:/usr/sbin:/sbin",
		variable ? variable : "/usr/bin:/bin");
	char *rest = NULL;
	for (char *folder = strtok_r(folders, ":", &rest); folder;
		folder = strtok_r(NULL, ":", &rest)) {
		char path[4096 + 64];
		snprintf(path, sizeof(path), "%s/%s", folder, program);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static void check_tools(struct report *report)
{
	static const struct {
		const char *program, *package;
	} tools[] = { { "mmdebstrap", "mmdebstrap" }, { "mkfs.erofs", "erofs-utils" },
		{ "python3", "python3" } };
	char lacking[100] = "", mend[160] = "apt-get install";
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		if (is_in_path(tools[i].program))
			continue;
		snprintf(lacking + strlen(lacking), sizeof(lacking) - strlen(lacking), " %s",
			tools[i].program);
		snprintf(mend + strlen(mend), sizeof(mend) - strlen(mend), " %s", tools[i].package);
	}
	if (lacking[0])
		report_add(
			report, "building templates", CHECK_WARNING, mend, "missing:%s", lacking);
	else
		report_add(report, "building templates", CHECK_OK, NULL,
			"mmdebstrap, mkfs.erofs, python3");
}

void checks_host(struct report *report)
{
	check_rights(report);
	check_groups(report);
	check_ids(report);
	check_descriptors(report);
	check_core_pattern(report);
	check_template(report, "template code-interpreter", "code-interpreter", CHECK_MISSING);
	check_template(report, "template base", "base", CHECK_WARNING);
	check_tools(report);
}
