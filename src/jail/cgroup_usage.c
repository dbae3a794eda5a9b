/* What a box has used, from the counters of its groups: see cgroup.h. A counter that is not there
 * reads as 0. */
#include "jail/cgroup.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
	int memory = tree->dirs[CGROUP_MEMORY];
	usage->memory_bytes = read_number(memory, box, "memory.usage_in_bytes");
	usage->memory_peak = read_number(memory, box, "memory.max_usage_in_bytes");
	usage->memory_limit = read_number(memory, box, "memory.limit_in_bytes");
	usage->oom_kills = read_keyed(memory, box, "memory.oom_control", "oom_kill");
	usage->processes = (uint32_t)read_number(tree->dirs[CGROUP_PIDS], work, "pids.current");
	usage->process_limit = (uint32_t)read_number(tree->dirs[CGROUP_PIDS], work, "pids.max");
	usage->pids_refused = read_keyed(tree->dirs[CGROUP_PIDS], work, "pids.events", "max");
	if (tree->dirs[CGROUP_CPUACCT] >= 0)
		usage->cpu_us = read_number(tree->dirs[CGROUP_CPUACCT], box, "cpuacct.usage") / 1000;
	else
		usage->cpu_us = read_number(tree->dirs[CGROUP_CPU], work, "cpuacct.usage") / 1000;
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
