/*
 * See cgroup.h. Which hierarchies there are is read from /proc/self/cgroup and mountinfo once, by
 * the keeper; after that all is done below the descriptors of our own folders, so that the warden,
 * which sees no cgroup mount, can do its part.
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

static const char *const controllers[CGROUP_HIERARCHIES] = { "memory", "pids", "cpu", "freezer",
	"cpuacct" };

#define INIT_PROCESSES 64 /* room of init beside the sandbox's own processes */
#define CPU_PERIOD_US 100000

/* How many there are: only the last may be missing. */
static unsigned hierarchies(const struct cgroup_tree *tree)
{
	if (tree->is_v2)
		return 1;
	return tree->dirs[CGROUP_CPUACCT] >= 0 ? CGROUP_HIERARCHIES : CGROUP_CPUACCT;
}

/* Version 1: the box has no inner group there. */
static bool is_for_box(const struct cgroup_tree *tree, unsigned index)
{
	return !tree->is_v2 && (index == CGROUP_MEMORY || index == CGROUP_CPUACCT);
}

static unsigned freezer_index(const struct cgroup_tree *tree)
{
	return tree->is_v2 ? 0 : CGROUP_FREEZER;
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
		if (asprintf(&folder, "%s%s", point, strcmp(place + cut, "/") ? place + cut : "") <
			0)
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

/* Where cpu counts the time itself, its hierarchy is enough. */
static bool settle_counter(struct cgroup_tree *tree)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/cpuacct.usage", tree->parents[CGROUP_CPU]);
	if (access(path, F_OK) < 0)
		return true;
	free(tree->parents[CGROUP_CPUACCT]);
	tree->parents[CGROUP_CPUACCT] = NULL;
	return true;
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
		if (i == CGROUP_CPUACCT)
			return settle_counter(tree);
		if (tree->parents[i])
			continue;
		error_set(err, ERROR_DEGRADED, "the cgroup controller '%s' is not there",
			controllers[i]);
		return error_hint(err,
			"mount it (v1: mount -t cgroup -o %s cgroup /sys/fs/cgroup/%s), or "
			"use a cgroup v2 host with memory, pids and cpu delegated",
			controllers[i], controllers[i]);
	}
	return true;
}

/* Version 2: a group passes controllers on only if it holds no process and says so. */
static bool pass_controllers_on(int dir_fd, const char *group, struct error *err)
{
	char file[160];
	snprintf(file, sizeof(file), "%s/cgroup.subtree_control", group);
	return fd_write_kernel_file(dir_fd, file, "+memory +pids +cpu", err);
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
		if (fchownat(dir_fd, file, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 &&
			errno != ENOENT)
			return error_from_os(err, errno, "cannot hand on '%s'", file);
	}
	return true;
}

/* One that has groups and no processes. */
static bool make_parent(const struct cgroup_tree *tree, unsigned index, const char *path,
	uid_t owner, struct error *err)
{
	return make_group(tree->dirs[index], path, owner, err) &&
	       (!tree->is_v2 || pass_controllers_on(tree->dirs[index], path, err));
}

