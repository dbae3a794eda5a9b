/*
 * See claim.h. A sandbox of the pool has the default limits and becomes what the claim asks for:
 * each limit that differs is written and read back, before the api hears of it and so before
 * anything of a client runs in it. One that cannot be changed is ended, and a new one is made.
 *
 * Room: the pool never stands in a claim's way. Places and promised memory are counted without it,
 * and what is over the bound then is taken from it. A claim that is refused for lack of something
 * else (memory now, descriptors) empties the pool, so that the next one finds that much more.
 */
#include "warden/claim.h"

#include "base/fd.h"
#include "base/log.h"
#include "jail/mounts.h"
#include "warden/admission.h"
#include "warden/pool.h"
#include "warden/standby.h"
#include "warden/template.h"

#include <stdio.h>
#include <string.h>

static bool limit(uint64_t asked, uint64_t default_value, uint64_t cap, uint64_t *ret_value,
	const char *name, struct error *err)
{
	*ret_value = asked ? asked : default_value;
	if (*ret_value <= cap)
		return true;
	return error_set(
		err, ERROR_INVALID, "the limit %s is above the cap of %ju", name, (uintmax_t)cap);
}

static bool choose_limits(const struct warden *warden, const struct wire_limits *asked,
	struct wire_limits *ret_limits, struct error *err)
{
	const struct wire_limits *defaults = &warden->setup.defaults, *caps = &warden->setup.caps;
	uint64_t memory, files, inodes, processes, cpu;
	if (!limit(asked->memory_bytes, defaults->memory_bytes, caps->memory_bytes, &memory,
		    "memory", err) ||
		!limit(asked->files_bytes, defaults->files_bytes, caps->files_bytes, &files,
			"files", err) ||
		!limit(asked->inodes, defaults->inodes, caps->inodes, &inodes, "inodes", err) ||
		!limit(asked->processes, defaults->processes, caps->processes, &processes,
			"processes", err) ||
		!limit(asked->cpu_milli, defaults->cpu_milli, caps->cpu_milli, &cpu, "cpus", err))
		return false;
	*ret_limits = (struct wire_limits){ .memory_bytes = memory,
		.files_bytes = files,
		.inodes = (uint32_t)inodes,
		.processes = (uint32_t)processes,
		.cpu_milli = (uint32_t)cpu };
	return true;
}

static struct cgroup_limits group_limits(const struct wire_limits *limits)
{
	return (struct cgroup_limits){ .memory_bytes = limits->memory_bytes,
		.processes = limits->processes,
		.cpu_milli = limits->cpu_milli };
}

/* What was made with other limits gets those of the plan. */
static bool change_limits(
	struct sandbox *sandbox, const struct wire_limits *limits, struct error *err)
{
	const struct wire_limits *old = &sandbox->limits;
	struct cgroup_limits groups = group_limits(limits);
	bool is_other_group = old->memory_bytes != limits->memory_bytes ||
			      old->processes != limits->processes ||
			      old->cpu_milli != limits->cpu_milli;
	bool is_other_size =
		old->files_bytes != limits->files_bytes || old->inodes != limits->inodes;
	if (is_other_group &&
		!cgroup_box_limit(&sandbox->warden->cgroups, sandbox->box, &groups, err))
		return false;
	return !is_other_size ||
	       mounts_resize(sandbox->files_fd, limits->files_bytes, limits->inodes, err);
}

/* Where groups can be renamed the box is found by the id that clients know. */
static bool change_box(struct sandbox *sandbox, const char *name, struct error *err)
{
	struct cgroup_tree *cgroups = &sandbox->warden->cgroups;
	if (cgroups->is_v2)
		return true;
	if (!cgroup_box_rename(cgroups, sandbox->box, name, err))
		return false;
	snprintf(sandbox->box, sizeof(sandbox->box), "%s", name);
	return true;
}

/* False: the sandbox could not become what the plan says, and has to be ended. */
static bool adopt(struct sandbox *sandbox, const struct sandbox_plan *plan, struct error *err)
{
	char name[SANDBOX_ID_TEXT];
	id_to_text(plan->id.bytes, SANDBOX_ID_SIZE, name);
	if (!change_limits(sandbox, &plan->limits, err) || !change_box(sandbox, name, err))
		return false;
	pool_take(sandbox);
	fd_close(&sandbox->files_fd);
	memcpy(sandbox->name, name, sizeof(name));
	sandbox->id = plan->id;
	sandbox->limits = plan->limits;
	sandbox->is_claimed = true;
	sandbox->claim_serial = plan->claim_serial;
	sandbox->warden->sandbox_count++;
	table_add(&sandbox->warden->table, sandbox);
	standby_on_claim(sandbox);
	sandbox_tell_claimed(sandbox, ", from the pool");
	return true;
}

static bool claim_from_pool(struct sandbox_plan *plan)
{
	struct error err = { 0 };
	struct sandbox *sandbox = pool_find(plan->template);
	if (!sandbox)
		return false;
	if (adopt(sandbox, plan, &err))
		return true;
	log_error("pool.claim", sandbox->name, &err);
	sandbox_end(sandbox, SANDBOX_END_FAILED);
	return false;
}

static bool check_places(const struct warden *warden, struct error *err)
{
	if (warden->sandbox_count < warden->setup.slices)
		return true;
	return error_set(err, ERROR_HOST_FULL, "all %u places for sandboxes are taken",
		warden->setup.slices);
}

static bool plan_claim(struct warden *warden, const struct warden_claim *claim,
	struct sandbox_plan *ret_plan, struct error *err)
{
	*ret_plan = (struct sandbox_plan){ .template = template_find(warden, claim->template_name),
		.id = claim->sandbox,
		.is_claimed = true,
		.claim_serial = claim->header.serial };
	if (sandbox_find(warden, &claim->sandbox))
		return error_set(err, ERROR_PROTOCOL, "the sandbox exists already");
	if (!ret_plan->template)
		return error_set(err, ERROR_TEMPLATE_UNKNOWN, "the warden has no such template");
	return choose_limits(warden, &claim->limits, &ret_plan->limits, err);
}

bool claim_begin(struct warden *warden, const struct warden_claim *claim, struct error *err)
{
	struct sandbox_plan plan;
	if (!plan_claim(warden, claim, &plan, err))
		return false;
	pool_wake(warden); /* not while this goes on */
	bool is_met = check_places(warden, err) &&
		      admission_check(warden, plan.limits.memory_bytes, err) &&
		      (claim_from_pool(&plan) || sandbox_make(warden, &plan, err));
	if (is_met)
		pool_trim(warden);
	else
		pool_empty(warden, NULL);
	return is_met;
}
