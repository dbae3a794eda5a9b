/*
 * See sandbox.h.
 *
 * The end: SIGKILL to init takes all processes of its pid namespace along; kernels, whose parent is
 * the warden, are reaped here. The box is removed when both are gone, which can take a moment.
 */
#include "warden/sandbox.h"

#include "base/fd.h"
#include "base/log.h"
#include "warden/birth.h"
#include "warden/pause.h"
#include "warden/pool.h"
#include "warden/template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define START_LIMIT_MS 25000
#define REMOVAL_RETRY_MS 3
#define REMOVAL_TRIES 2000
#define TRIES_IN_PEACE 20
#define PIDFD_SIGNAL(pidfd, number) syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0)

/* ---- the end ---- */

/* For the log. Whether it was a client or the clock that asked is in the api's line. */
static const char *end_words(enum sandbox_end end)
{
	static const char *const words[] = { [SANDBOX_END_RELEASED] = "asked for",
		[SANDBOX_END_FAILED] = "it never came to life",
		[SANDBOX_END_HOST] = "its init died, or the daemon ends",
		[SANDBOX_END_MEMORY] = "the memory limit" };
	return (size_t)end < ARRAY_SIZE(words) ? words[end] : "?";
}

static void tell_ended(struct sandbox *sandbox)
{
	struct warden_sandbox_ended ended = {
		.header = warden_header(WARDEN_SANDBOX_ENDED, 0),
		.sandbox = sandbox->id,
		.reason = sandbox->end,
		.status = sandbox->init_status,
	};
	warden_send(sandbox->warden, &ended, sizeof(ended), NULL, 0);
}

static struct sandbox *sandbox_free(struct sandbox *sandbox)
{
	if (!sandbox)
		return NULL;
	loop_forget(&sandbox->control);
	loop_timer_stop(&sandbox->timer);
	loop_timer_stop(&sandbox->standby_timer);
	fd_close(&sandbox->control_fd);
	fd_close(&sandbox->files_fd);
	fd_close(&sandbox->init_pidfd);
	if (sandbox->slice)
		slice_give(&sandbox->warden->slices, &sandbox->template->slices, sandbox->slice);
	if (sandbox->template)
		template_unuse(sandbox->template);
	if (sandbox->is_claimed && !list_is_empty(&sandbox->link)) {
		sandbox->warden->sandbox_count--;
		table_remove(&sandbox->warden->table, sandbox);
	}
	list_remove(&sandbox->link);
	free(sandbox);
	return NULL;
}
CLEANUP_FUNCTION(struct sandbox *, sandbox_free);

static bool has_kernels(const struct sandbox *sandbox)
{
	for (unsigned i = 0; i < KERNEL_PLACES; i++)
		if (sandbox->kernels[i])
			return true;
	return false;
}

static void try_to_remove(struct sandbox *sandbox);

static void on_remove_again(struct loop_timer *timer)
{
	try_to_remove(CONTAINER_OF(timer, struct sandbox, timer));
}

/* All that its init took along has ended. What still is there was never in its pid namespace: a process
 * of the template's zygote, which can enter the groups of its sandboxes. */
static void end_strangers(const struct sandbox *sandbox)
{
	char group[sizeof(sandbox->box) + 16];
	snprintf(group, sizeof(group), "box/%s/work", sandbox->box);
	cgroup_side_kill(&sandbox->warden->cgroups, group);
	snprintf(group, sizeof(group), "box/%s", sandbox->box);
	cgroup_side_kill(&sandbox->warden->cgroups, group);
}

/* The last act; frees the sandbox when nothing is left of it. */
static void try_to_remove(struct sandbox *sandbox)
{
	struct warden *warden = sandbox->warden;
	if (sandbox->init_pid || has_kernels(sandbox))
		return;
	if (!cgroup_box_remove(&warden->cgroups, sandbox->box)) {
		if (sandbox->removal_tries >= TRIES_IN_PEACE)
			end_strangers(sandbox);
		if (sandbox->removal_tries++ < REMOVAL_TRIES) {
			loop_timer_start(
				&warden->loop, &sandbox->timer, REMOVAL_RETRY_MS, on_remove_again);
			return;
		}
		log_write(
			LOG_ERROR, "sandbox.cgroup", sandbox->name, "its cgroup cannot be removed");
		sandbox->slice = 0; /* who is in it may have its ids: they stay taken */
	}
	if (sandbox->is_claimed) {
		log_write(LOG_INFO, "sandbox.ended", sandbox->name, "gone: %s",
			end_words(sandbox->end));
		tell_ended(sandbox);
	}
	sandbox_free(sandbox);
	pool_wake(warden); /* there is room */
	if (warden->is_stopping && list_is_empty(&warden->sandboxes))
		loop_stop(&warden->loop);
}

