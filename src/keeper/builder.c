/*
 * Templates that are built over the API. The api has parsed what was asked for and hands it over as
 * a sealed memfd; it goes to the builder (templates/over_api.py) as its standard input, unread
 * here. What the builder says goes down a pipe of the api's, unread too. Here it is only started, in a
 * control group of its own, given its time, and ended, with all that it has started.
 *
 * The builder works in the state folder's templates/, and publishes there what hot reload finds
 * (reload.c). The api hears that a build is done when its template is served. A builder that was
 * killed may leave its work folder and nothing else (its mounts are in namespaces of their own);
 * the same program is started once more to remove that.
 */
#include "base/fd.h"
#include "base/log.h"
#include "jail/ids.h"
#include "jail/lockdown.h"
#include "jail/process.h"
#include "keeper/keeper.h"
#include "wire/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PATIENCE_MS 8000
#define PROGRAM "over_api.py"
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)
#define VARIABLES 32
#define NICENESS 10
#define GROUP "build"
#define MEMORY \
	(2ULL << 30) /* files that it has written lately are counted, and given back when short */
#define PROCESSES 512
#define OOM_SCORE "1000" /* of 1000: before all else on a machine without memory */

static void tell(struct keeper *keeper, uint32_t serial, uint32_t ending, int32_t detail)
{
	struct error err;
	struct keeper_outcome outcome = {
		.header = { KEEPER_OUTCOME, KEEPER_VERSION, serial },
		.ending = ending,
		.detail = detail,
	};
	if (!keeper->api.pid || wire_send(keeper->api.fd, &outcome, sizeof(outcome), NULL, 0, &err))
		return;
	log_error("builder.tell", NULL, &err);
	kill(keeper->api.pid, SIGKILL); /* it does not read: the next one will */
}

/* ---- the program ---- */

static bool find_program(const struct keeper *keeper, char *path, size_t size)
{
	/* Seen from the keeper's own folder: installed, staged, in the source tree. */
	static const char *const places[] = { "../share/sandglass/templates", "templates",
		"../templates" };
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, size, "%s/%s/" PROGRAM, keeper->own_folder, places[i]);
		if (access(path, R_OK) == 0)
			return true;
	}
	return false;
}

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* What says how this host reaches its package index. */
static bool is_passed_on(const char *variable)
{
	static const char *const prefixes[] = { "PIP_", "SSL_CERT_",
		"REQUESTS_CA_BUNDLE=", "http_proxy=", "https_proxy=", "no_proxy=", "HTTP_PROXY=",
		"HTTPS_PROXY=", "NO_PROXY=" };
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (has_prefix(variable, prefixes[i]))
			return true;
	return false;
}

static void make_environment(
	const struct keeper *keeper, const char *cache, char *environment[VARIABLES + 1])
{
	static char folder[MADE_FOLDER_SIZE + 32], downloader[48];
	static char *const own[] = { folder, downloader, "HOME=/nonexistent", "LANG=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PIP_NO_CACHE_DIR=1", "DEBIAN_FRONTEND=noninteractive",
		"PYTHONDONTWRITEBYTECODE=1" };
	unsigned count = 0;
	snprintf(folder, sizeof(folder), "SANDGLASS_CACHE=%s", cache);
	snprintf(downloader, sizeof(downloader), "SANDGLASS_DOWNLOADER=%u",
		keeper->config.id_base + IDS_DOWNLOADER);
	for (; count < ARRAY_SIZE(own); count++)
		environment[count] = own[count];
	for (char **variable = environ; *variable && count < VARIABLES; variable++)
		if (is_passed_on(*variable))
			environment[count++] = *variable;
	environment[count] = NULL;
}

static bool enter_group(const struct keeper *keeper, struct error *err)
{
	int fds[CGROUP_HIERARCHIES];
	unsigned count;
	return cgroup_entry(&keeper->cgroups, GROUP, fds, &count, err) &&
	       cgroup_enter(fds, count, err);
}

static _Noreturn void become_builder(
	const struct keeper *keeper, const char *word, const int fds[2])
{
	struct error err = { 0 };
	char program[PATH_MAX + 64], cache[MADE_FOLDER_SIZE];
	char *environment[VARIABLES + 1];
	char *words[] = { "python3", "-I", program, (char *)word, NULL };
	images_made_folder(keeper, cache);
	lockdown_signals();
	setsid(); /* Ctrl-C is the keeper's alone to hear; and its group can be ended */
	if (enter_group(keeper, &err) && find_program(keeper, program, sizeof(program)) &&
		dup2(fds[0], 0) >= 0 && dup2(fds[1], 1) >= 0 && dup2(fds[1], 2) >= 0 &&
		process_keep_descriptors(NULL, 0, &err) && chdir("/") == 0 &&
		prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) == 0 &&
		fd_write_kernel_file(AT_FDCWD, "/proc/self/oom_score_adj", OOM_SCORE, &err)) {
		make_environment(keeper, cache, environment);
		(void)!nice(NICENESS); /* sandboxes come first */
		environ = environment;
		execvp(words[0], words);
	}
	dprintf(2, "error: the builder cannot be started: %s\n",
		err.message[0] ? err.message : strerror(errno));
	_exit(1);
}

