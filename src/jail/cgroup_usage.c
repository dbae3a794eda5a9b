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

uint64_t cgroup_box_oom_kills(const struct cgroup_tree *tree, const char *id)
{
	char box[64];
	snprintf(box, sizeof(box), "box/%s", id);
	return read_keyed(tree->dirs[CGROUP_MEMORY], box,
		tree->is_v2 ? "memory.events" : "memory.oom_control", "oom_kill");
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
		usage->cpu_us =
			read_number(tree->dirs[CGROUP_CPUACCT], box, "cpuacct.usage") / 1000;
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

bool cgroup_box_usage(const struct cgroup_tree *tree, const char *id,
	struct cgroup_usage *ret_usage, struct error *err)
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

/* On version 2 one line: "quota period". */
static uint32_t read_cpu_v2(int dir_fd, const char *work)
{
	char path[128];
	unsigned long long quota = 0, period = 1;
	snprintf(path, sizeof(path), "%s/cpu.max", work);
	cleanup_free char *text = fd_read_file(dir_fd, path, 64, NULL, NULL);
	if (!text || sscanf(text, "%llu %llu", &quota, &period) != 2 || period == 0)
		return 0;
	return (uint32_t)(quota * 1000 / period);
}

static uint32_t read_cpu_v1(int dir_fd, const char *work)
{
	uint64_t period = read_number(dir_fd, work, "cpu.cfs_period_us");
	return period ? (uint32_t)(read_number(dir_fd, work, "cpu.cfs_quota_us") * 1000 / period)
		      : 0;
}

bool cgroup_box_limits(const struct cgroup_tree *tree, const char *id,
	struct cgroup_limits *ret_limits, struct error *err)
{
	char box[64], work[72];
	struct cgroup_usage usage;
	snprintf(box, sizeof(box), "box/%s", id);
	snprintf(work, sizeof(work), "box/%s/work", id);
	if (!cgroup_box_usage(tree, id, &usage, err))
		return false;
	*ret_limits = (struct cgroup_limits){ .memory_bytes = usage.memory_limit,
		.processes = usage.process_limit,
		.cpu_milli = tree->is_v2 ? read_cpu_v2(tree->dirs[0], work)
					 : read_cpu_v1(tree->dirs[CGROUP_CPU], work) };
	return true;
}

uint64_t cgroup_tree_available(const struct cgroup_tree *tree)
{
	int dir = tree->dirs[CGROUP_MEMORY];
	if (tree->is_v2 || dir < 0)
		return UINT64_MAX;
	uint64_t limit = read_keyed(dir, ".", "memory.stat", "hierarchical_memory_limit");
	if (limit == 0 || limit >= (uint64_t)1 << 60)
		return UINT64_MAX; /* none: the rest need not be added up, by us or by the system */
	uint64_t used = read_number(dir, ".", "memory.usage_in_bytes");
	uint64_t cached = read_keyed(dir, ".", "memory.stat", "total_inactive_file");
	used -= MIN(cached, used);
	return limit > used ? limit - used : 0;
}
