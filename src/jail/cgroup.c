/*
 * See cgroup.h. Which hierarchies there are is read from /proc/self/cgroup and mountinfo once, by the
 * keeper; after that all is done below the descriptors of our own folders, so that the warden, which
 * sees no cgroup mount, can do its part.
 */
#include "jail/cgroup.h"

#include "base/fd.h"
#include "jail/groups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum hierarchy { MEMORY, PIDS, CPU, FREEZER };
static const char *const controllers[CGROUP_HIERARCHIES] = { "memory", "pids", "cpu", "freezer" };

#define INIT_PROCESSES 64 /* room of init beside the sandbox's own processes */
#define CPU_PERIOD_US 100000

static unsigned hierarchies(const struct cgroup_tree *tree)
{
	return tree->is_v2 ? 1 : CGROUP_HIERARCHIES;
}

static unsigned freezer_index(const struct cgroup_tree *tree)
{
	return tree->is_v2 ? 0 : FREEZER;
}

/* ---- keeper: where the groups are ---- */

/* Is `word` one of the comma-separated `words`? */
static bool has_word(const char *words, const char *word)
{
	size_t size = strlen(word);
	for (const char *at = words; at && *at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, word, size) && (at[size] == ',' || at[size] == '\0'))
			return true;
	}
	return false;
}

/* The path of this process in the hierarchy that has `controller` ("" for version 2). */
static bool own_path(const char *controller, char *path, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	bool is_found = false;
	while (file && !is_found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		char *names = strchr(line, ':');
		char *place = names ? strchr(names + 1, ':') : NULL;
		if (!place)
			continue;
		*place++ = '\0';
		names++;
		if (*controller ? !has_word(names, controller) : *names != '\0')
			continue;
		snprintf(path, size, "%s", place);
		is_found = true;
	}
	if (file)
		fclose(file);
	return is_found;
}

/* Splits a mountinfo line: root and mount point, file system type, super options. */
static bool parse_mount(char *line, char **root, char **point, char **type, char **options)
{
	char *rest = strstr(line, " - ");
	char *save = NULL;
	if (!rest)
		return false;
	*rest = '\0';
	strtok_r(line, " ", &save);
	strtok_r(NULL, " ", &save);
	strtok_r(NULL, " ", &save);
	*root = strtok_r(NULL, " ", &save);
	*point = strtok_r(NULL, " ", &save);
	*type = strtok_r(rest + 3, " ", &save);
	strtok_r(NULL, " ", &save);
	*options = strtok_r(NULL, " \n", &save);
	return *root && *point && *type;
}

/* The folder in which this process's group of `controller` is seen. NULL: no such mount. */
static char *start_folder(const char *controller)
{
	char place[PATH_MAX / 2], line[PATH_MAX];
	char *folder = NULL;
	if (!own_path(controller, place, sizeof(place)))
		return NULL;
	FILE *file = fopen("/proc/self/mountinfo", "re");
	while (file && !folder && fgets(line, sizeof(line), file)) {
		char *root, *point, *type, *options;
		if (!parse_mount(line, &root, &point, &type, &options))
			continue;
		bool is_it = *controller ? !strcmp(type, "cgroup") && options &&
						   has_word(options, controller)
					 : !strcmp(type, "cgroup2");
		if (!is_it)
			continue;
		size_t cut = strcmp(root, "/") ? strlen(root) : 0;
		if (cut && strncmp(place, root, cut) != 0)
			continue;
		if (asprintf(&folder, "%s%s", point, strcmp(place + cut, "/") ? place + cut : "") < 0)
			folder = NULL;
	}
	if (file)
		fclose(file);
	return folder;
}

static bool v2_has_controllers(const char *folder)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/cgroup.controllers", folder);
	cleanup_free char *text = fd_read_file(AT_FDCWD, path, 4096, NULL, NULL);
	return text && strstr(text, "memory") && strstr(text, "pids") && strstr(text, "cpu");
}

static bool find_parents(struct cgroup_tree *tree, struct error *err)
{
	char *folder = start_folder("");
	if (folder && v2_has_controllers(folder)) {
		tree->is_v2 = true;
		tree->parents[0] = folder;
		return true;
	}
	free(folder);
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++) {
		tree->parents[i] = start_folder(controllers[i]);
		if (tree->parents[i])
			continue;
		error_set(err, ERROR_DEGRADED, "the cgroup controller '%s' is not there", controllers[i]);
		return error_hint(err, "mount it (v1: mount -t cgroup -o %s cgroup /sys/fs/cgroup/%s), or "
				       "use a cgroup v2 host with memory, pids and cpu delegated",
			controllers[i], controllers[i]);
	}
	return true;
}

