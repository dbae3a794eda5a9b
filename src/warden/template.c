/*
 * Zygotes. Each is exec'd in the nursery's user and pid namespace (setns into a sandbox's pid
 * namespace is refused from a pid namespace beside it), in mount, net, ipc and uts namespaces of
 * its own, on the image, with an empty environment.
 *
 * Code of the template runs in it while it warms, so all of it may be hostile from then on. It has no
 * capability, a system call filter, a uid and a control group of its own. The uid is what lets it
 * into the sandboxes of its template, since it owns their user namespaces, and into no other; what it
 * says is looked at (made.c).
 *
 * A zygote that dies is started anew; running kernels are unharmed. One that never got warm is
 * given up after a few tries, and requests for it fail with what there is to say.
 */
#include "warden/template.h"

#include "base/fd.h"
#include "base/log.h"
#include "jail/lockdown.h"
#include "jail/mounts.h"
#include "jail/process.h"
#include "jail/seccomp.h"
#include "warden/kernel.h"
#include "warden/made.h"
#include "warden/pool.h"
#include "warden/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define WARM_LIMIT_MS 60000
#define AGAIN_MS 200
#define GIVE_UP_AFTER 3
#define ZYGOTE_WORDS 64
#define ASKED_AT_ONCE 32      /* requests to a zygote: what its socket holds for sure */
#define ZYGOTE_PROCESSES 1024 /* of them kernels on their way into a sandbox */
#define ZYGOTE_MEMORY_LEAST (2ULL << 30)
#define REMOVAL_RETRY_MS 20
#define REMOVAL_TRIES 250
#define TEMPLATES_LIMIT 64 /* those that were replaced and are still in use count, too */

static void template_start(struct template *template);

/* What is asked for the host's name while warming must not hear it. */
static bool take_name(struct error *err)
{
	if (sethostname("sandglass", 9) < 0)
		return error_from_os(err, errno, "cannot set the host name");
	return true;
}

/* All power goes before the first instruction of the template. */
static bool give_power_up(const struct template *template, struct error *err)
{
	uid_t uid = template_uid(template);
	return lockdown_limits(err) && lockdown_bounding_set(0, err) &&
	       lockdown_ids(uid, uid, false, err) && lockdown_capabilities(0, 0, err) &&
	       lockdown_no_new_privileges(err) && seccomp_apply_zygote(err);
}

