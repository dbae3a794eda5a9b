/*
 * See sandbox.h. The child that becomes init enters its cgroups by itself, while its uid is still the
 * warden's (on cgroup v1 nobody else may put it there), then waits for its id maps and is exec'd: only
 * then does its memory belong to the new user namespace.
 *
 * The end: SIGKILL to init takes all processes of its pid namespace along; kernels, whose parent is the
 * warden, are reaped here. The box is removed when both are gone, which can take a moment.
 */
#include "warden/sandbox.h"

#include "base/fd.h"
#include "base/kernel.h"
#include "base/log.h"
#include "jail/ids.h"
#include "jail/lockdown.h"
#include "jail/process.h"
#include "warden/admission.h"
#include "warden/pause.h"
#include "warden/template.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define START_LIMIT_MS 25000
#define REMOVAL_RETRY_MS 3
#define REMOVAL_TRIES 2000
#define PIDFD_SIGNAL(pidfd, number) syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0)

/* ---- numbers ---- */

static bool take_slice(struct warden *warden, uint32_t *ret_slice, struct error *err)
{
	for (uint32_t i = 0; i < warden->setup.slices; i++) {
		uint32_t slice = 1 + (warden->next_slice + i) % warden->setup.slices;
		if (warden->slices[slice / 8] & (1u << slice % 8))
			continue;
		warden->slices[slice / 8] |= (uint8_t)(1u << slice % 8);
		warden->next_slice = slice; /* not the one just freed: late writes meet nobody */
		*ret_slice = slice;
		return true;
	}
	return error_set(err, ERROR_HOST_FULL, "all %u places for sandboxes are taken",
		warden->setup.slices);
}

static void give_slice(struct warden *warden, uint32_t slice)
{
	warden->slices[slice / 8] &= (uint8_t) ~(1u << slice % 8);
}

