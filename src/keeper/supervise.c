/*
 * Who lives. The api and the warden are started again when they end; a channel between them is made
 * anew each time, one end for each. An api that ends costs nothing but the answers under way. A
 * warden that ends takes its sandboxes along; the next starts empty. What fails to start again and
 * again is given up, and the keeper with it.
 *
 * The end, on SIGTERM or SIGINT: the api stops first, then the warden ends all sandboxes, then the
 * cgroups go. Each step has its patience; then SIGKILL.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "jail/freezer.h"
#include "keeper/keeper.h"
#include "wire/keeper.h"
#include "wire/nursery.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define QUICK_MS 5000
#define QUICK_ENDS 5
#define AGAIN_MS 100
#define API_PATIENCE_MS 4000
#define WARDEN_PATIENCE_MS 10000
#define REAP_PAUSE_MS 5
#define CHANNEL_BYTES (16 << 20)

static void give_up(struct keeper *keeper, const char *why)
{
	log_write(LOG_ERROR, "keeper.ends", NULL, "%s", why);
	keeper->is_failed = true;
	loop_stop(&keeper->loop);
}

/* What is frozen below the warden has to be thawed, or its death never comes to an end. */
static void kill_child(struct keeper *keeper, struct child *child)
{
	if (child->pid > 0)
		kill(child->pid, SIGKILL);
	if (child == &keeper->warden)
		freezer_thaw_boxes(freezer_folder(&keeper->cgroups));
}

/* ---- one channel, two ends ---- */

