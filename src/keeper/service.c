/*
 * Starting the api: everything it may not do is settled before it is exec'd, so that it holds no
 * code for it. Its user is its own, its root a tmpfs with its state folder and the loader's
 * libraries, its network namespace empty (it serves on a socket it was given), it cannot start a
 * process (RLIMIT_NPROC), and Landlock lets it execute nothing but itself.
 */
#include "base/fd.h"
#include "base/log.h"
#include "jail/ids.h"
#include "jail/landlock.h"
#include "jail/lockdown.h"
#include "jail/mounts.h"
#include "jail/process.h"
#include "keeper/keeper.h"
#include "wire/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define MIB (1024.0 * 1024)

/* ---- what it is told ---- */

static json_t *limits_json(const struct wire_limits *limits, unsigned cell_seconds)
{
	return json_pack("{s:f, s:f, s:i, s:f, s:i, s:i}", "memory_mb",
		(double)limits->memory_bytes / MIB, "cpus", limits->cpu_milli / 1000.0, "processes",
		(int)limits->processes, "files_mb", (double)limits->files_bytes / MIB, "inodes",
		(int)limits->inodes, "cell_seconds", (int)cell_seconds);
}

/* As GET /v1/capabilities shows them. */
static json_t *layers_json(const struct keeper *keeper)
{
	static const char *const always[][2] = {
		{ "user_namespace",
			"ids of its own for each sandbox; root inside is nobody outside" },
		{ "pid_namespace", "sees its own processes only" },
		{ "mount_namespace", "read-only image below a sized tmpfs" },
		{ "network_namespace", "loopback only" },
		{ "ipc_namespace", "" },
		{ "uts_namespace", "" },
		{ "cgroup_namespace", "" },
		{ "capabilities", "none, and none to gain" },
		{ "no_new_privs", "" },
		{ "seccomp", "allow-list; unlisted calls: ENOSYS" },
		{ "rlimits", "" },
	};
	char cgroup[64], landlock[64];
	json_t *layers = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		json_array_append_new(
			layers, json_pack("{s:s, s:b, s:b, s:s}", "name", always[i][0], "active", 1,
					"required", 1, "note", always[i][1]));
	snprintf(cgroup, sizeof(cgroup), "version %d: memory, processes, cpu",
		keeper->cgroups.is_v2 ? 2 : 1);
	json_array_append_new(layers, json_pack("{s:s, s:b, s:b, s:s}", "name", "cgroup", "active",
					      1, "required", 1, "note", cgroup));
	bool is_on = !(keeper->config.degraded & LOCKDOWN_WITHOUT_LANDLOCK);
	snprintf(landlock, sizeof(landlock), "interface version %d of this kernel",
		landlock_version());
	json_array_append_new(
		layers, json_pack("{s:s, s:b, s:b, s:s}", "name", "landlock", "active", is_on,
				"required", is_on, "note", landlock));
	return layers;
}

static json_t *templates_json(const struct keeper *keeper)
{
	static const char *const keys[] = { "name", "aliases", "languages", "description",
		"size_bytes", "python_version", "created_at", "key", "base" };
	json_t *templates = json_array();
	LIST_EACH(&keeper->images, struct image, link, image) {
		json_t *entry = image->about ? json_object() : NULL;
		if (!entry)
			continue;
		json_object_set_new(entry, "made", json_boolean(image->is_made));
		json_object_set_new(
			entry, "rootfs_path", json_string(strrchr(image->path, '/') + 1));
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
			json_t *value = json_object_get(image->about, keys[i]);
			if (value)
				json_object_set(entry, keys[i], value);
		}
		json_array_append_new(templates, entry);
	}
	return templates;
}

static int config_memfd(const struct keeper *keeper, struct error *err)
{
	const struct config *config = &keeper->config;
	json_t *caps = limits_json(&config->caps, config->cell_seconds_cap);
	json_object_set_new(caps, "sandboxes", json_integer(config->sandboxes));
	json_t *root = json_pack(
		"{s:s, s:s, s:s, s:o, s:O, s:O, s:i, s:o, s:o, s:o, s:o, s:s, s:b, s:b}", "version",
		SANDGLASS_VERSION, "address", keeper->address, "database", "/state/state.db",
		"keys", keys_json(&keeper->state), "owners", config->owners, "hosts", config->hosts,
		"ttl_seconds", (int)config->ttl_seconds, "limits",
		limits_json(&config->limits, config->cell_seconds), "caps", caps, "templates",
		templates_json(keeper), "layers", layers_json(keeper), "network_default",
		config->network_default, "preview_token_required",
		config->is_preview_token_required, "open_metrics", config->has_open_metrics);
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	int fd = memfd_create("config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!text || fd < 0 || !fd_write_all(fd, text, strlen(text)) || !fd_seal(fd)) {
		error_from_os(err, errno, "cannot write the api's configuration");
		fd_close(&fd);
	}
	free(text);
	json_decref(root);
	return fd;
}