static void leave_starting(struct sandbox *sandbox, enum sandbox_state state)
{
	if (sandbox->state == SANDBOX_STARTING && sandbox->is_claimed)
		sandbox->warden->waiting_count--;
	sandbox->state = state;
}

void sandbox_end(struct sandbox *sandbox, enum sandbox_end reason)
{
	if (sandbox->state == SANDBOX_ENDING)
		return;
	leave_starting(sandbox, SANDBOX_ENDING);
	sandbox->end = reason;
	loop_forget(&sandbox->control);
	loop_timer_stop(&sandbox->timer);
	pool_on_end(sandbox);
	if (sandbox->init_pid)
		PIDFD_SIGNAL(sandbox->init_pidfd, SIGKILL);
	for (unsigned i = 0; i < KERNEL_PLACES; i++)
		if (sandbox->kernels[i])
			kernel_stop(sandbox->kernels[i]);
	pause_give_up(sandbox); /* what is frozen cannot die */
	/* kernels that were only asked for are gone now; those with a process are reaped later */
	try_to_remove(sandbox);
}

static void fail_start(struct sandbox *sandbox, const char *message, const char *hint)
{
	struct error err;
	error_set(&err, ERROR_SANDBOX_START, "the sandbox did not start: %s", message);
	if (hint && *hint)
		error_hint(&err, "%s", hint);
	log_error("sandbox.start", sandbox->name, &err);
	if (sandbox->is_claimed)
		warden_send_failed(sandbox->warden, sandbox->claim_serial, &err);
	sandbox_end(sandbox, SANDBOX_END_FAILED);
}

static void on_start_too_long(struct loop_timer *timer)
{
	fail_start(CONTAINER_OF(timer, struct sandbox, timer), "it took too long", NULL);
}

/* ---- the begin ---- */

void sandbox_tell_claimed(struct sandbox *sandbox, const char *from)
{
	bool has_other_box = strcmp(sandbox->box, sandbox->name) != 0;
	log_write(LOG_INFO, "sandbox.started", sandbox->name, "template '%s', slice %u%s%s%s",
		sandbox->template->about.name, sandbox->slice, has_other_box ? ", box " : "",
		has_other_box ? sandbox->box : "", from);
	struct warden_claim claimed =
		sandbox_describe(sandbox, WARDEN_CLAIMED, sandbox->claim_serial);
	warden_send(sandbox->warden, &claimed, sizeof(claimed), &sandbox->control_fd, 1);
}

/* Init's word, or why there is none. */
static bool take_ready(struct sandbox *sandbox, struct wire_packet *packet)
{
	struct nursery_init_ready ready = { 0 };
	if (packet->size == sizeof(ready))
		memcpy(&ready, packet->bytes, sizeof(ready));
	ready.message[sizeof(ready.message) - 1] = ready.hint[sizeof(ready.hint) - 1] = '\0';
	if (!ready.is_ready)
		fail_start(sandbox, packet->size ? ready.message : "its init ended", ready.hint);
	return ready.is_ready;
}

static void on_ready(struct loop_source *source, uint32_t events)
{
	struct sandbox *sandbox = CONTAINER_OF(source, struct sandbox, control);
	struct wire_packet packet = { 0 };
	struct error err;
	if (wire_receive(source->fd, &packet, &err) == WIRE_NOTHING)
		return;
	if (!take_ready(sandbox, &packet)) {
		wire_packet_deinit(&packet);
		return;
	}
	loop_forget(source);
	loop_timer_stop(&sandbox->timer);
	leave_starting(sandbox, SANDBOX_LIVE);
	if (sandbox->is_claimed)
		sandbox_tell_claimed(sandbox, "");
	else
		sandbox->files_fd = wire_packet_take(&packet, 0);
	wire_packet_deinit(&packet);
	pool_wake(sandbox->warden);
}

static struct sandbox *sandbox_new(struct warden *warden, const struct sandbox_plan *plan)
{
	struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	if (!sandbox)
		return NULL;
	*sandbox = (struct sandbox){ .warden = warden,
		.template = plan->template,
		.id = plan->id,
		.limits = plan->limits,
		.is_claimed = plan->is_claimed,
		.claim_serial = plan->claim_serial,
		.init_pidfd = -1,
		.control_fd = -1,
		.files_fd = -1 };
	list_init(&sandbox->link);
	list_init(&sandbox->pool_link);
	id_to_text(plan->id.bytes, SANDBOX_ID_SIZE, sandbox->name);
	memcpy(sandbox->box, sandbox->name, sizeof(sandbox->box));
	template_use(sandbox->template);
	return sandbox;
}

static void enlist(struct sandbox *sandbox)
{
	struct warden *warden = sandbox->warden;
	list_append(&warden->sandboxes, &sandbox->link);
	if (sandbox->init_pid) {
		sandbox->init = (struct child){ .sandbox = sandbox, .pid = sandbox->init_pid };
		table_add_child(&warden->table, &sandbox->init);
	}
	if (!sandbox->is_claimed)
		return;
	warden->sandbox_count++;
	warden->waiting_count++;
	table_add(&warden->table, sandbox);
}