static bool make_tree_in(struct cgroup_tree *tree, unsigned index, uid_t owner, struct error *err)
{
	cleanup_close int parent = open(tree->parents[index], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return error_from_os(
			err, errno, "cannot open the cgroup '%s'", tree->parents[index]);
	groups_clear_leftovers(tree->parents[index]);
	if (tree->is_v2 && !pass_controllers_on(parent, ".", err))
		return error_hint(err,
			"start the daemon in a cgroup of its own without processes above "
			"it, e.g. systemd-run --scope -p Delegate=yes");
	if (!make_group(parent, tree->name, owner, err))
		return false;
	tree->dirs[index] = openat(parent, tree->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree->dirs[index] < 0)
		return error_from_os(err, errno, "cannot open the cgroup '%s'", tree->name);
	int dir = tree->dirs[index];
	return (!tree->is_v2 || pass_controllers_on(dir, ".", err)) &&
	       make_group(dir, "own", owner, err) &&
	       make_parent(tree, index, "zygote", owner, err) &&
	       make_parent(tree, index, "box", owner, err);
}

bool cgroup_tree_make(struct cgroup_tree *tree, uid_t owner, struct error *err)
{
	*tree = (struct cgroup_tree)CGROUP_TREE_NONE;
	snprintf(tree->name, sizeof(tree->name), GROUPS_PREFIX "%d", (int)getpid());
	if (!find_parents(tree, err))
		return false;
	groups_thaw_leftovers(tree->parents[freezer_index(tree)]);
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++)
		if (tree->parents[i] && !make_tree_in(tree, i, owner, err)) {
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

/* On version 1 "tasks": whoever enters has one thread, and to move itself a thread needs no lock on
 * all forks of the machine. With cgroup.procs each entry waits for that, 5 to 20 ms (seen on
 * 6.18). */
static bool open_entry(const struct cgroup_tree *tree, unsigned index, const char *group,
	int *ret_fd, struct error *err)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", group, tree->is_v2 ? "cgroup.procs" : "tasks");
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

static bool write_number(
	int dir_fd, const char *group, const char *file, uint64_t number, struct error *err)
{
	char path[128], text[32];
	snprintf(path, sizeof(path), "%s/%s", group, file);
	snprintf(text, sizeof(text), "%ju", (uintmax_t)number);
	return fd_write_kernel_file(dir_fd, path, text, err);
}

static bool write_limits_v1(const struct cgroup_tree *tree, const char *box, const char *work,
	const struct cgroup_limits *limits, struct error *err)
{
	int memory = tree->dirs[CGROUP_MEMORY];
	/* Only kernels with swap accounting have memsw; it may never be below the limit itself, so
	 * it goes first where that rises, and last where it falls. */
	write_number(memory, box, "memory.memsw.limit_in_bytes", limits->memory_bytes, NULL);
	if (!write_number(memory, box, "memory.limit_in_bytes", limits->memory_bytes, err))
		return false;
	write_number(memory, box, "memory.memsw.limit_in_bytes", limits->memory_bytes, NULL);
	return write_number(tree->dirs[CGROUP_PIDS], box, "pids.max",
		       (uint64_t)limits->processes + INIT_PROCESSES, err) &&
	       write_number(tree->dirs[CGROUP_PIDS], work, "pids.max", limits->processes, err) &&
	       write_number(
		       tree->dirs[CGROUP_CPU], work, "cpu.cfs_period_us", CPU_PERIOD_US, err) &&
	       write_number(tree->dirs[CGROUP_CPU], work, "cpu.cfs_quota_us",
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
		if (is_made && tree->is_v2)
			is_made = pass_controllers_on(tree->dirs[i], box, err) &&
				  make_group(tree->dirs[i], init, (uid_t)-1, err);
		if (is_made && !is_for_box(tree, i))
			is_made = make_group(tree->dirs[i], work, work_owner, err);
	}
	if (is_made)
		is_made = tree->is_v2 ? write_limits_v2(tree, box, work, limits, err)
				      : write_limits_v1(tree, box, work, limits, err);
	if (!is_made)
		cgroup_box_remove(tree, id);
	return is_made;
}

/* The memory that was asked for, in whole pages as the kernel counts them. */
static uint64_t in_pages(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	return bytes / page * page;
}

bool cgroup_box_limit(const struct cgroup_tree *tree, const char *id,
	const struct cgroup_limits *limits, struct error *err)
{
	char box[64], work[72];
	struct cgroup_limits seen;
	snprintf(box, sizeof(box), "box/%s", id);
	snprintf(work, sizeof(work), "box/%s/work", id);
	bool is_written = tree->is_v2 ? write_limits_v2(tree, box, work, limits, err)
				      : write_limits_v1(tree, box, work, limits, err);
	if (!is_written || !cgroup_box_limits(tree, id, &seen, err))
		return false;
	if (in_pages(seen.memory_bytes) != in_pages(limits->memory_bytes) ||
		seen.processes != limits->processes || seen.cpu_milli != limits->cpu_milli)
		return error_set(
			err, ERROR_INTERNAL, "the limits of a box did not become what was asked");
	return true;
}

bool cgroup_box_rename(
	const struct cgroup_tree *tree, const char *id, const char *new_id, struct error *err)
{
	char from[64], to[64];
	snprintf(from, sizeof(from), "box/%s", id);
	snprintf(to, sizeof(to), "box/%s", new_id);
	if (tree->is_v2)
		return false;
	for (unsigned i = 0; i < hierarchies(tree); i++) {
		if (renameat(tree->dirs[i], from, tree->dirs[i], to) == 0)
			continue;
		error_from_os(err, errno, "cannot rename the cgroup '%s'", from);
		while (i-- > 0)
			renameat(tree->dirs[i], to, tree->dirs[i], from);
		return false;
	}
	return true;
}

bool cgroup_box_init_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err)
{
	char group[72];
	snprintf(group, sizeof(group), tree->is_v2 ? "box/%s/init" : "box/%s", id);
	return cgroup_entry(tree, group, ret_fds, ret_count, err);
}

/* The groups of box and work in those hierarchies; closes what it opened on failure. */
static bool open_entries(const struct cgroup_tree *tree, const char *id, bool is_command,
	int *ret_fds, unsigned *ret_count, struct error *err)
{
	char box[64], work[72];
	*ret_count = 0;
	snprintf(box, sizeof(box), "box/%s", id);
	snprintf(work, sizeof(work), "box/%s/work", id);
	for (unsigned i = 0; i < hierarchies(tree); i++) {
		if (is_command && is_for_box(tree, i))
			continue;
		const char *group = is_for_box(tree, i) ? box : work;
		if (open_entry(tree, i, group, &ret_fds[*ret_count], err)) {
			++*ret_count;
			continue;
		}
		while (*ret_count > 0)
			fd_close(&ret_fds[--*ret_count]);
		return false;
	}
	return true;
}

bool cgroup_box_work_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err)
{
	return open_entries(tree, id, false, ret_fds, ret_count, err);
}

bool cgroup_box_command_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err)
{
	return open_entries(tree, id, true, ret_fds, ret_count, err);
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
	for (unsigned i = 0; i < hierarchies(tree); i++)
		groups_remove_below(tree->dirs[i], "box");
}

bool cgroup_enter(const int *fds, unsigned count, struct error *err)
{
	for (unsigned i = 0; i < count; i++)
		if (write(fds[i], "0", 1) != 1)
			return error_from_os(err, errno, "cannot enter a cgroup");
	return true;
}
