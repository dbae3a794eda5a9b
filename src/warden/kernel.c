/*
 * See kernel.h. The kernel says "ready" with its first frame, but is believed only after its
 * posture was read from outside: capabilities, no_new_privs, the filter. The clock: at the limit
 * SIGINT, half a second later again, another half a second later SIGKILL.
 *
 * Why a kernel ended is told from facts: waitid, the cgroup's counter of memory kills, our own
 * clock.
 */
#include "warden/kernel.h"

#include "base/fd.h"
#include "base/log.h"
#include "jail/seccomp.h"
#include "warden/pool.h"
#include "warden/sandbox.h"
#include "warden/standby.h"
#include "warden/template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define START_LIMIT_MS 25000
#define SECOND_INTERRUPT_MS 500
#define KILL_MS 500
#define SOCKET_BYTES (1 << 20)

/* ---- what there is to tell ---- */

struct warden_kernel kernel_describe(
	const struct kernel *kernel, uint16_t op, uint32_t serial, int ret_fds[3])
{
	struct warden_kernel message = {
		.header = warden_header(op, serial),
		.sandbox = kernel->sandbox->id,
		.kernel = kernel->slot,
		.generation = kernel->generation,
		.run = kernel->run,
		.pid = kernel->inner_pid,
	};
	snprintf(message.language, sizeof(message.language), "%s", language_name(kernel->language));
	ret_fds[0] = kernel->frames_fd;
	ret_fds[1] = kernel->out_fd;
	ret_fds[2] = kernel->err_fd;
	return message;
}

static enum kernel_end reason_of(const struct kernel *kernel, int status, bool is_memory)
{
	if (is_memory && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
		kernel->interrupts < 3)
		return KERNEL_END_MEMORY;
	if (kernel->interrupts >= 3)
		return KERNEL_END_TIMEOUT;
	if (kernel->sandbox->state == SANDBOX_ENDING)
		return KERNEL_END_SANDBOX;
	return kernel->is_stop_asked ? KERNEL_END_STOPPED : KERNEL_END_EXITED;
}

static void tell_ended(struct kernel *kernel, int status)
{
	struct sandbox *sandbox = kernel->sandbox;
	struct warden_usage usage;
	sandbox_usage(sandbox, &usage);
	struct warden_kernel_ended ended = {
		.header = warden_header(WARDEN_KERNEL_ENDED, 0),
		.sandbox = sandbox->id,
		.kernel = kernel->slot,
		.generation = kernel->generation,
		.run = kernel->run,
		.reason = reason_of(kernel, status, usage.oom_kills > kernel->oom_before),
		.status = status,
		.memory_peak = usage.memory_peak,
		.memory_limit = usage.memory_limit,
	};
	sandbox->oom_seen = usage.oom_kills;
	warden_send(sandbox->warden, &ended, sizeof(ended), NULL, 0);
}

/* ---- birth ---- */

struct kernel *kernel_free(struct kernel *kernel)
{
	if (!kernel)
		return NULL;
	int *fds[] = { &kernel->frames_fd, &kernel->out_fd, &kernel->err_fd,
		&kernel->inner_frames_fd, &kernel->inner_out_fd, &kernel->inner_err_fd };
	loop_forget(&kernel->frames);
	loop_timer_stop(&kernel->timer);
	list_remove(&kernel->link);
	table_remove_child(&kernel->sandbox->warden->table, &kernel->child);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fd_close(fds[i]);
	if (kernel->sandbox->kernels[kernel->slot] == kernel)
		kernel->sandbox->kernels[kernel->slot] = NULL;
	free(kernel);
	return NULL;
}
CLEANUP_FUNCTION(struct kernel *, kernel_free);

static bool make_descriptors(struct kernel *kernel, struct error *err)
{
	int ends[2], out[2], errors[2], bytes = SOCKET_BYTES;
	if (!wire_pair(ends, err))
		return false;
	kernel->frames_fd = ends[0];
	kernel->inner_frames_fd = ends[1];
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (pipe2(out, O_CLOEXEC) < 0)
		return error_from_os(err, errno, "cannot make a pipe");
	kernel->out_fd = out[0];
	kernel->inner_out_fd = out[1];
	if (pipe2(errors, O_CLOEXEC) < 0)
		return error_from_os(err, errno, "cannot make a pipe");
	kernel->err_fd = errors[0];
	kernel->inner_err_fd = errors[1];
	/* Ours alone: the kernel's ends are other open files, and stay blocking. */
	return (fd_set_nonblocking(kernel->frames_fd, true) &&
		       fd_set_nonblocking(kernel->out_fd, true) &&
		       fd_set_nonblocking(kernel->err_fd, true)) ||
	       error_from_os(err, errno, "cannot set a descriptor up");
}