/* Version 2: a group passes controllers on only if it holds no process and says so. */
static bool pass_controllers_on(int dir_fd, struct error *err)
{
	return fd_write_kernel_file(dir_fd, "cgroup.subtree_control", "+memory +pids +cpu", err);
}

static const char *const delegated[] = { "cgroup.procs", "tasks", "cgroup.subtree_control",
	"cgroup.threads" };

/* Makes a group and gives it, with the files by which processes enter, to its owner. */
static bool make_group(int dir_fd, const char *path, uid_t owner, struct error *err)
{
	if (mkdirat(dir_fd, path, 0755) < 0 && errno != EEXIST)
		return error_from_os(err, errno, "cannot make the cgroup '%s'", path);
	if (owner == (uid_t)-1)
		return true;
	if (fchownat(dir_fd, path, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return error_from_os(err, errno, "cannot hand on the cgroup '%s'", path);
	for (unsigned i = 0; i < ARRAY_SIZE(delegated); i++) {
		char file[160];
		snprintf(file, sizeof(file), "%s/%s", path, delegated[i]);
		if (fchownat(dir_fd, file, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
			return error_from_os(err, errno, "cannot hand on '%s'", file);
	}
	return true;
}

static bool make_tree_in(struct cgroup_tree *tree, unsigned index, uid_t owner, struct error *err)
{
	cleanup_close int parent =
		open(tree->parents[index], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return error_from_os(err, errno, "cannot open the cgroup '%s'", tree->parents[index]);
	groups_clear_leftovers(tree->parents[index]);
	if (tree->is_v2 && !pass_controllers_on(parent, err))
		return error_hint(err, "start the daemon in a cgroup of its own without processes above "
				       "it, e.g. systemd-run --scope -p Delegate=yes");
	if (!make_group(parent, tree->name, owner, err))
		return false;
	tree->dirs[index] = openat(parent, tree->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree->dirs[index] < 0)
		return error_from_os(err, errno, "cannot open the cgroup '%s'", tree->name);
	if (tree->is_v2 && !pass_controllers_on(tree->dirs[index], err))
		return false;
	return make_group(tree->dirs[index], "own", owner, err) &&
	       make_group(tree->dirs[index], "zygote", owner, err) &&
	       make_group(tree->dirs[index], "box", owner, err) &&
	       (!tree->is_v2 || ({
			cleanup_close int box = openat(
				tree->dirs[index], "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			pass_controllers_on(box, err);
		}));
}

bool cgroup_tree_make(struct cgroup_tree *tree, uid_t owner, struct error *err)
{
	*tree = (struct cgroup_tree)CGROUP_TREE_NONE;
	snprintf(tree->name, sizeof(tree->name), GROUPS_PREFIX "%d", (int)getpid());
	if (!find_parents(tree, err))
		return false;
	groups_thaw_leftovers(tree->parents[freezer_index(tree)]);
	for (unsigned i = 0; i < hierarchies(tree); i++)
		if (!make_tree_in(tree, i, owner, err)) {
			cgroup_tree_remove(tree);
			return false;
		}
	return true;
}

void cgroup_tree_remove(struct cgroup_tree *tree)
{
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++)
		if (tree->parents[i]) {
			cleanup_close int parent =
				open(tree->parents[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			groups_remove(parent, tree->name);
		}
}

void cgroup_tree_deinit(struct cgroup_tree *tree)
{
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++) {
		fd_close(&tree->dirs[i]);
		free(tree->parents[i]);
		tree->parents[i] = NULL;
	}
}

bool cgroup_tree_put_own(const struct cgroup_tree *tree, pid_t pid, struct error *err)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", (int)pid);
	for (unsigned i = 0; i < hierarchies(tree); i++)
		if (!fd_write_kernel_file(tree->dirs[i], "own/cgroup.procs", text, err))
			return false;
	return true;
}

/* ---- warden: boxes ---- */

static bool open_entry(const struct cgroup_tree *tree, unsigned index, const char *group, int *ret_fd,
	struct error *err)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	*ret_fd = openat(tree->dirs[index], path, O_WRONLY | O_CLOEXEC);
	if (*ret_fd < 0)
		return error_from_os(err, errno, "cannot open '%s'", path);
	return true;
}

bool cgroup_entry(const struct cgroup_tree *tree, const char *group, int *ret_fds,
	unsigned *ret_count, struct error *err)
{
	for (unsigned i = 0; i < hierarchies(tree); i++) {
		if (open_entry(tree, i, group, &ret_fds[i], err))
			continue;
		while (i-- > 0)
			fd_close(&ret_fds[i]);
		return false;
	}
	*ret_count = hierarchies(tree);
	return true;
}

static bool write_number(int dir_fd, const char *group, const char *file, uint64_t number,
	struct error *err)
{
	char path[128], text[32];
	snprintf(path, sizeof(path), "%s/%s", group, file);
	snprintf(text, sizeof(text), "%ju", (uintmax_t)number);
	return fd_write_kernel_file(dir_fd, path, text, err);
}

static bool write_limits_v1(const struct cgroup_tree *tree, const char *box, const char *work,
	const struct cgroup_limits *limits, struct error *err)
{
	if (!write_number(
		    tree->dirs[MEMORY], box, "memory.limit_in_bytes", limits->memory_bytes, err))
		return false;
	/* Only kernels with swap accounting have it; it must come after the limit itself. */
	write_number(
		tree->dirs[MEMORY], box, "memory.memsw.limit_in_bytes", limits->memory_bytes, NULL);
	return write_number(tree->dirs[PIDS], box, "pids.max",
		       (uint64_t)limits->processes + INIT_PROCESSES, err) &&
	       write_number(tree->dirs[PIDS], work, "pids.max", limits->processes, err) &&
	       write_number(tree->dirs[CPU], work, "cpu.cfs_period_us", CPU_PERIOD_US, err) &&
	       write_number(tree->dirs[CPU], work, "cpu.cfs_quota_us",
		       (uint64_t)limits->cpu_milli * CPU_PERIOD_US / 1000, err);
}

static bool write_limits_v2(const struct cgroup_tree *tree, const char *box, const char *work,
	const struct cgroup_limits *limits, struct error *err)
{
	char path[128], text[64];
	snprintf(path, sizeof(path), "%s/cpu.max", work);
	snprintf(text, sizeof(text), "%u %u", limits->cpu_milli * (CPU_PERIOD_US / 1000),
		CPU_PERIOD_US);
	return write_number(tree->dirs[0], box, "memory.max", limits->memory_bytes, err) &&
	       (write_number(tree->dirs[0], box, "memory.swap.max", 0, NULL) || true) &&
	       write_number(tree->dirs[0], work, "pids.max", limits->processes, err) &&
	       fd_write_kernel_file(tree->dirs[0], path, text, err);
}

bool cgroup_box_make(const struct cgroup_tree *tree, const char *id,
	const struct cgroup_limits *limits, uid_t work_owner, struct error *err)
{
	char box[64], work[72], init[72];
	snprintf(box, sizeof(box), "box/%s", id);
	snprintf(work, sizeof(work), "box/%s/work", id);
	snprintf(init, sizeof(init), "box/%s/init", id);
	bool is_made = true;
	for (unsigned i = 0; is_made && i < hierarchies(tree); i++) {
		is_made = make_group(tree->dirs[i], box, tree->is_v2 ? work_owner : (uid_t)-1, err);
		if (is_made && tree->is_v2) {
			cleanup_close int fd =
				openat(tree->dirs[i], box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			is_made = pass_controllers_on(fd, err) &&
				  make_group(tree->dirs[i], init, (uid_t)-1, err);
		}
		if (is_made && i != MEMORY)
			is_made = make_group(tree->dirs[i], work, work_owner, err);
		else if (is_made && tree->is_v2)
			is_made = make_group(tree->dirs[i], work, work_owner, err);
	}
	if (is_made)
		is_made = tree->is_v2 ? write_limits_v2(tree, box, work, limits, err)
				      : write_limits_v1(tree, box, work, limits, err);
	if (!is_made)
		cgroup_box_remove(tree, id);
	return is_made;
}

bool cgroup_box_init_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err)
{
	char group[72];
	snprintf(group, sizeof(group), tree->is_v2 ? "box/%s/init" : "box/%s", id);
	return cgroup_entry(tree, group, ret_fds, ret_count, err);
}

bool cgroup_box_work_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err)
{
	char box[64], work[72];
	snprintf(box, sizeof(box), "box/%s", id);
	snprintf(work, sizeof(work), "box/%s/work", id);
	for (unsigned i = 0; i < hierarchies(tree); i++) {
		const char *group = !tree->is_v2 && i == MEMORY ? box : work;
		if (open_entry(tree, i, group, &ret_fds[i], err))
			continue;
		while (i-- > 0)
			fd_close(&ret_fds[i]);
		return false;
	}
	*ret_count = hierarchies(tree);
	return true;
}

static uint64_t read_number(int dir_fd, const char *group, const char *file)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", group, file);
	cleanup_free char *text = fd_read_file(dir_fd, path, 64, NULL, NULL);
	return text ? strtoull(text, NULL, 10) : 0;
}

/* The number behind "key " in a file of keys and numbers. */
static uint64_t read_keyed(int dir_fd, const char *group, const char *file, const char *key)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", group, file);
	cleanup_free char *text = fd_read_file(dir_fd, path, 4096, NULL, NULL);
	size_t size = strlen(key);
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, size) && line[size] == ' ')
			return strtoull(line + size + 1, NULL, 10);
	}
	return 0;
}