/* What has left its process group is in its control group still. */
static void kill_all(const struct keeper *keeper)
{
	kill(-keeper->build.pid, SIGKILL);
	kill(keeper->build.pid, SIGKILL);
	cgroup_side_kill(&keeper->cgroups, GROUP);
}

static void on_patience_over(struct loop_timer *timer)
{
	kill_all(CONTAINER_OF(timer, struct keeper, build.patience));
}

/* It gets the time to tidy up behind itself. */
static void ask_to_end(struct keeper *keeper)
{
	kill(keeper->build.pid, SIGTERM);
	loop_timer_start(&keeper->loop, &keeper->build.patience, PATIENCE_MS, on_patience_over);
}

static void on_too_late(struct loop_timer *timer)
{
	struct keeper *keeper = CONTAINER_OF(timer, struct keeper, build.patience);
	log_write(LOG_WARNING, "build.late", NULL, "the build of '%s' took too long",
		keeper->build.name);
	keeper->build.ending = KEEPER_LATE;
	ask_to_end(keeper);
}

static bool launch(struct keeper *keeper, const char *word, const int fds[2], struct error *err)
{
	const struct cgroup_limits limits = { .memory_bytes = MEMORY, .processes = PROCESSES };
	if (!cgroup_side_make(&keeper->cgroups, GROUP, &limits, err))
		return false;
	pid_t pid = process_clone(0, NULL, err);
	if (pid == 0)
		become_builder(keeper, word, fds);
	keeper->build.pid = MAX(pid, 0);
	return pid > 0;
}

/* ---- a build ---- */

static bool check_build(
	const struct keeper *keeper, const char *name, const int fds[2], struct error *err)
{
	struct stat about;
	const struct image *image = images_by_name(keeper, name);
	int seals = fcntl(fds[0], F_GET_SEALS);
	if (keeper->build.pid || keeper->build.is_serving || keeper->is_stopping)
		return error_set(err, ERROR_BUSY, "another build is under way");
	if (image && !image->is_made)
		return error_set(
			err, ERROR_TEMPLATE_GLOBAL, "'%s' is a template of the host", name);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fds[1], &about) < 0 ||
		!S_ISFIFO(about.st_mode))
		return error_set(err, ERROR_PROTOCOL, "a build comes with other descriptors");
	return true;
}

static void start_build(struct keeper *keeper, const struct keeper_order *order, const int fds[2])
{
	struct error err = { 0 };
	struct build *build = &keeper->build;
	if (!check_build(keeper, order->name, fds, &err) || !launch(keeper, "build", fds, &err)) {
		log_error("build.refused", NULL, &err);
		tell(keeper, order->header.serial, KEEPER_REFUSED, 0);
		return;
	}
	*build = (struct build){ .pid = build->pid, .serial = order->header.serial };
	memcpy(build->name, order->name, sizeof(build->name));
	log_write(LOG_INFO, "build.start", NULL, "template '%s' is being built", build->name);
	loop_timer_start(&keeper->loop, &build->patience, KEEPER_BUILD_SECONDS * 1000, on_too_late);
}

static void finish(struct keeper *keeper)
{
	struct build *build = &keeper->build;
	build->is_serving = false;
	log_write(LOG_INFO, "build.end", NULL, "the build of '%s' has ended, %s", build->name,
		build->ending == KEEPER_DONE ? "done" : "failed");
	if (!build->is_unheard)
		tell(keeper, build->serial, build->ending, build->detail);
}

/* Is what the builder has published what is served? */
static bool is_served(const struct keeper *keeper, const char *name)
{
	char folder[MADE_FOLDER_SIZE], path[MADE_FOLDER_SIZE + 80], key[64] = "";
	const struct image *image = images_by_name(keeper, name);
	images_made_folder(keeper, folder);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (readlink(path, key, sizeof(key) - 1) < 0 || !image || !image->is_made || !image->about)
		return false;
	const char *served = json_string_value(json_object_get(image->about, "key"));
	return served && strcmp(served, key) == 0;
}

void builder_on_settled(struct keeper *keeper)
{
	struct build *build = &keeper->build;
	if (!build->is_serving || keeper->is_look_due || keeper->is_template_new)
		return;
	if (!is_served(keeper, build->name))
		build->ending = KEEPER_UNSERVED;
	finish(keeper);
}