static bool limit(uint64_t asked, uint64_t default_value, uint64_t cap, uint64_t *ret_value,
	const char *name, struct error *err)
{
	*ret_value = asked ? asked : default_value;
	if (*ret_value <= cap)
		return true;
	return error_set(err, ERROR_INVALID, "the limit %s is above the cap of %ju", name,
		(uintmax_t)cap);
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

/* ---- birth ---- */

struct birth {
	int groups[CGROUP_HIERARCHIES]; /* init enters these */
	unsigned group_count;
	int work[CGROUP_HIERARCHIES];   /* init keeps these, for its commands */
	unsigned work_count;
	int control_fd;                 /* init's end */
	int hold_fd;                    /* a byte comes when the maps are written */
};

static void birth_close(struct birth *birth)
{
	for (unsigned i = 0; i < birth->group_count; i++)
		fd_close(&birth->groups[i]);
	for (unsigned i = 0; i < birth->work_count; i++)
		fd_close(&birth->work[i]);
	fd_close(&birth->control_fd);
	fd_close(&birth->hold_fd);
}

/* In the child: cgroups, ids, and exec. It says nothing on failure but its exit. */
static void become_init(struct sandbox *sandbox, struct birth *birth)
{
	struct error err = { 0 };
	char files[24], inodes[16], count[8], degraded[8], byte;
	/* On v1 the memory group is entered by whoever is to be charged; commands inherit it from
	 * init, so init keeps the other three. On v2 there is one. */
	bool is_v2 = sandbox->warden->cgroups.is_v2;
	unsigned skip = is_v2 ? 0 : 1, kept = birth->work_count - skip;
	int keep[1 + CGROUP_HIERARCHIES] = { birth->control_fd };
	snprintf(files, sizeof(files), "%ju", (uintmax_t)sandbox->limits.files_bytes);
	snprintf(inodes, sizeof(inodes), "%u", sandbox->limits.inodes);
	snprintf(count, sizeof(count), "%u", kept);
	snprintf(degraded, sizeof(degraded), "%u", sandbox->warden->setup.degraded);
	char *words[] = { "sandglass-init", sandbox->template->place, files, inodes, count,
		degraded, NULL };
	memcpy(keep + 1, birth->work + skip, kept * sizeof(int));
	lockdown_signals();
	int program = -1;
	bool is_ready = cgroup_enter(birth->groups, birth->group_count, &err) &&
			read(birth->hold_fd, &byte, 1) == 1 &&
			(program = fd_duplicate(sandbox->warden->init_program)) >= 0 &&
			unshare(CLONE_NEWCGROUP) == 0 && setsid() >= 0 &&
			setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0;
	if (!is_ready) {
		log_write(LOG_ERROR, "sandbox.birth", sandbox->name, "cannot become init: %s",
			err.message[0] ? err.message : strerror(errno));
		_exit(1);
	}
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	int high = fcntl(program, F_DUPFD_CLOEXEC, 64);
	for (unsigned i = 0; i <= kept; i++)
		keep[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, 128);
	for (unsigned i = 0; i <= kept; i++)
		dup2(keep[i], 3 + (int)i);
	syscall(SYS_close_range, 3 + kept + 1, high - 1, 0);
	syscall(SYS_close_range, high + 1, ~0u, 0);
	process_close_standard(false, &err);
	process_exec(high, words, &err);
	log_error("sandbox.birth", sandbox->name, &err);
	_exit(1);
}

static bool write_maps(const struct sandbox *sandbox, struct error *err)
{
	char map[128];
	uint32_t base = sandbox->slice * IDS_SLICE_SIZE;
	snprintf(map, sizeof(map), "0 %u 1\n%u %u 1\n%u %u 1\n%u %u 1\n", IDS_NURSERY_IMAGE, IDS_INIT,
		base, IDS_USER, base + 1, IDS_NOBODY, base + 2);
	return process_write_maps(sandbox->init_pid, map, err);
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
	fd_close(&sandbox->control_fd);
	fd_close(&sandbox->init_pidfd);
	if (sandbox->slice)
		give_slice(sandbox->warden, sandbox->slice);
	if (sandbox->template)
		template_unuse(sandbox->template);
	if (!list_is_empty(&sandbox->link))
		sandbox->warden->sandbox_count--;
	list_remove(&sandbox->link);
	free(sandbox);
	return NULL;
}
CLEANUP_FUNCTION(struct sandbox *, sandbox_free);

static bool has_kernels(const struct sandbox *sandbox)
{
	for (unsigned i = 0; i < KERNELS_A_SANDBOX; i++)
		if (sandbox->kernels[i])
			return true;
	return false;
}

static void try_to_remove(struct sandbox *sandbox);

static void on_remove_again(struct loop_timer *timer)
{
	try_to_remove(CONTAINER_OF(timer, struct sandbox, timer));
}

/* The last act; frees the sandbox when nothing is left of it. */
static void try_to_remove(struct sandbox *sandbox)
{
	struct warden *warden = sandbox->warden;
	if (sandbox->init_pid || has_kernels(sandbox))
		return;
	if (!cgroup_box_remove(&warden->cgroups, sandbox->name)) {
		if (sandbox->removal_tries++ < REMOVAL_TRIES) {
			loop_timer_start(
				&warden->loop, &sandbox->timer, REMOVAL_RETRY_MS, on_remove_again);
			return;
		}
		log_write(LOG_ERROR, "sandbox.cgroup", sandbox->name, "its cgroup cannot be removed");
	}
	log_write(LOG_INFO, "sandbox.ended", sandbox->name, "reason %d", (int)sandbox->end);
	tell_ended(sandbox);
	sandbox_free(sandbox);
	if (warden->is_stopping && list_is_empty(&warden->sandboxes))
		loop_stop(&warden->loop);
}

void sandbox_end(struct sandbox *sandbox, enum sandbox_end reason)
{
	if (sandbox->state == SANDBOX_ENDING)
		return;
	sandbox->state = SANDBOX_ENDING;
	sandbox->end = reason;
	loop_forget(&sandbox->control);
	loop_timer_stop(&sandbox->timer);
	if (sandbox->init_pid)
		PIDFD_SIGNAL(sandbox->init_pidfd, SIGKILL);
	for (unsigned i = 0; i < KERNELS_A_SANDBOX; i++)
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
	warden_send_failed(sandbox->warden, sandbox->claim_serial, &err);
	sandbox_end(sandbox, SANDBOX_END_FAILED);
}

static void on_start_too_long(struct loop_timer *timer)
{
	fail_start(CONTAINER_OF(timer, struct sandbox, timer), "it took too long", NULL);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
	struct sandbox *sandbox = CONTAINER_OF(source, struct sandbox, control);
	struct nursery_init_ready ready = { 0 };
	ssize_t n = recv(source->fd, &ready, sizeof(ready), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(ready) || !ready.is_ready) {
		ready.message[sizeof(ready.message) - 1] = ready.hint[sizeof(ready.hint) - 1] = '\0';
		fail_start(sandbox, n > 0 ? ready.message : "its init ended", ready.hint);
		return;
	}
	loop_forget(source);
	loop_timer_stop(&sandbox->timer);
	sandbox->state = SANDBOX_LIVE;
	log_write(LOG_INFO, "sandbox.started", sandbox->name, "template '%s', slice %u",
		sandbox->template->about.name, sandbox->slice);
	struct warden_claim claimed =
		sandbox_describe(sandbox, WARDEN_CLAIMED, sandbox->claim_serial);
	warden_send(sandbox->warden, &claimed, sizeof(claimed), &sandbox->control_fd, 1);
}

/* All that is needed from outside for an init to be born. */
static bool prepare_birth(struct sandbox *sandbox, struct birth *birth, int *ret_hold,
	struct error *err)
{
	struct warden *warden = sandbox->warden;
	struct cgroup_limits limits = {
		.memory_bytes = sandbox->limits.memory_bytes,
		.processes = sandbox->limits.processes,
		.cpu_milli = sandbox->limits.cpu_milli,
	};
	int ends[2], hold[2];
	*birth = (struct birth){ .control_fd = -1, .hold_fd = -1 };
	if (!cgroup_box_make(&warden->cgroups, sandbox->name, &limits,
		    sandbox->slice * IDS_SLICE_SIZE, err) ||
		!cgroup_box_init_entry(&warden->cgroups, sandbox->name, birth->groups,
			&birth->group_count, err) ||
		!cgroup_box_work_entry(&warden->cgroups, sandbox->name, birth->work,
			&birth->work_count, err) ||
		!wire_pair(ends, err))
		return false;
	sandbox->control_fd = ends[0];
	birth->control_fd = ends[1];
	if (pipe2(hold, O_CLOEXEC) < 0)
		return error_from_os(err, errno, "cannot make a pipe");
	birth->hold_fd = hold[0];
	*ret_hold = hold[1];
	return true;
}

static bool give_birth(struct sandbox *sandbox, struct error *err)
{
	struct birth birth;
	cleanup_close int hold = -1;
	bool is_born = prepare_birth(sandbox, &birth, &hold, err);
	if (is_born) {
		pid_t pid = process_clone(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
						  CLONE_NEWIPC | CLONE_NEWUTS,
			&sandbox->init_pidfd, err);
		if (pid == 0) {
			close(hold);
			become_init(sandbox, &birth);
		}
		sandbox->init_pid = MAX(pid, 0);
		is_born = pid > 0 && write_maps(sandbox, err) &&
			  (write(hold, "", 1) == 1 ||
				  error_from_os(err, errno, "cannot release the new init")) &&
			  loop_watch(&sandbox->warden->loop, &sandbox->control, sandbox->control_fd,
				  EPOLLIN, on_ready, err);
	}
	birth_close(&birth);
	return is_born;
}

bool sandbox_start(struct warden *warden, const struct warden_claim *claim, struct error *err)
{
	CLEANUP(sandbox_free) struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	if (!sandbox)
		return error_no_memory(err);
	*sandbox = (struct sandbox){ .warden = warden,
		.id = claim->sandbox,
		.claim_serial = claim->header.serial,
		.init_pidfd = -1,
		.control_fd = -1 };
	list_init(&sandbox->link);
	id_to_text(claim->sandbox.bytes, SANDBOX_ID_SIZE, sandbox->name);
	if (sandbox_find(warden, &claim->sandbox))
		return error_set(err, ERROR_PROTOCOL, "the sandbox exists already");
	sandbox->template = template_find(warden, claim->template_name);
	if (!sandbox->template)
		return error_set(err, ERROR_TEMPLATE_UNKNOWN, "the warden has no such template");
	template_use(sandbox->template);
	if (!choose_limits(warden, &claim->limits, &sandbox->limits, err) ||
		!admission_check(warden, sandbox->limits.memory_bytes, err) ||
		!take_slice(warden, &sandbox->slice, err))
		return false;
	bool is_born = give_birth(sandbox, err);
	if (!is_born && sandbox->init_pid == 0) {
		cgroup_box_remove(&warden->cgroups, sandbox->name);
		return false;
	}
	/* From here on it lives in the list, and ends through it. */
	list_append(&warden->sandboxes, &sandbox->link);
	warden->sandbox_count++;
	struct sandbox *kept = TAKE(&sandbox);
	if (!is_born)
		sandbox_end(kept, SANDBOX_END_FAILED);
	else
		loop_timer_start(&warden->loop, &kept->timer, START_LIMIT_MS, on_start_too_long);
	return is_born;
}

struct sandbox *sandbox_find(struct warden *warden, const struct sandbox_id *id)
{
	LIST_EACH (&warden->sandboxes, struct sandbox, link, sandbox)
		if (!memcmp(&sandbox->id, id, sizeof(*id)))
			return sandbox;
	return NULL;
}

static struct kernel *kernel_of_pid(struct sandbox *sandbox, pid_t pid)
{
	for (unsigned i = 0; i < KERNELS_A_SANDBOX; i++)
		if (sandbox->kernels[i] && sandbox->kernels[i]->pid == pid)
			return sandbox->kernels[i];
	return NULL;
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
	LIST_EACH (&warden->sandboxes, struct sandbox, link, sandbox) {
		struct kernel *kernel = kernel_of_pid(sandbox, pid);
		if (sandbox->init_pid == pid)
			on_init_exit(sandbox, status);
		else if (kernel)
			kernel_on_exit(kernel, status);
		else
			continue;
		return true;
	}
	return false;
}

void sandbox_on_kernel_gone(struct sandbox *sandbox)
{
	if (sandbox->state == SANDBOX_ENDING)
		try_to_remove(sandbox);
}

void sandbox_usage(const struct sandbox *sandbox, struct warden_usage *ret_usage)
{
	struct cgroup_usage usage = { 0 };
	cgroup_box_usage(&sandbox->warden->cgroups, sandbox->name, &usage, NULL);
	*ret_usage = (struct warden_usage){ .header = warden_header(WARDEN_USAGE_ANSWER, 0),
		.sandbox = sandbox->id,
		.memory_bytes = usage.memory_bytes,
		.memory_peak = usage.memory_peak,
		.memory_limit = usage.memory_limit,
		.oom_kills = usage.oom_kills,
		.cpu_us = usage.cpu_us,
		.processes = usage.processes,
		.process_limit = usage.process_limit,
		.pids_refused = usage.pids_refused };
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