static bool connect_api(struct keeper *keeper, struct error *err)
{
	int ends[2], bytes = CHANNEL_BYTES;
	if (!wire_pair(ends, err))
		return false;
	for (int i = 0; i < 2; i++)
		setsockopt(ends[i], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	struct nursery_plain order = {
		.header = { .op = NURSERY_API, .version = NURSERY_VERSION },
	};
	struct keeper_message message = {
		.header = { .op = KEEPER_WARDEN, .version = KEEPER_VERSION },
	};
	bool is_sent = wire_send(keeper->warden.fd, &order, sizeof(order), &ends[0], 1, err) &&
		       wire_send(keeper->api.fd, &message, sizeof(message), &ends[1], 1, err);
	close(ends[0]);
	close(ends[1]);
	return is_sent;
}

static void check_ready(struct keeper *keeper)
{
	if (keeper->is_ready_told || !keeper->api.is_ready || !keeper->warden.is_ready)
		return;
	keeper->is_ready_told = true;
	printf("ready http://%s\n", keeper->address);
	fflush(stdout);
	log_write(LOG_INFO, "ready", NULL, "serving on %s", keeper->address);
}

/* ---- what the children say: one word each ---- */

static void on_child(struct keeper *keeper, struct child *child, uint16_t ready_op)
{
	struct wire_packet packet;
	struct error err = { 0 };
	enum wire_result result = wire_receive(child->fd, &packet, &err);
	if (result == WIRE_NOTHING)
		return;
	if (result == WIRE_GOT && packet.header.op == ready_op && packet.fd_count == 0) {
		child->is_ready = true;
		check_ready(keeper);
		if (child == &keeper->warden)
			reload_on_settled(keeper);
		return;
	}
	bool is_order =
		result == WIRE_GOT && child == &keeper->api && builder_on_order(keeper, &packet);
	if (result == WIRE_GOT)
		wire_packet_deinit(&packet);
	if (is_order)
		return;
	loop_forget(&child->source); /* its exit does the rest */
	kill_child(keeper, child);
}

static void on_warden(struct loop_source *source, uint32_t events)
{
	struct keeper *keeper = CONTAINER_OF(source, struct keeper, warden.source);
	on_child(keeper, &keeper->warden, NURSERY_READY);
}

static void on_api(struct loop_source *source, uint32_t events)
{
	struct keeper *keeper = CONTAINER_OF(source, struct keeper, api.source);
	on_child(keeper, &keeper->api, KEEPER_READY);
}

/* ---- starting ---- */

static bool start_missing(struct keeper *keeper, struct error *err)
{
	bool is_new = false;
	if (!keeper->warden.pid) {
		if (!nursery_start(keeper, err) ||
			!loop_watch(&keeper->loop, &keeper->warden.source, keeper->warden.fd,
				EPOLLIN, on_warden, err))
			return false;
		keeper->warden.started_ms = clock_monotonic_ms();
		is_new = true;
	}
	if (!keeper->api.pid) {
		if (!service_start_api(keeper, err) ||
			!loop_watch(&keeper->loop, &keeper->api.source, keeper->api.fd, EPOLLIN,
				on_api, err))
			return false;
		keeper->api.started_ms = clock_monotonic_ms();
		is_new = true;
	}
	return !is_new || connect_api(keeper, err);
}

static void on_start_again(struct loop_timer *timer)
{
	struct keeper *keeper = CONTAINER_OF(timer, struct keeper, timer);
	struct error err = { 0 };
	if (!keeper->is_stopping && !start_missing(keeper, &err)) {
		log_error("start", NULL, &err);
		give_up(keeper, "a process cannot be started again");
	}
}

/* ---- ending ---- */

static void step_down(struct keeper *keeper);

static void on_patience_over(struct loop_timer *timer)
{
	struct keeper *keeper = CONTAINER_OF(timer, struct keeper, timer);
	struct child *slow = keeper->api.pid ? &keeper->api : &keeper->warden;
	if (slow->pid) {
		log_write(LOG_WARNING, "stop.slow", NULL, "a process is killed");
		kill_child(keeper, slow);
	}
	loop_timer_start(&keeper->loop, &keeper->timer, WARDEN_PATIENCE_MS, on_patience_over);
}

/* The next step of the end: what still runs is asked to go, the api first. */
static void step_down(struct keeper *keeper)
{
	struct error err;
	struct keeper_message to_api = { .header = { KEEPER_STOP, KEEPER_VERSION, 0 } };
	struct nursery_plain to_warden = { .header = { NURSERY_STOP, NURSERY_VERSION, 0 } };
	if (keeper->api.pid) {
		if (!wire_send(keeper->api.fd, &to_api, sizeof(to_api), NULL, 0, &err))
			kill(keeper->api.pid, SIGKILL);
		loop_timer_start(&keeper->loop, &keeper->timer, API_PATIENCE_MS, on_patience_over);
	} else if (keeper->warden.pid) {
		if (!wire_send(keeper->warden.fd, &to_warden, sizeof(to_warden), NULL, 0, &err))
			kill_child(keeper, &keeper->warden);
		loop_timer_start(
			&keeper->loop, &keeper->timer, WARDEN_PATIENCE_MS, on_patience_over);
	} else if (!keeper->build.pid) {
		loop_stop(&keeper->loop);
	}
}

static void on_exit_of(struct keeper *keeper, struct child *child, const char *name, int status)
{
	loop_forget(&child->source);
	fd_close(&child->fd);
	bool was_ready = child->is_ready;
	child->pid = 0;
	child->is_ready = false;
	if (child == &keeper->api)
		builder_stop(keeper);
	if (keeper->is_stopping) {
		step_down(keeper);
		return;
	}
	log_write(LOG_ERROR, "child.ended", NULL, "the %s ended, status 0x%x", name,
		(unsigned)status);
	/* Only starts that fail count: one that served and was killed must not take all sandboxes
	 * along. */
	bool is_young = clock_monotonic_ms() - child->started_ms < QUICK_MS;
	child->quick_ends = is_young && !was_ready ? child->quick_ends + 1 : 0;
	if (child->quick_ends >= QUICK_ENDS || !keeper->is_ready_told) {
		give_up(keeper,
			"a process ends at once, again and again, or before the first ready");
		return;
	}
	loop_timer_start(&keeper->loop, &keeper->timer, is_young ? AGAIN_MS : 0, on_start_again);
}

static void on_guard_exit(struct keeper *keeper)
{
	struct error err = { 0 };
	log_write(LOG_ERROR, "child.ended", NULL, "the guard ended");
	fd_close(&keeper->guard_fd);
	keeper->guard_pid = 0;
	if (++keeper->guard_ends < QUICK_ENDS && guard_start(keeper, &err))
		return;
	give_up(keeper, "the guard does not stay alive");
}

static void on_signals(struct loop_source *source, uint32_t events)
{
	struct keeper *keeper = CONTAINER_OF(source, struct keeper, signals);
	struct signalfd_siginfo info;
	int status;
	pid_t pid;
	while (read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		bool is_end = info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
		if (info.ssi_signo == SIGHUP)
			reload_now(keeper);
		if (is_end && !keeper->is_stopping) {
			keeper->is_stopping = true;
			log_write(LOG_INFO, "stopping", NULL, "signal %u", info.ssi_signo);
			builder_stop(keeper);
			step_down(keeper);
		}
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == keeper->api.pid)
			on_exit_of(keeper, &keeper->api, "api", status);
		else if (pid == keeper->warden.pid)
			on_exit_of(keeper, &keeper->warden, "warden", status);
		else if (pid == keeper->guard_pid)
			on_guard_exit(keeper);
		else if (builder_on_exit(keeper, pid, status) && keeper->is_stopping &&
			 !keeper->api.pid && !keeper->warden.pid)
			step_down(keeper);
	}
}

static void kill_and_reap(struct keeper *keeper, struct child *child)
{
	const struct timespec pause = { .tv_nsec = REAP_PAUSE_MS * 1000000L };
	while (child->pid > 0) {
		kill_child(keeper, child);
		if (waitpid(child->pid, NULL, WNOHANG) != 0)
			break;
		nanosleep(&pause, NULL);
	}
	child->pid = 0;
	fd_close(&child->fd);
}

bool supervise(struct keeper *keeper, struct error *err)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	if (!loop_init(&keeper->loop, err))
		return false;
	int fd = loop_signal_fd(&signals, err);
	bool is_good = fd >= 0 &&
		       loop_watch(&keeper->loop, &keeper->signals, fd, EPOLLIN, on_signals, err) &&
		       reload_start(keeper, err) && start_missing(keeper, err) &&
		       loop_run(&keeper->loop, err);
	kill_and_reap(keeper, &keeper->api);
	kill_and_reap(keeper, &keeper->warden);
	builder_kill(keeper);
	if (is_good && keeper->is_failed) {
		error_set(err, ERROR_INTERNAL,
			"given up: a process of the daemon does not stay alive");
		return error_hint(
			err, "the lines above say why; `sandglass doctor` looks at the host");
	}
	return is_good;
}