static void note_ending(struct build *build, int status)
{
	if (build->ending != KEEPER_DONE)
		return; /* it was ended, and is known why */
	build->ending = WIFSIGNALED(status)                        ? KEEPER_KILLED
			: WIFEXITED(status) && WEXITSTATUS(status) ? KEEPER_FAILED
								   : KEEPER_DONE;
	build->detail = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/* One that was killed has had no time to. */
static bool clear_up(struct keeper *keeper)
{
	struct error err = { 0 };
	cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int fds[2] = { null, null };
	if (!launch(keeper, "clear", fds, &err)) {
		log_error("build.clear", NULL, &err);
		return false;
	}
	keeper->build.is_clearing = true;
	loop_timer_start(&keeper->loop, &keeper->build.patience, PATIENCE_MS, on_patience_over);
	return true;
}

bool builder_on_exit(struct keeper *keeper, pid_t pid, int status)
{
	struct build *build = &keeper->build;
	if (pid != build->pid)
		return false;
	build->pid = 0;
	loop_timer_stop(&build->patience);
	cgroup_side_kill(&keeper->cgroups, GROUP);
	if (!build->is_clearing)
		note_ending(build, status);
	if (!build->is_clearing && WIFSIGNALED(status) && clear_up(keeper))
		return true;
	build->is_clearing = false;
	build->is_serving = build->ending == KEEPER_DONE;
	if (build->is_serving) {
		reload_now(keeper);
		builder_on_settled(keeper);
	} else {
		finish(keeper);
	}
	return true;
}

void builder_stop(struct keeper *keeper)
{
	struct build *build = &keeper->build;
	build->is_unheard = true;
	if (!build->pid || build->is_clearing || build->ending != KEEPER_DONE)
		return; /* a second signal would disturb the tidying up */
	build->ending = KEEPER_KILLED;
	ask_to_end(keeper);
}

void builder_kill(struct keeper *keeper)
{
	if (!keeper->build.pid)
		return;
	kill_all(keeper);
	waitpid(keeper->build.pid, NULL, 0);
	keeper->build.pid = 0;
}

/* ---- a removal ---- */

/* An entry is a flat folder. */
static void remove_entry(int made, const char *key)
{
	cleanup_close int folder =
		openat(made, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = folder >= 0 ? fdopendir(fd_duplicate(folder)) : NULL;
	struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		if (entry->d_type != DT_DIR)
			unlinkat(folder, entry->d_name, 0);
	if (dir)
		closedir(dir);
	unlinkat(made, key, AT_REMOVEDIR);
}

/* What is mounted stays readable for the sandboxes that run from it. */
static bool remove_files(const struct keeper *keeper, const char *name, struct error *err)
{
	char folder[MADE_FOLDER_SIZE], key[64] = "";
	images_made_folder(keeper, folder);
	cleanup_close int made = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (readlinkat(made, name, key, sizeof(key) - 1) < 0 || unlinkat(made, name, 0) < 0)
		return error_from_os(err, errno, "cannot remove the template '%s'", name);
	if (!strchr(key, '/') && config_is_name(key, sizeof(key)) && key[0] != '.')
		remove_entry(made, key);
	return true;
}

static void remove_template(struct keeper *keeper, const struct keeper_order *order)
{
	struct error err = { 0 };
	struct image *image = images_by_name(keeper, order->name);
	bool is_busy = (keeper->build.pid || keeper->build.is_serving) &&
		       strcmp(keeper->build.name, order->name) == 0;
	uint32_t ending = !image ? KEEPER_MISSING : KEEPER_REFUSED;
	if (image && image->is_made && !is_busy && remove_files(keeper, order->name, &err)) {
		images_drop(image);
		log_write(LOG_INFO, "template.removed", NULL, "template '%s' is removed",
			order->name);
		if (keeper->warden.pid && !nursery_send_forget(keeper, order->name, &err))
			log_error("template.removed", NULL, &err);
		if (!service_send_config(keeper, &err))
			log_error("template.removed", NULL, &err);
		ending = KEEPER_DONE;
	} else if (err.code) {
		log_error("template.removed", NULL, &err);
	}
	tell(keeper, order->header.serial, ending, 0);
}

/* ---- the api's word ---- */

static bool is_name(const char *name)
{
	return memchr(name, '\0', TEMPLATE_NAME_SIZE) && name[0] != '.' &&
	       config_is_name(name, TEMPLATE_NAME_SIZE - 1);
}

bool builder_on_order(struct keeper *keeper, struct wire_packet *packet)
{
	struct keeper_order order;
	if (packet->size != sizeof(order) || packet->header.version != KEEPER_VERSION)
		return false;
	memcpy(&order, packet->bytes, sizeof(order));
	if (!is_name(order.name))
		return false;
	if (order.header.op == KEEPER_BUILD && packet->fd_count == 2)
		start_build(keeper, &order, packet->fds);
	else if (order.header.op == KEEPER_REMOVE && packet->fd_count == 0)
		remove_template(keeper, &order);
	else
		return false;
	return true;
}
