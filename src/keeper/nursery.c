/*
 * Starting the warden. It is cloned into new namespaces, waits until its ids are mapped, and is
 * exec'd by descriptor: only an exec after the mapping makes its memory belong to the new user
 * namespace, without which it could neither map ids nor join the namespaces of its own sandboxes.
 */
#include "base/fd.h"
#include "base/log.h"
#include "jail/ids.h"
#include "jail/lockdown.h"
#include "jail/mounts.h"
#include "jail/process.h"
#include "keeper/keeper.h"
#include "wire/nursery.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>

#define CHANNEL_BYTES (16 << 20)

int nursery_open_program(const struct keeper *keeper, const char *name, struct error *err)
{
	char path[PATH_MAX + 32];
	snprintf(path, sizeof(path), "%s/%s", keeper->own_folder, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		error_from_os(err, errno, "cannot open the program '%s'", path);
	return fd;
}

static void become_warden(int program, int control_fd, int hold_fd)
{
	struct error err = { 0 };
	char byte;
	char *words[] = { "sandglass-warden", NULL };
	bool is_released = read(hold_fd, &byte, 1) == 1;
	int keep[] = { control_fd, program };
	lockdown_signals();
	setsid(); /* Ctrl-C is the keeper's alone to hear */
	if (is_released && setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 &&
		setresuid(0, 0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
		process_close_standard(false, &err) && process_keep_descriptors(keep, 2, &err)) {
		fcntl(4, F_SETFD, FD_CLOEXEC);
		process_exec(4, words, &err);
	}
	log_write(LOG_ERROR, "warden.start", NULL, "%s (errno %d)", err.message, errno);
	_exit(1);
}

static bool send_order(const struct keeper *keeper, void *message, size_t size, uint16_t op,
	const int *fds, unsigned fd_count, struct error *err)
{
	struct wire_header header = { .op = op, .version = NURSERY_VERSION };
	memcpy(message, &header, sizeof(header));
	return wire_send(keeper->warden.fd, message, size, fds, fd_count, err);
}

/* What the limits of all sandboxes may add up to; 0: anything. */
static uint64_t memory_commit(const struct keeper *keeper)
{
	double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	return (uint64_t)(machine * keeper->config.memory_overcommit);
}

static bool send_setup(struct keeper *keeper, struct error *err)
{
	cleanup_close int init = nursery_open_program(keeper, "sandglass-init", err);
	struct nursery_setup setup = {
		.is_cgroup_v2 = keeper->cgroups.is_v2,
		.slices = keeper->config.sandboxes,
		.degraded = keeper->config.degraded,
		.pool = keeper->config.pool,
		.pool_languages = keeper->config.pool_languages,
		.defaults = keeper->config.limits,
		.caps = keeper->config.caps,
		.memory_reserve = keeper->config.memory_reserve,
		.memory_commit = memory_commit(keeper),
	};
	int fds[1 + CGROUP_HIERARCHIES] = { init };
	unsigned count = 1; /* only the last hierarchies can be missing */
	while (count <= CGROUP_HIERARCHIES && keeper->cgroups.dirs[count - 1] >= 0) {
		fds[count] = keeper->cgroups.dirs[count - 1];
		count++;
	}
	return init >= 0 &&
	       send_order(keeper, &setup, sizeof(setup), NURSERY_SETUP, fds, count, err);
}

static uid_t image_owner(const struct keeper *keeper)
{
	return keeper->config.id_base + IDS_NURSERY + IDS_NURSERY_IMAGE;
}

static bool send_layer(struct keeper *keeper, struct error *err)
{
	char path[PATH_MAX + 16];
	struct nursery_plain order = { 0 };
	snprintf(path, sizeof(path), "%s/layer", keeper->own_folder);
	cleanup_close int fd = mounts_layer(path, "usr/lib/sandglass", image_owner(keeper), err);
	return fd >= 0 && send_order(keeper, &order, sizeof(order), NURSERY_LAYER, &fd, 1, err);
}

static void join_preload(const json_t *about, char *text, size_t size)
{
	const json_t *preload = json_object_get(about, "preload");
	size_t used = 0;
	for (size_t i = 0; i < json_array_size(preload); i++) {
		const char *name = json_string_value(json_array_get(preload, i));
		if (name && used + strlen(name) + 2 < size)
			used += (size_t)snprintf(text + used, size - used, "%s ", name);
	}
}

/* Python is always there: its zygote makes the others' processes too. Words of newer templates are
 * skipped. */
static uint32_t join_languages(const json_t *about)
{
	uint32_t set = LANGUAGE_BIT(LANGUAGE_PYTHON);
	const json_t *languages = json_object_get(about, "languages");
	for (size_t i = 0; i < json_array_size(languages); i++) {
		const char *name = json_string_value(json_array_get(languages, i));
		enum language language;
		if (name && language_find(name, &language))
			set |= LANGUAGE_BIT(language);
	}
	return set;
}

bool nursery_send_template(struct keeper *keeper, const struct image *image, struct error *err)
{
	struct nursery_template order = { 0 };
	const json_t *about = image_about(image);
	const char *program = json_string_value(json_object_get(about, "python"));
	snprintf(order.name, sizeof(order.name), "%s",
		json_string_value(json_object_get(about, "name")));
	snprintf(
		order.program, sizeof(order.program), "%s", program ? program : "/usr/bin/python3");
	join_preload(about, order.preload, sizeof(order.preload));
	order.languages = join_languages(about);
	cleanup_close int fd = mounts_image(image->path, image_owner(keeper), err);
	return fd >= 0 && send_order(keeper, &order, sizeof(order), NURSERY_TEMPLATE, &fd, 1, err);
}

bool nursery_send_forget(struct keeper *keeper, const char *name, struct error *err)
{
	struct nursery_name order = { 0 };
	snprintf(order.name, sizeof(order.name), "%s", name);
	return send_order(keeper, &order, sizeof(order), NURSERY_FORGET, NULL, 0, err);
}

static bool map_and_release(struct keeper *keeper, int hold, struct error *err)
{
	char map[64];
	snprintf(map, sizeof(map), "0 %u %u", keeper->config.id_base + IDS_NURSERY,
		IDS_NURSERY_COUNT);
	if (!process_write_maps(keeper->warden.pid, map, err) ||
		!cgroup_tree_put_own(&keeper->cgroups, keeper->warden.pid, err))
		return false;
	return write(hold, "", 1) == 1 || error_from_os(err, errno, "cannot release the warden");
}

static bool clone_warden(struct keeper *keeper, struct error *err)
{
	int ends[2], hold[2], bytes = CHANNEL_BYTES;
	cleanup_close int program = nursery_open_program(keeper, "sandglass-warden", err);
	if (program < 0 || !wire_pair(ends, err))
		return false;
	if (pipe2(hold, O_CLOEXEC) < 0)
		return error_from_os(err, errno, "cannot make a pipe");
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	keeper->warden.fd = ends[0];
	pid_t pid = process_clone(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
					  CLONE_NEWIPC | CLONE_NEWUTS,
		NULL, err);
	if (pid == 0) {
		close(hold[1]);
		become_warden(program, ends[1], hold[0]);
	}
	keeper->warden.pid = MAX(pid, 0);
	bool is_released = pid > 0 && map_and_release(keeper, hold[1], err);
	close(ends[1]);
	close(hold[0]);
	close(hold[1]);
	return is_released;
}

bool nursery_start(struct keeper *keeper, struct error *err)
{
	if (!clone_warden(keeper, err) || !send_setup(keeper, err) || !send_layer(keeper, err))
		return false;
	LIST_EACH(&keeper->images, struct image, link, image) {
		if (nursery_send_template(keeper, image, err))
			continue;
		if (!image->is_made)
			return false;
		log_error("template.unusable", NULL,
			err); /* it must not keep the others from serving */
		images_drop(image);
	}
	return true;
}