/* In the child: onto the image, without power, and exec. */
static void become_zygote(const struct template *template, int control_fd)
{
	struct error err = { 0 };
	struct warden *warden = template->warden;
	char preload[NURSERY_PRELOAD_SIZE], *save = NULL;
	char *words[ZYGOTE_WORDS] = { (char *)template->about.program, "-I", "-X",
		"frozen_modules=on", "/usr/lib/sandglass/python/zygote.py" };
	unsigned count = 5;
	int groups[CGROUP_HIERARCHIES];
	unsigned group_count;
	memcpy(preload, template->about.preload, sizeof(preload));
	for (char *word = strtok_r(preload, " ", &save); word && count < ZYGOTE_WORDS - 1;
		word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	lockdown_signals();
	setsid();
	if (!cgroup_entry(&warden->cgroups, template->group, groups, &group_count, &err) ||
		!cgroup_enter(groups, group_count, &err) ||
		!process_keep_descriptors(&control_fd, 1, &err) ||
		!mounts_enter_zygote(template->place, &err) ||
		!process_close_standard(false, &err) || !take_name(&err) ||
		!give_power_up(template, &err)) {
		log_error("zygote.start", NULL, &err);
		_exit(1);
	}
	static char *const nothing[] = { NULL };
	execve(words[0], words, nothing);
	error_from_os(&err, errno, "cannot execute '%s' of the image", words[0]);
	log_error("zygote.start", NULL, &err);
	_exit(1);
}

static void fail_waiting(struct template *template, const char *why)
{
	struct error err;
	error_set(&err, ERROR_KERNEL_START, "%s", why);
	while (!list_is_empty(&template->waiting)) {
		struct kernel *kernel = LIST_FIRST(&template->waiting, struct kernel, link);
		list_remove(&kernel->link);
		kernel_on_failed(kernel, &err);
	}
}

static bool send_groups(struct template *template, const struct sandbox *sandbox, uint32_t serial,
	struct error *err)
{
	struct nursery_kernel_groups message = { .serial = serial };
	int fds[CGROUP_HIERARCHIES];
	unsigned count;
	/* Version 1 asks whoever enters for the uid that opened the file. */
	process_act_as(template_uid(template));
	bool is_open =
		cgroup_box_work_entry(&template->warden->cgroups, sandbox->box, fds, &count, err);
	process_act_as(0);
	if (!is_open)
		return false;
	bool is_sent = wire_send(template->zygote_fd, &message, sizeof(message), fds, count, err);
	for (unsigned i = 0; i < count; i++)
		fd_close(&fds[i]);
	return is_sent;
}

/* If only the first packet can be sent, the zygote takes the next pair for a mistake, and ends. */
static void ask(struct template *template, struct kernel *kernel)
{
	struct error err = { 0 };
	const struct sandbox *sandbox = kernel->sandbox;
	const int fds[] = { sandbox->init_pidfd, kernel->inner_frames_fd, kernel->inner_out_fd,
		kernel->inner_err_fd };
	struct nursery_kernel_request request = {
		.serial = ++template->next_serial,
		.cpus = kernel->cores,
		.degraded = template->warden->setup.degraded,
		.language = kernel->language,
		.is_standby = kernel_is_standby(kernel),
	};
	bool is_sent = send_groups(template, sandbox, request.serial, &err) &&
		       wire_send(template->zygote_fd, &request, sizeof(request), fds,
			       ARRAY_SIZE(fds), &err);
	kernel->zygote_serial = request.serial;
	template->unanswered += is_sent;
	if (is_sent)
		return;
	list_remove(&kernel->link);
	error_context(&err, "the template's zygote cannot be asked");
	err.code = ERROR_KERNEL_START;
	kernel_on_failed(kernel, &err);
}

/* In their order; the answer to each is the turn of the next. */
static void ask_for_some(struct template *template)
{
	LIST_EACH(&template->waiting, struct kernel, link, kernel) {
		if (template->unanswered >= ASKED_AT_ONCE)
			return;
		if (kernel->zygote_serial == 0)
			ask(template, kernel);
	}
}

void template_make_kernel(struct template *template, struct kernel *kernel)
{
	list_append(&template->waiting, &kernel->link);
	kernel->zygote_serial = 0;
	if (template->is_warm)
		ask_for_some(template);
	else if (template->failures >= GIVE_UP_AFTER)
		fail_waiting(
			template, "the template's zygote does not start; see the daemon's log");
}

/* ---- one in the place of another ---- */

/* Its group goes once all in it has ended; then its ids can be another's. */
static void on_bury(struct loop_timer *timer)
{
	struct template *template = CONTAINER_OF(timer, struct template, timer);
	const struct cgroup_tree *groups = &template->warden->cgroups;
	cgroup_side_kill(groups, template->group);
	if (!cgroup_side_remove(groups, template->group) &&
		++template->removal_tries < REMOVAL_TRIES) {
		loop_timer_start(&template->warden->loop, timer, REMOVAL_RETRY_MS, on_bury);
		return;
	}
	if (template->removal_tries < REMOVAL_TRIES)
		slices_let_go(&template->warden->slices, &template->slices);
	free(template);
}

static void template_free(struct template *template)
{
	log_write(LOG_INFO, "template.gone", NULL, "the former image of '%s' is used no more",
		template->about.name);
	if (template->zygote_pid > 0)
		kill(template->zygote_pid, SIGKILL); /* reaped as a stranger */
	loop_forget(&template->source);
	fd_close(&template->zygote_fd);
	loop_timer_stop(&template->timer);
	mounts_detach_image(template->place);
	list_remove(&template->link);
	on_bury(&template->timer);
}

void template_use(struct template *template)
{
	template->sandboxes++;
}

void template_unuse(struct template *template)
{
	if (--template->sandboxes == 0 && template->is_replaced)
		template_free(template);
}

/* No sandbox starts from it any more: it goes with its last one, and the unclaimed go now. */
static void retire(struct template *template)
{
	template->is_replaced = true;
	template_use(template); /* it must outlive the end of its pool */
	pool_empty(template->warden, template);
	template_unuse(template);
}

/* Those of its name that were there before it. */
static void replace_former(struct template *template)
{
	LIST_EACH(&template->warden->templates, struct template, link, former) {
		if (former == template)
			return;
		if (strcmp(former->about.name, template->about.name) != 0)
			continue;
		retire(former);
	}
}

void template_forget(struct warden *warden, const char *name)
{
	LIST_EACH(&warden->templates, struct template, link, template) {
		if (strcmp(template->about.name, name) != 0)
			continue;
		template->is_forgotten = true;
		retire(template);
	}
}

/* ---- what a zygote says ---- */

static void on_parked(struct template *template)
{
	loop_timer_stop(&template->timer);
	template->is_warm = true;
	template->failures = 0;
	replace_former(template);
	log_write(LOG_INFO, "zygote.warm", NULL, "template '%s' is warm", template->about.name);
	ask_for_some(template);
	pool_on_warm(template->warden);
	keeper_link_check_ready(template->warden);
}

static bool on_made(struct kernel *kernel, const struct nursery_kernel_answer *answer)
{
	struct error err;
	enum made made = answer->pid > 0 ? made_look(kernel->sandbox, answer->pid) : MADE_TRUE;
	list_remove(&kernel->link);
	if (answer->pid > 0 && made != MADE_FALSE) {
		kernel_on_made(kernel, answer->pid, made == MADE_GONE);
		return true;
	}
	if (made == MADE_FALSE)
		error_set(&err, ERROR_KERNEL_START, "the zygote has made something else");
	else
		error_from_os(&err, answer->os_error, "the zygote could not make the kernel");
	err.code = ERROR_KERNEL_START;
	kernel_on_failed(kernel, &err);
	return made != MADE_FALSE;
}

/* Nobody waits for it any more. What is of none of its sandboxes has ended with one, or is a lie. */
static void end_unwanted(struct template *template, pid_t pid)
{
	LIST_EACH(&template->warden->sandboxes, struct sandbox, link, sandbox)
		if (sandbox->template == template && made_look(sandbox, pid) == MADE_TRUE) {
			kill(pid, SIGKILL);
			return;
		}
}

static struct kernel *find_asked(const struct template *template, uint32_t serial)
{
	LIST_EACH(&template->waiting, struct kernel, link, kernel)
		if (kernel->zygote_serial == serial)
			return kernel;
	return NULL;
}

/* False: it breaks the rules. */
static bool on_answer(struct template *template, const struct nursery_kernel_answer *answer)
{
	if (answer->serial == 0) {
		if (template->is_warm)
			return false;
		on_parked(template);
		return true;
	}
	if (template->unanswered == 0)
		return false;
	template->unanswered--;
	struct kernel *kernel = find_asked(template, answer->serial);
	if (kernel && !on_made(kernel, answer))
		return false;
	if (!kernel && answer->pid > 0)
		end_unwanted(template, answer->pid);
	ask_for_some(template);
	return true;
}

static void on_zygote(struct loop_source *source, uint32_t events)
{
	struct template *template = CONTAINER_OF(source, struct template, source);
	struct wire_packet packet;
	struct error err = { 0 };
	enum wire_result result = wire_receive(source->fd, &packet, &err);
	if (result == WIRE_NOTHING)
		return;
	if (result == WIRE_GOT && packet.size == sizeof(struct nursery_kernel_answer) &&
		packet.fd_count == 0) {
		struct nursery_kernel_answer answer;
		memcpy(&answer, packet.bytes, sizeof(answer));
		if (on_answer(template, &answer))
			return;
	}
	if (result == WIRE_GOT) {
		wire_packet_deinit(&packet);
		log_write(LOG_ERROR, "zygote.wrong", NULL,
			"the zygote of '%s' does not keep to the rules, and is ended",
			template->about.name);
	}
	loop_forget(source); /* it is ending: its exit does the rest */
	if (template->zygote_pid > 0)
		kill(template->zygote_pid, SIGKILL);
}

static void on_warming_too_long(struct loop_timer *timer)
{
	struct template *template = CONTAINER_OF(timer, struct template, timer);
	log_write(LOG_ERROR, "zygote.slow", NULL, "template '%s' did not get warm within %d s",
		template->about.name, WARM_LIMIT_MS / 1000);
	if (template->zygote_pid > 0)
		kill(template->zygote_pid, SIGKILL);
}

static void on_start_again(struct loop_timer *timer)
{
	template_start(CONTAINER_OF(timer, struct template, timer));
}

/* Half of the machine is more than any needs, and what it costs all others at most. */
static bool make_group(const struct template *template, struct error *err)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct cgroup_limits limits = {
		.memory_bytes = MAX(memory / 2, ZYGOTE_MEMORY_LEAST),
		.processes = ZYGOTE_PROCESSES,
	};
	return cgroup_side_make(&template->warden->cgroups, template->group, &limits, err);
}

