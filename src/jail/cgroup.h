/*
 * Control groups: the limits of a sandbox, version 1 (one hierarchy a controller) and version 2.
 *
 *   <start group>/sandglass-<pid>/own        warden, api
 *                                /zygote/<n> a template's zygote, and what that has started
 *                                /build      the builder of templates, and what that has started
 *                                /box/<id>   init of a sandbox and the memory of all of it
 *                                /box/<id>/work   kernels and commands: processes, cpu, freezer
 *   (the time counter, where it is apart, has box/<id> only, like memory)
 *   version 2: box/<id>/init holds init, since inner groups hold no processes.
 *
 * On version 1 a process can only be moved by one whose uid, when it opened the file, equals its
 * own. So nobody is moved: everyone enters by itself, by writing "0" to descriptors made for it.
 */
#ifndef JAIL_CGROUP_H
#define JAIL_CGROUP_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* Version 1: one a controller. Version 2 uses the first only. What counts processor time is often
 * in the hierarchy of cpu, and then has none of its own; it sets no limit, so it may be missing. */
enum cgroup_hierarchy { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_FREEZER, CGROUP_CPUACCT };
#define CGROUP_HIERARCHIES 5

struct cgroup_tree {
	bool is_v2;
	int dirs[CGROUP_HIERARCHIES];      /* owned: the sandglass-<pid> folders; -1 when unused */
	char name[32];                     /* "sandglass-<pid>" */
	char *parents[CGROUP_HIERARCHIES]; /* keeper only, owned: the start group's folders */
};

#define CGROUP_TREE_NONE \
	{ \
		.dirs = { -1, -1, -1, -1, -1 } \
	}

struct cgroup_limits {
	uint64_t memory_bytes;
	uint32_t processes;
	uint32_t cpu_milli; /* 1000 = one core */
};

struct cgroup_usage {
	uint64_t memory_bytes, memory_peak, memory_limit, oom_kills, cpu_us, pids_refused;
	uint32_t processes, process_limit;
};

/* Keeper, as root: clears trees of dead keepers beside the start group, makes a fresh tree, and
 * gives it to `owner`. Errors name the controller that is missing, with a hint. */
bool cgroup_tree_make(struct cgroup_tree *tree, uid_t owner, struct error *err);
/* Removes what cgroup_tree_make made; the processes must be gone. Idempotent. */
void cgroup_tree_remove(struct cgroup_tree *tree);
void cgroup_tree_deinit(struct cgroup_tree *tree);
/* Keeper: moves a process it started into "own". */
bool cgroup_tree_put_own(const struct cgroup_tree *tree, pid_t pid, struct error *err);

/* Opens the files by which a process of one thread enters a group below the tree ("zygote",
 * "box/<id>/work"); closes what it opened on failure. ret_fds has room for CGROUP_HIERARCHIES. */
bool cgroup_entry(const struct cgroup_tree *tree, const char *group, int *ret_fds,
	unsigned *ret_count, struct error *err);

/* Makes box/<id> with all its limits written. */
bool cgroup_box_make(const struct cgroup_tree *tree, const char *id,
	const struct cgroup_limits *limits, uid_t work_owner, struct error *err);
/* Other limits for a box that is there, whatever they were; read back. */
bool cgroup_box_limit(const struct cgroup_tree *tree, const char *id,
	const struct cgroup_limits *limits, struct error *err);
/* Gives a box another id, version 1 only: version 2 has no renaming, and says false without err. */
bool cgroup_box_rename(
	const struct cgroup_tree *tree, const char *id, const char *new_id, struct error *err);
/* Descriptors by which init enters box/<id>. */
bool cgroup_box_init_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err);
/* Descriptors by which a kernel enters: memory and time of the box, the rest of its work group. */
bool cgroup_box_work_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err);
/* Descriptors by which a command of init enters: it has memory and time of the box from init. */
bool cgroup_box_command_entry(const struct cgroup_tree *tree, const char *id, int *ret_fds,
	unsigned *ret_count, struct error *err);
/* In cgroup_usage.c, as the next two: one counter of those below, which is asked for often. */
uint64_t cgroup_box_oom_kills(const struct cgroup_tree *tree, const char *id);
/* The limits that a box has. */
bool cgroup_box_limits(const struct cgroup_tree *tree, const char *id,
	struct cgroup_limits *ret_limits, struct error *err);
bool cgroup_box_usage(const struct cgroup_tree *tree, const char *id,
	struct cgroup_usage *ret_usage, struct error *err);
/* What memory the tree may still take before a limit above it is met, caches not counted as used;
 * UINT64_MAX when there is none (or on version 2, where those above cannot be seen). */
uint64_t cgroup_tree_available(const struct cgroup_tree *tree);
/* True when it is gone; false while processes are still in it. */
bool cgroup_box_remove(const struct cgroup_tree *tree, const char *id);
/* Removes every box left by an earlier warden. */
void cgroup_boxes_clear(const struct cgroup_tree *tree);

/* ---- cgroup_side.c: groups below the tree that are no boxes ---- */

/* Makes one, or gives one that is there other limits of memory and processes. */
bool cgroup_side_make(const struct cgroup_tree *tree, const char *group,
	const struct cgroup_limits *limits, struct error *err);
/* Kills what is in it now, in whichever hierarchy; also of a box. What forks at that moment is met by the next call. */
void cgroup_side_kill(const struct cgroup_tree *tree, const char *group);
/* True when it is gone; false while processes are still in it. */
bool cgroup_side_remove(const struct cgroup_tree *tree, const char *group);

/* The step of the one who enters: writes "0" to each. */
bool cgroup_enter(const int *fds, unsigned count, struct error *err);

#endif