static void on_start_too_long(struct loop_timer *timer)
{
	struct kernel *kernel = CONTAINER_OF(timer, struct kernel, timer);
	struct error err;
	error_set(&err, ERROR_KERNEL_START, "the kernel did not start within %d s",
		START_LIMIT_MS / 1000);
	if (kernel->pid > 0)
		kill(kernel->pid, SIGKILL); /* its exit tells */
	else
		kernel_on_failed(kernel, &err);
}

static struct kernel *kernel_new(struct sandbox *sandbox, const struct kernel_plan *plan)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));
	if (!kernel)
		return NULL;
	*kernel = (struct kernel){ .sandbox = sandbox,
		.slot = plan->slot,
		.generation = plan->generation,
		.start_serial = plan->start_serial,
		.language = plan->language,
		.cores = template_cores(&sandbox->limits),
		.oom_before = sandbox_oom_kills(sandbox),
		.frames_fd = -1,
		.out_fd = -1,
		.err_fd = -1,
		.inner_frames_fd = -1,
		.inner_out_fd = -1,
		.inner_err_fd = -1 };
	list_init(&kernel->link);
	return kernel;
}

bool kernel_make(struct sandbox *sandbox, const struct kernel_plan *plan, struct error *err)
{
	CLEANUP(kernel_free) struct kernel *kernel = kernel_new(sandbox, plan);
	if (!kernel)
		return error_no_memory(err);
	if (!make_descriptors(kernel, err))
		return false;
	sandbox->kernels[kernel->slot] = kernel;
	loop_timer_start(&sandbox->warden->loop, &kernel->timer, START_LIMIT_MS, on_start_too_long);
	template_make_kernel(sandbox->template, TAKE(&kernel));
	return true;
}

bool kernel_start(struct sandbox *sandbox, const struct warden_kernel *request, struct error *err)
{
	if (request->kernel >= KERNELS_A_SANDBOX || request->generation == 0)
		return error_set(err, ERROR_PROTOCOL, "no such kernel slot");
	if (sandbox->kernels[request->kernel])
		return error_set(err, ERROR_PROTOCOL, "the kernel slot is taken");
	if (sandbox->state != SANDBOX_LIVE || sandbox->pause != PAUSE_NONE)
		return error_set(err, ERROR_SANDBOX_NOT_RUNNING, "the sandbox is not running");
	struct kernel_plan plan = { .slot = request->kernel,
		.generation = request->generation,
		.start_serial = request->header.serial };
	if (!language_find(request->language, &plan.language) ||
		!(sandbox->template->about.languages & LANGUAGE_BIT(plan.language)))
		return error_set(
			err, ERROR_LANGUAGE_UNKNOWN, "the sandbox's template has no such language");
	struct kernel *standby = standby_find(sandbox, plan.language);
	if (standby)
		standby_give(standby, &plan);
	pool_wake(sandbox->warden); /* not while this goes on */
	bool is_met = standby || kernel_make(sandbox, &plan, err);
	standby_end_all(sandbox);
	return is_met;
}

bool kernel_is_standby(const struct kernel *kernel)
{
	return kernel->slot >= KERNELS_A_SANDBOX;
}

/* Where somebody waits for the start. */
static void answer_failed(const struct kernel *kernel, const struct error *err)
{
	if (!kernel_is_standby(kernel))
		warden_send_failed(kernel->sandbox->warden, kernel->start_serial, err);
}

/* The failed start is answered, and the slot is free. */
void kernel_on_failed(struct kernel *kernel, const struct error *err)
{
	struct sandbox *sandbox = kernel->sandbox;
	if (!kernel_is_standby(kernel) || !kernel->is_stop_asked)
		log_error("kernel.start", sandbox->name, err);
	answer_failed(kernel, err);
	if (kernel_is_standby(kernel))
		pool_on_kernel_failed(sandbox);
	kernel_free(kernel);
	sandbox_on_kernel_gone(sandbox);
}