static void template_start(struct template *template)
{
	struct error err = { 0 };
	int ends[2] = { -1, -1 };
	template->unanswered = 0;
	if (make_group(template, &err) && wire_pair(ends, &err)) {
		template->zygote_pid = process_clone(
			CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, NULL, &err);
		if (template->zygote_pid == 0)
			become_zygote(template, ends[1]);
		fd_close(&ends[1]);
	}
	template->is_warm = false;
	if (template->zygote_pid > 0 && fd_set_nonblocking(ends[0], true) &&
		loop_watch(&template->warden->loop, &template->source, ends[0], EPOLLIN, on_zygote,
			&err)) {
		template->zygote_fd = ends[0];
		loop_timer_start(&template->warden->loop, &template->timer, WARM_LIMIT_MS,
			on_warming_too_long);
		return;
	}
	log_error("zygote.start", NULL, &err);
	fd_close(&ends[0]);
	loop_timer_start(&template->warden->loop, &template->timer, 1000, on_start_again);
}

static struct template *make(
	struct warden *warden, const struct nursery_template *about, struct error *err)
{
	unsigned count = 0;
	LIST_EACH(&warden->templates, struct template, link, known)
		count++;
	if (count >= TEMPLATES_LIMIT) {
		error_set(err, ERROR_HOST_FULL, "%u images are in use, the former ones included",
			count);
		return NULL;
	}
	struct template *template = calloc(1, sizeof(*template));
	struct slice_holder slices;
	if (!template)
		return error_no_memory(err);
	if (!slice_hold(&warden->slices, &slices, err)) {
		free(template);
		return NULL;
	}
	*template = (struct template){
		.warden = warden, .about = *about, .slices = slices, .zygote_fd = -1
	};
	snprintf(template->group, sizeof(template->group), "zygote/%u", slices.own);
	snprintf(template->place, sizeof(template->place), "%s.%u", about->name,
		++warden->last_place);
	list_init(&template->waiting);
	list_init(&template->pool);
	return template;
}