/* ---- what it becomes ---- */

static bool limit_service(struct error *err)
{
	/* The process itself is the one; sanitizers' builds need no more. */
	const struct rlimit one = { 1, 1 }, none = { 0, 0 };
	return (setrlimit(RLIMIT_NPROC, &one) == 0 && setrlimit(RLIMIT_CORE, &none) == 0) ||
	       error_from_os(err, errno, "cannot limit the api");
}

static bool landlock_service(const struct keeper *keeper, int program, struct error *err)
{
	const struct landlock_rule rules[] = {
		{ .path = "/state", .rights = LANDLOCK_READ | LANDLOCK_WRITE },
		{ .path = "/usr/lib", .rights = LANDLOCK_READ },
		{ .path = "/usr/lib64", .rights = LANDLOCK_READ },
		{ .path = "/lib", .rights = LANDLOCK_READ },
		{ .path = "/lib64", .rights = LANDLOCK_READ },
		{ .path = "/etc", .rights = LANDLOCK_READ },
		{ .path = "/proc", .rights = LANDLOCK_READ }, /* sanitizers' builds only */
		{ .path = "/lib64/ld-linux-x86-64.so.2",
			.rights = LANDLOCK_READ | LANDLOCK_EXECUTE },
		{ .path = NULL, .fd = program, .rights = LANDLOCK_READ | LANDLOCK_EXECUTE },
	};
	if (keeper->config.degraded & LOCKDOWN_WITHOUT_LANDLOCK)
		return true;
	return landlock_apply(rules, ARRAY_SIZE(rules), err);
}

static void become_api(const struct keeper *keeper, int program, int control_fd, int config_fd)
{
	struct error err = { 0 };
	char folder[PATH_MAX + 8];
	char *words[] = { "sandglass-api", NULL };
	uid_t uid = keeper->config.id_base + IDS_API;
	int keep[] = { control_fd, keeper->listen_fd, config_fd, program };
	snprintf(folder, sizeof(folder), "%s/api", keeper->state.folder);
	lockdown_signals();
	setsid(); /* Ctrl-C is the keeper's alone to hear */
	if (process_close_standard(false, &err) && process_keep_descriptors(keep, 4, &err) &&
		mounts_enter_service(folder, &err) && limit_service(&err) &&
		lockdown_bounding_set(0, &err) && lockdown_ids(uid, uid, false, &err) &&
		lockdown_capabilities(0, 0, &err) &&
		(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0) &&
		lockdown_no_new_privileges(&err) && landlock_service(keeper, 6, &err)) {
		fcntl(6, F_SETFD, FD_CLOEXEC);
		process_exec(6, words, &err);
	}
	log_error("api.start", NULL, &err);
	_exit(1);
}

bool service_start_api(struct keeper *keeper, struct error *err)
{
	int ends[2];
	cleanup_close int program = nursery_open_program(keeper, "sandglass-api", err);
	cleanup_close int config = program < 0 ? -1 : config_memfd(keeper, err);
	if (config < 0 || !wire_pair(ends, err))
		return false;
	pid_t pid =
		process_clone(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, NULL, err);
	if (pid == 0)
		become_api(keeper, program, ends[1], config);
	close(ends[1]);
	keeper->api.pid = MAX(pid, 0);
	keeper->api.fd = ends[0];
	/* One that does not read must not hold up the keeper. */
	return pid > 0 && fd_set_nonblocking(ends[0], true) &&
	       cgroup_tree_put_own(&keeper->cgroups, pid, err);
}

bool service_send_config(struct keeper *keeper, struct error *err)
{
	struct keeper_message message = { .header = { KEEPER_CONFIG, KEEPER_VERSION, 0 } };
	cleanup_close int config = config_memfd(keeper, err);
	return config >= 0 && wire_send(keeper->api.fd, &message, sizeof(message), &config, 1, err);
}