/* One line "Name:\tvalue" of a status file. */
static bool status_says(const char *status, const char *name, const char *value)
{
	char line[96];
	snprintf(line, sizeof(line), "\n%s:\t%s\n", name, value);
	return strstr(status, line) != NULL;
}

static unsigned count_filters(const char *status)
{
	static const char name[] = "\nSeccomp_filters:";
	const char *line = strstr(status, name);
	return line ? (unsigned)strtoul(line + sizeof(name) - 1, NULL, 10) : 0;
}

/* A kernel has its zygote's filter; user code's has to be on top. The daemon may run behind some itself. */
static bool has_both_filters(const char *status)
{
	static int ours = -1;
	if (ours < 0) {
		cleanup_free char *own =
			fd_read_file(AT_FDCWD, "/proc/self/status", 8192, NULL, NULL);
		ours = own ? (int)count_filters(own) : -1;
	}
	return ours >= 0 && count_filters(status) >= (unsigned)ours + 2 * SECCOMP_PROGRAMS;
}

/* What is believed of a kernel: not its word, but what the kernel of the host says of it. */
static bool posture_is_right(const struct kernel *kernel, struct error *err)
{
	static const char none[] = "0000000000000000";
	static const char *const facts[][2] = { { "CapInh", none }, { "CapPrm", none },
		{ "CapEff", none }, { "CapBnd", none }, { "CapAmb", none }, { "NoNewPrivs", "1" },
		{ "Seccomp", "2" }, { "Threads", "1" } };
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)kernel->pid);
	cleanup_free char *status = fd_read_file(AT_FDCWD, path, 8192, NULL, err);
	if (!status)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		if (!status_says(status, facts[i][0], facts[i][1]))
			return error_set(err, ERROR_KERNEL_START,
				"the kernel's posture is wrong: %s is not %s", facts[i][0],
				facts[i][1]);
	return has_both_filters(status) ||
	       error_set(err, ERROR_KERNEL_START, "the kernel's posture is wrong: a filter lacks");
}

/* The last number of NSpid: the pid as seen inside. */
static uint32_t read_inner_pid(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	cleanup_free char *status = fd_read_file(AT_FDCWD, path, 8192, NULL, NULL);
	char *line = status ? strstr(status, "\nNSpid:") : NULL;
	if (!line)
		return 0;
	line++;
	line[strcspn(line, "\n")] = '\0';
	char *last = strrchr(line, '\t');
	return last ? (uint32_t)strtoul(last + 1, NULL, 10) : 0;
}

void kernel_tell_started(struct kernel *kernel)
{
	int fds[3];
	struct warden_kernel started =
		kernel_describe(kernel, WARDEN_KERNEL_STARTED, kernel->start_serial, fds);
	warden_send(kernel->sandbox->warden, &started, sizeof(started), fds, 3);
}