static void read_usage_v1(const struct cgroup_tree *tree, const char *box, const char *work,
	struct cgroup_usage *usage)
{
	int memory = tree->dirs[MEMORY];
	usage->memory_bytes = read_number(memory, box, "memory.usage_in_bytes");
	usage->memory_peak = read_number(memory, box, "memory.max_usage_in_bytes");
	usage->memory_limit = read_number(memory, box, "memory.limit_in_bytes");
	usage->oom_kills = read_keyed(memory, box, "memory.oom_control", "oom_kill");
	usage->processes = (uint32_t)read_number(tree->dirs[PIDS], work, "pids.current");
	usage->process_limit = (uint32_t)read_number(tree->dirs[PIDS], work, "pids.max");
	usage->pids_refused = read_keyed(tree->dirs[PIDS], work, "pids.events", "max");
	usage->cpu_us = read_number(tree->dirs[CPU], work, "cpuacct.usage") / 1000;
}

static void read_usage_v2(const struct cgroup_tree *tree, const char *box, const char *work,
	struct cgroup_usage *usage)
{
	int dir = tree->dirs[0];
	usage->memory_bytes = read_number(dir, box, "memory.current");
	usage->memory_peak = read_number(dir, box, "memory.peak");
	usage->memory_limit = read_number(dir, box, "memory.max");
	usage->oom_kills = read_keyed(dir, box, "memory.events", "oom_kill");
	usage->processes = (uint32_t)read_number(dir, work, "pids.current");
	usage->process_limit = (uint32_t)read_number(dir, work, "pids.max");
	usage->pids_refused = read_keyed(dir, work, "pids.events", "max");
	usage->cpu_us = read_keyed(dir, work, "cpu.stat", "usage_usec");
}