bool template_add(struct warden *warden, const struct nursery_template *about, int mount_fd,
	struct error *err)
{
	struct template *template = make(warden, about, err);
	bool is_attached = template && mounts_attach_image(mount_fd, template->place, err);
	close(mount_fd);
	if (!is_attached) {
		if (template)
			slices_let_go(&warden->slices, &template->slices);
		free(template);
		return false;
	}
	list_append(&warden->templates, &template->link);
	template_start(template);
	return true;
}

struct template *template_find(struct warden *warden, const char *name)
{
	struct template *found = NULL;
	LIST_EACH(&warden->templates, struct template, link, template)
		if (!strcmp(template->about.name, name) && !template->is_forgotten &&
			(!found || template->is_warm || !found->is_warm))
			found = template;
	return found;
}

bool template_on_exit(struct warden *warden, pid_t pid, int status)
{
	LIST_EACH(&warden->templates, struct template, link, template) {
		if (template->zygote_pid != pid)
			continue;
		log_write(LOG_ERROR, "zygote.ended", NULL, "the zygote of '%s' ended, status 0x%x",
			template->about.name, (unsigned)status);
		loop_forget(&template->source);
		fd_close(&template->zygote_fd);
		template->zygote_pid = 0;
		if (!template->is_warm)
			template->failures++;
		template->is_warm = false;
		cgroup_side_kill(&warden->cgroups, template->group); /* what it has left */
		fail_waiting(template, "the template's zygote ended; it is started again");
		keeper_link_check_ready(warden);
		int64_t delay_ms = template->failures >= GIVE_UP_AFTER ? 10000 : AGAIN_MS;
		loop_timer_start(&warden->loop, &template->timer, delay_ms, on_start_again);
		return true;
	}
	return false;
}

bool templates_are_settled(const struct warden *warden)
{
	LIST_EACH(&warden->templates, struct template, link, template)
		if (!template->is_warm && template->failures < GIVE_UP_AFTER)
			return false;
	return true;
}