static void on_first_frame(struct loop_source *source, uint32_t events)
{
	struct kernel *kernel = CONTAINER_OF(source, struct kernel, frames);
	struct error err = { 0 };
	char byte;
	loop_forget(source);
	if (recv(source->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
		return; /* it hung up: its exit tells */
	loop_timer_stop(&kernel->timer);
	if (!posture_is_right(kernel, &err)) {
		log_error("kernel.posture", kernel->sandbox->name, &err);
		kill(kernel->pid, SIGKILL);
		return;
	}
	kernel->state = KERNEL_LIVE;
	kernel->inner_pid = read_inner_pid(kernel->pid);
	if (kernel_is_standby(kernel))
		pool_wake(kernel->sandbox->warden);
	else
		kernel_tell_started(kernel);
}

void kernel_on_made(struct kernel *kernel, pid_t pid, bool is_gone)
{
	struct error err = { 0 };
	kernel->pid = pid;
	kernel->state = KERNEL_STARTING;
	fd_close(&kernel->inner_frames_fd);
	fd_close(&kernel->inner_out_fd);
	fd_close(&kernel->inner_err_fd);
	if (is_gone) {
		kernel_on_exit(kernel, 0x7f00); /* reaped before its number was known */
		return;
	}
	kernel->child = (struct child){ .sandbox = kernel->sandbox, .kernel = kernel, .pid = pid };
	table_add_child(&kernel->sandbox->warden->table, &kernel->child);
	if (!loop_watch(&kernel->sandbox->warden->loop, &kernel->frames, kernel->frames_fd, EPOLLIN,
		    on_first_frame, &err)) {
		log_error("kernel.start", kernel->sandbox->name, &err);
		kill(pid, SIGKILL);
	}
}

/* ---- the run's clock ---- */

static void on_limit(struct loop_timer *timer)
{
	struct kernel *kernel = CONTAINER_OF(timer, struct kernel, timer);
	struct warden *warden = kernel->sandbox->warden;
	kernel->interrupts++;
	if (kernel->interrupts >= 3) {
		kill(kernel->pid, SIGKILL);
		return;
	}
	kill(kernel->pid, SIGINT);
	loop_timer_start(&warden->loop, timer,
		kernel->interrupts == 1 ? SECOND_INTERRUPT_MS : KILL_MS, on_limit);
	if (kernel->interrupts > 1)
		return;
	int fds[3];
	struct warden_kernel about = kernel_describe(kernel, WARDEN_RUN_LATE, 0, fds);
	struct warden_run late = {
		.header = about.header,
		.sandbox = about.sandbox,
		.kernel = kernel->slot,
		.generation = kernel->generation,
		.run = kernel->run,
	};
	kernel->is_run_late = true;
	warden_send(warden, &late, sizeof(late), NULL, 0);
}

bool kernel_run_begin(struct kernel *kernel, const struct warden_run *request, struct error *err)
{
	if (kernel->state != KERNEL_LIVE || request->run == 0 || kernel->run != 0)
		return error_set(err, ERROR_PROTOCOL, "the kernel cannot begin this run");
	kernel->oom_before = sandbox_oom_kills(kernel->sandbox);
	kernel->run = request->run;
	kernel->interrupts = 0;
	kernel->is_run_late = false;
	if (request->timeout_ms)
		loop_timer_start(&kernel->sandbox->warden->loop, &kernel->timer,
			request->timeout_ms, on_limit);
	return true;
}

void kernel_run_end(struct kernel *kernel, uint32_t run)
{
	if (kernel->run != run)
		return;
	kernel->run = 0;
	kernel->interrupts = 0;
	loop_timer_stop(&kernel->timer);
}

void kernel_interrupt(struct kernel *kernel, uint32_t run)
{
	if (kernel->state == KERNEL_LIVE && run != 0 && kernel->run == run)
		kill(kernel->pid, SIGINT);
}

/* ---- the end ---- */

/* A kernel without a process is gone at once; else its exit follows. */
void kernel_stop(struct kernel *kernel)
{
	kernel->is_stop_asked = true;
	if (kernel->pid > 0) {
		kill(kernel->pid, SIGKILL);
		return;
	}
	struct error err;
	error_set(&err, ERROR_SANDBOX_ENDED, "the kernel was stopped before it had started");
	answer_failed(kernel, &err);
	kernel_free(kernel);
}

static void fail_start(struct kernel *kernel, int status)
{
	struct error err;
	char text[160] = "";
	ssize_t n = read(kernel->err_fd, text, sizeof(text) - 1);
	text[MAX(n, 0)] = '\0';
	if (kernel->is_stop_asked)
		error_set(&err, ERROR_SANDBOX_ENDED, "the kernel was stopped while it started");
	else
		error_set(&err, ERROR_KERNEL_START,
			"the kernel ended while it started: status 0x%x %s", (unsigned)status,
			text);
	kernel_on_failed(kernel, &err);
}

void kernel_on_exit(struct kernel *kernel, int status)
{
	struct sandbox *sandbox = kernel->sandbox;
	kernel->pid = 0;
	if (kernel->state != KERNEL_LIVE) {
		fail_start(kernel, status);
		return;
	}
	if (kernel_is_standby(kernel))
		sandbox->oom_seen = sandbox_oom_kills(sandbox);
	else
		tell_ended(kernel, status);
	kernel_free(kernel);
	sandbox_on_kernel_gone(sandbox);
}