struct sandbox *sandbox_make(
	struct warden *warden, const struct sandbox_plan *plan, struct error *err)
{
	CLEANUP(sandbox_free) struct sandbox *sandbox = sandbox_new(warden, plan);
	if (!sandbox)
		return error_no_memory(err), NULL;
	if (!slice_take(&warden->slices, &plan->template->slices, &sandbox->slice, err))
		return NULL;
	bool is_born = birth_give(sandbox, err) && fd_set_nonblocking(sandbox->control_fd, true) &&
		       loop_watch(&warden->loop, &sandbox->control, sandbox->control_fd, EPOLLIN,
			       on_ready, err);
	if (!is_born && sandbox->init_pid == 0)
		return NULL;
	/* From here on it lives in the list, and ends through it. */
	enlist(sandbox);
	struct sandbox *kept = TAKE(&sandbox);
	if (is_born) {
		loop_timer_start(&warden->loop, &kept->timer, START_LIMIT_MS, on_start_too_long);
		return kept;
	}
	sandbox_end(kept, SANDBOX_END_FAILED);
	return NULL;
}

struct sandbox *sandbox_find(struct warden *warden, const struct sandbox_id *id)
{
	return table_find(&warden->table, id);
}

static void on_init_exit(struct sandbox *sandbox, int status)
{
	struct warden_usage usage;
	sandbox_usage(sandbox, &usage);
	bool is_memory = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
			 usage.oom_kills > sandbox->oom_seen;
	sandbox->init_pid = 0;
	sandbox->init_status = status;
	if (sandbox->state == SANDBOX_STARTING)
		fail_start(sandbox, "its init ended", NULL);
	else if (sandbox->state == SANDBOX_LIVE)
		sandbox_end(sandbox, is_memory ? SANDBOX_END_MEMORY : SANDBOX_END_HOST);
	else
		try_to_remove(sandbox);
}

bool sandbox_on_exit(struct warden *warden, pid_t pid, int status)
{
	struct child *child = table_find_child(&warden->table, pid);
	if (!child)
		return false;
	table_remove_child(&warden->table, child);
	if (child->kernel)
		kernel_on_exit(child->kernel, status);
	else
		on_init_exit(child->sandbox, status);
	return true;
}

void sandbox_on_kernel_gone(struct sandbox *sandbox)
{
	if (sandbox->state == SANDBOX_ENDING)
		try_to_remove(sandbox);
	else if (!sandbox->is_claimed)
		pool_wake(sandbox->warden); /* a standby is missing */
}

uint64_t sandbox_oom_kills(const struct sandbox *sandbox)
{
	return cgroup_box_oom_kills(&sandbox->warden->cgroups, sandbox->box);
}

void sandbox_usage(const struct sandbox *sandbox, struct warden_usage *ret_usage)
{
	struct cgroup_usage usage = { 0 };
	cgroup_box_usage(&sandbox->warden->cgroups, sandbox->box, &usage, NULL);
	*ret_usage = (struct warden_usage){ .header = warden_header(WARDEN_USAGE_ANSWER, 0),
		.sandbox = sandbox->id,
		.memory_bytes = usage.memory_bytes,
		.memory_peak = usage.memory_peak,
		.memory_limit = usage.memory_limit,
		.oom_kills = usage.oom_kills,
		.cpu_us = usage.cpu_us,
		.processes = usage.processes,
		.process_limit = usage.process_limit,
		.pids_refused = usage.pids_refused,
		.pid = (uint32_t)sandbox->init_pid };
}

/* The root of its init as it stands, not a path walked in a tree that user code edits. */
void sandbox_files_usage(const struct sandbox *sandbox, struct warden_usage *usage)
{
	char path[48];
	struct statfs files;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)sandbox->init_pid);
	cleanup_close int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &files) < 0)
		return;
	uint64_t block = (uint64_t)files.f_bsize;
	usage->files_limit = files.f_blocks * block;
	usage->files_bytes = (files.f_blocks - files.f_bfree) * block;
	usage->inode_limit = files.f_files;
	usage->inodes = files.f_files - files.f_ffree;
}

struct warden_claim sandbox_describe(const struct sandbox *sandbox, uint16_t op, uint32_t serial)
{
	struct warden_claim claim = { .header = warden_header(op, serial),
		.sandbox = sandbox->id,
		.limits = sandbox->limits,
		.is_paused = sandbox->pause != PAUSE_NONE };
	memcpy(claim.template_name, sandbox->template->about.name, sizeof(claim.template_name));
	return claim;
}

struct cgroup_limits sandbox_group_limits(const struct wire_limits *limits)
{
	return (struct cgroup_limits){ .memory_bytes = limits->memory_bytes,
		.processes = limits->processes,
		.cpu_milli = limits->cpu_milli };
}
