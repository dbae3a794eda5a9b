/*
 * GET /metrics, of the daemon and of a sandbox. The sandbox's numbers are the warden's: counters of
 * its control groups and of its file system, which no code inside can bend. Processor use is what
 * was used since it was last asked for, or over SAMPLE_MS where that is too long ago.
 */
#include "api/answer.h"
#include "api/journal.h"
#include "api/routes.h"
#include "api/run.h"
#include "api/sandbox.h"
#include "api/session.h"
#include "base/clock.h"

#include <stdio.h>

#define ANSWER_MS 5000
#define SAMPLE_MS 200
#define SAMPLE_OLD_MS 60000

/* ---- a sandbox ---- */

struct measuring {
	struct call *call;
	struct guest guest;
	struct warden_request usage;
	struct loop_timer again;
};

static void measuring_end(struct measuring *measuring)
{
	warden_cancel(&measuring->usage);
	loop_timer_stop(&measuring->again);
	guest_leave(&measuring->guest);
	measuring->call->on_gone = NULL;
}

static void measuring_fail(struct measuring *measuring, const struct error *err)
{
	measuring_end(measuring);
	answer_error(measuring->call, err);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	measuring_fail(CONTAINER_OF(guest, struct measuring, guest), why);
}

static void on_gone(struct call *call)
{
	measuring_end(call->state);
	answer_gone(call);
}

static void write_number(struct writer *writer, const char *key, double value)
{
	char text[32];
	snprintf(text, sizeof(text), "%.6g", value);
	writer_raw(writer, key, text);
}

static unsigned under_way(const struct sandbox *sandbox)
{
	unsigned count = 0;
	LIST_EACH(&sandbox->runs, struct run, link, run) {
		count += run->cell != NULL;
	}
	return count;
}

/* The names that PandaStack's answer has. There it is a virtual machine's process on the host. */
static void write_known(
	const struct sandbox *sandbox, const struct warden_usage *usage, struct writer *writer)
{
	writer_int(writer, "pid", usage->pid);
	write_number(
		writer, "uptime_seconds", (double)(clock_wall_ms() - sandbox->created_ms) / 1000);
	write_number(writer, "host_cpu_percent", sandbox->cpu.percent);
	writer_int(writer, "host_rss_bytes", (int64_t)usage->memory_bytes);
	writer_int(writer, "host_vsz_bytes", (int64_t)usage->memory_limit);
	writer_int(writer, "threads", usage->processes);
}

static void write_usage(
	const struct sandbox *sandbox, const struct warden_usage *usage, struct writer *writer)
{
	write_number(writer, "cpu_seconds", (double)usage->cpu_us / 1e6);
	write_number(writer, "cpu_limit", sandbox->limits.cpu_milli / 1000.0);
	writer_int(writer, "memory_bytes", (int64_t)usage->memory_bytes);
	writer_int(writer, "memory_peak_bytes", (int64_t)usage->memory_peak);
	writer_int(writer, "memory_limit_bytes", (int64_t)usage->memory_limit);
	writer_int(writer, "memory_kills", (int64_t)usage->oom_kills);
	writer_int(writer, "disk_bytes", (int64_t)usage->files_bytes);
	writer_int(writer, "disk_limit_bytes", (int64_t)usage->files_limit);
	writer_int(writer, "inodes", (int64_t)usage->inodes);
	writer_int(writer, "inode_limit", (int64_t)usage->inode_limit);
	writer_int(writer, "processes", usage->processes);
	writer_int(writer, "process_limit", usage->process_limit);
	writer_int(writer, "forks_refused", (int64_t)usage->pids_refused);
	writer_int(writer, "contexts", sandbox->session_count);
	writer_int(writer, "runs_under_way", under_way(sandbox));
	writer_int(writer, "log_bytes", (int64_t)sandbox->log->end_place);
}

static void answer_usage(struct measuring *measuring, const struct warden_usage *usage)
{
	struct sandbox *sandbox = measuring->guest.sandbox;
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	write_known(sandbox, usage, &writer);
	write_usage(sandbox, usage, &writer);
	writer_close(&writer, '}');
	measuring_end(measuring);
	answer_json(measuring->call, 200, &writer);
}