bool cgroup_box_usage(const struct cgroup_tree *tree, const char *id, struct cgroup_usage *ret_usage,
	struct error *err)
{
	char box[64], work[72];
	snprintf(box, sizeof(box), "box/%s", id);
	snprintf(work, sizeof(work), "box/%s/work", id);
	if (faccessat(tree->dirs[0], box, F_OK, 0) < 0)
		return error_from_os(err, errno, "the sandbox has no cgroup");
	*ret_usage = (struct cgroup_usage){ 0 };
	if (tree->is_v2)
		read_usage_v2(tree, box, work, ret_usage);
	else
		read_usage_v1(tree, box, work, ret_usage);
	return true;
}

uint64_t cgroup_tree_available(const struct cgroup_tree *tree)
{
	int dir = tree->dirs[MEMORY];
	if (tree->is_v2 || dir < 0)
		return UINT64_MAX;
	uint64_t limit = read_keyed(dir, ".", "memory.stat", "hierarchical_memory_limit");
	uint64_t used = read_number(dir, ".", "memory.usage_in_bytes");
	uint64_t cached = read_keyed(dir, ".", "memory.stat", "total_inactive_file");
	used -= MIN(cached, used);
	if (limit == 0 || limit >= (uint64_t)1 << 60)
		return UINT64_MAX;
	return limit > used ? limit - used : 0;
}

bool cgroup_box_remove(const struct cgroup_tree *tree, const char *id)
{
	static const char *const parts[] = { "box/%s/work", "box/%s/init", "box/%s" };
	bool is_gone = true;
	for (unsigned i = 0; i < hierarchies(tree); i++)
		for (unsigned k = 0; k < ARRAY_SIZE(parts); k++) {
			char path[80];
			snprintf(path, sizeof(path), parts[k], id);
			if (unlinkat(tree->dirs[i], path, AT_REMOVEDIR) < 0 && errno != ENOENT)
				is_gone = false;
		}
	return is_gone;
}

void cgroup_boxes_clear(const struct cgroup_tree *tree)
{
	for (unsigned i = 0; i < hierarchies(tree); i++) {
		int fd = openat(tree->dirs[i], "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd < 0 ? NULL : fdopendir(fd);
		struct dirent *entry;
		while (dir && (entry = readdir(dir)))
			if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
				groups_remove(dirfd(dir), entry->d_name);
		if (dir)
			closedir(dir);
	}
}

bool cgroup_enter(const int *fds, unsigned count, struct error *err)
{
	for (unsigned i = 0; i < count; i++)
		if (write(fds[i], "0", 1) != 1)
			return error_from_os(err, errno, "cannot enter a cgroup");
	return true;
}
