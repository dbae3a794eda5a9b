/*
 * See birth.h. The child that becomes init enters its cgroups by itself, while its uid is still the
 * warden's (on cgroup v1 nobody else may put it there), then waits for its id maps and is exec'd:
 * only then does its memory belong to the new user namespace. That namespace's owner is the uid of the
 * template's zygote, which thereby can join it, and can join no other template's.
 */
#include "warden/birth.h"

#include "base/fd.h"
#include "base/log.h"
#include "jail/ids.h"
#include "jail/lockdown.h"
#include "jail/process.h"
#include "warden/template.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

struct birth {
	int groups[CGROUP_HIERARCHIES]; /* init enters these */
	unsigned group_count;
	int work[CGROUP_HIERARCHIES]; /* init keeps these, for its commands */
	unsigned work_count;
	int control_fd; /* init's end */
	int hold_fd;    /* a byte comes when the maps are written */
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
	unsigned kept = birth->work_count;
	int keep[1 + CGROUP_HIERARCHIES] = { birth->control_fd };
	snprintf(files, sizeof(files), "%ju", (uintmax_t)sandbox->limits.files_bytes);
	snprintf(inodes, sizeof(inodes), "%u", sandbox->limits.inodes);
	snprintf(count, sizeof(count), "%u", kept);
	snprintf(degraded, sizeof(degraded), "%u", sandbox->warden->setup.degraded);
	char *words[] = { "sandglass-init", sandbox->template->place, files, inodes, count,
		degraded, NULL };
	memcpy(keep + 1, birth->work, kept * sizeof(int));
	lockdown_signals();
	int program = -1;
	bool is_ready = cgroup_enter(birth->groups, birth->group_count, &err) &&
			read(birth->hold_fd, &byte, 1) == 1 &&
			(program = fd_duplicate(sandbox->warden->init_program)) >= 0 &&
			unshare(CLONE_NEWCGROUP) == 0 && setsid() >= 0 && setresgid(0, 0, 0) == 0 &&
			setresuid(0, 0, 0) == 0;
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
	snprintf(map, sizeof(map), "0 %u 1\n%u %u 1\n%u %u 1\n%u %u 1\n", IDS_NURSERY_IMAGE,
		IDS_INIT, base, IDS_USER, base + 1, IDS_NOBODY, base + 2);
	return process_write_maps(sandbox->init_pid, map, err);
}

/* All that is needed from outside for an init to be born. */
static bool prepare_birth(
	struct sandbox *sandbox, struct birth *birth, int *ret_hold, struct error *err)
{
	struct warden *warden = sandbox->warden;
	struct cgroup_limits limits = sandbox_group_limits(&sandbox->limits);
	int ends[2], hold[2];
	*birth = (struct birth){ .control_fd = -1, .hold_fd = -1 };
	if (!cgroup_box_make(&warden->cgroups, sandbox->box, &limits,
		    sandbox->slice * IDS_SLICE_SIZE, err) ||
		!cgroup_box_init_entry(
			&warden->cgroups, sandbox->box, birth->groups, &birth->group_count, err) ||
		!cgroup_box_command_entry(
			&warden->cgroups, sandbox->box, birth->work, &birth->work_count, err) ||
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

bool birth_give(struct sandbox *sandbox, struct error *err)
{
	struct birth birth;
	cleanup_close int hold = -1;
	bool is_born = prepare_birth(sandbox, &birth, &hold, err);
	if (is_born) {
		process_act_as(
			template_uid(sandbox->template)); /* owner of the new user namespace */
		pid_t pid = process_clone(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS |
						  CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
			&sandbox->init_pidfd, err);
		if (pid == 0) {
			close(hold);
			become_init(sandbox, &birth);
		}
		process_act_as(0);
		sandbox->init_pid = MAX(pid, 0);
		is_born = pid > 0 && write_maps(sandbox, err) &&
			  (write(hold, "", 1) == 1 ||
				  error_from_os(err, errno, "cannot release the new init"));
	}
	birth_close(&birth);
	if (!is_born && sandbox->init_pid == 0)
		cgroup_box_remove(&sandbox->warden->cgroups, sandbox->box);
	return is_born;
}