static void on_again(struct loop_timer *timer);

/* True when there is a number to tell. */
static bool take_sample(struct sandbox *sandbox, uint64_t cpu_us)
{
	int64_t now_us = clock_monotonic_us(), past_us = now_us - sandbox->cpu.at_us;
	bool is_first = sandbox->cpu.at_us == 0 || past_us > SAMPLE_OLD_MS * 1000;
	if (!is_first && past_us < SAMPLE_MS * 1000)
		return sandbox->cpu.has_percent;
	if (!is_first && cpu_us >= sandbox->cpu.used_us)
		sandbox->cpu.percent =
			(double)(cpu_us - sandbox->cpu.used_us) * 100 / (double)past_us;
	sandbox->cpu.has_percent = !is_first;
	sandbox->cpu.at_us = now_us;
	sandbox->cpu.used_us = cpu_us;
	return !is_first;
}

static void on_usage(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct measuring *measuring = CONTAINER_OF(request, struct measuring, usage);
	struct error odd;
	if (!packet)
		return measuring_fail(measuring, err);
	if (packet->header.op != WARDEN_USAGE_ANSWER) {
		error_set(&odd, ERROR_INTERNAL, "the warden answered something else");
		return measuring_fail(measuring, &odd);
	}
	const struct warden_usage *usage = (const void *)packet->bytes;
	if (take_sample(measuring->guest.sandbox, usage->cpu_us))
		return answer_usage(measuring, usage);
	loop_timer_start(&measuring->call->api->loop, &measuring->again, SAMPLE_MS, on_again);
}

static bool ask(struct measuring *measuring, struct error *err)
{
	struct warden_release message = { .sandbox = measuring->guest.sandbox->id };
	return warden_ask(&measuring->call->api->warden, &measuring->usage, WARDEN_USAGE, &message,
		sizeof(message), ANSWER_MS, on_usage, err);
}

static void on_again(struct loop_timer *timer)
{
	struct measuring *measuring = CONTAINER_OF(timer, struct measuring, again);
	struct error err = { 0 };
	if (!ask(measuring, &err))
		measuring_fail(measuring, &err);
}

void metrics_sandbox(struct call *call)
{
	struct error err = { 0 };
	struct measuring *measuring = http_request_alloc(call->request, sizeof(*measuring));
	if (!measuring) {
		error_no_memory(&err);
		return answer_error(call, &err);
	}
	measuring->call = call;
	if (!guest_look_from_outside(&measuring->guest, call->sandbox, on_sandbox_end, &err))
		return answer_error(call, &err);
	call->state = measuring;
	call->on_gone = on_gone;
	if (!ask(measuring, &err))
		measuring_fail(measuring, &err);
}

/* ---- the daemon ---- */

static struct stats_now look(const struct api *api)
{
	struct stats_now now = { .calls = api->calls,
		.descriptors = api->descriptors,
		.descriptor_limit = api->descriptor_limit,
		.run_bytes = api->runs.bytes };
	LIST_EACH(&api->sandboxes, struct sandbox, link, sandbox) {
		now.sandboxes++;
		now.sandboxes_running += sandbox->state == SANDBOX_RUNNING;
		now.contexts += sandbox->session_count;
		LIST_EACH(&sandbox->runs, struct run, link, run) {
			now.runs_kept++;
		}
	}
	return now;
}

void metrics_daemon(struct call *call)
{
	struct error err;
	cleanup_buf struct buf text = buf_make(1 << 20);
	struct stats_now now = look(call->api);
	if (call->owner && !config_is_operator(&call->api->config, call->owner)) {
		error_set(&err, ERROR_OPERATOR_ONLY, "the daemon's metrics are its operator's");
		return answer_error(call, &err);
	}
	if (stats_write(&call->api->stats, &now, call->api->config.version, &text))
		return answer_text(call, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
	error_no_memory(&err);
	answer_error(call, &err);
}
