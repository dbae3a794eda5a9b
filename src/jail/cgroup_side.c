/* Groups beside the boxes, of what is not a sandbox and has limits of its own all the same: a template's
 * zygote, the builder of templates. See cgroup.h. */
#include "jail/cgroup.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROCS_BYTES (256 << 10) /* of a list of processes: far more than a group may have */

static bool write_limit(
	int dir_fd, const char *group, const char *file, uint64_t limit, struct error *err)
{
	char path[128], text[32];
	snprintf(path, sizeof(path), "%s/%s", group, file);
	snprintf(text, sizeof(text), "%ju", (uintmax_t)limit);
	return fd_write_kernel_file(dir_fd, path, text, err);
}

/* Swap is counted in where the system counts it; memsw may not be below the limit, nor rise after it. */
static bool write_limits(const struct cgroup_tree *tree, const char *group,
	const struct cgroup_limits *limits, struct error *err)
{
	int memory = tree->dirs[CGROUP_MEMORY];
	int pids = tree->dirs[tree->is_v2 ? 0 : CGROUP_PIDS];
	const char *file = tree->is_v2 ? "memory.max" : "memory.limit_in_bytes";
	const char *swap = tree->is_v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
	uint64_t with_swap = tree->is_v2 ? 0 : limits->memory_bytes;
	write_limit(memory, group, swap, with_swap, NULL);
	if (!write_limit(memory, group, file, limits->memory_bytes, err))
		return false;
	write_limit(memory, group, swap, with_swap, NULL);
	return write_limit(pids, group, "pids.max", limits->processes, err);
}

bool cgroup_side_make(const struct cgroup_tree *tree, const char *group,
	const struct cgroup_limits *limits, struct error *err)
{
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++)
		if (tree->dirs[i] >= 0 && mkdirat(tree->dirs[i], group, 0755) < 0 &&
			errno != EEXIST)
			return error_from_os(err, errno, "cannot make the cgroup '%s'", group);
	return write_limits(tree, group, limits, err);
}

static void kill_all_in(int dir_fd, const char *group)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	cleanup_free char *text = fd_read_file(dir_fd, path, PROCS_BYTES, NULL, NULL);
	char *end = text;
	for (char *at = text; at && *at; at = end + 1) {
		long pid = strtol(at, &end, 10);
		if (pid <= 1 || *end != '\n') /* 0: of a namespace beside ours */
			break;
		kill((pid_t)pid, SIGKILL);
	}
}

/* On version 1 a process may have entered the group in some hierarchies only. */
void cgroup_side_kill(const struct cgroup_tree *tree, const char *group)
{
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++)
		if (tree->dirs[i] >= 0)
			kill_all_in(tree->dirs[i], group);
}

bool cgroup_side_remove(const struct cgroup_tree *tree, const char *group)
{
	bool is_gone = true;
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++)
		if (tree->dirs[i] >= 0 && unlinkat(tree->dirs[i], group, AT_REMOVEDIR) < 0 &&
			errno != ENOENT)
			is_gone = false;
	return is_gone;
}
