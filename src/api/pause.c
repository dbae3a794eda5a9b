/*
 * See pause.h. First the clocks, then the freezer, and back in the opposite order: so that no clock
 * ever counts while what it measures stands still. Three hold clocks: the warden those of kernels,
 * the supervisor inside that of a command, and this process slower ones over both.
 *
 * Calls that ask for what is under way wait for it together; asking for the opposite meanwhile is
 * refused. A client that goes away changes nothing.
 */
#include "api/pause.h"

#include "api/answer.h"
#include "api/routes.h"
#include "api/sandbox_events.h"
#include "api/session.h"
#include "api/waiters.h"
#include "base/clock.h"
#include "base/log.h"

#define ANSWER_MS 10000 /* the warden gives up after 2 s by itself */

/* ---- who waits ---- */

/* Answers all: 204, or with `why`. */
static void answer_waiters(struct sandbox *sandbox, const struct error *why)
{
	struct call *call;
	while ((call = waiters_take(&sandbox->pause_waiters))) {
		if (why)
			answer_error(call, why);
		else
			answer_empty(call, 204);
	}
}

void pause_on_end(struct sandbox *sandbox, const struct error *why)
{
	warden_cancel(&sandbox->pausing);
	answer_waiters(sandbox, why);
}

/* ---- clocks ---- */

static void tell_guests(struct sandbox *sandbox, int64_t lasted_us)
{
	LIST_EACH(&sandbox->guests, struct guest, link, guest) {
		if (guest->on_pause)
			guest->on_pause(guest, lasted_us);
	}
}

static void stop_clocks(struct sandbox *sandbox)
{
	sandbox->paused_us = clock_monotonic_us();
	tell_guests(sandbox, -1);
	LIST_EACH(&sandbox->sessions, struct session, link, session) {
		session_pause(session);
	}
}

/* Cells that waited may begin now, and fail at once where their kernel is gone. */
static void let_go_on(struct sandbox *sandbox)
{
	sandbox_set_pause(sandbox, SANDBOX_GOES);
	int64_t lasted_us = clock_monotonic_us() - sandbox->paused_us;
	tell_guests(sandbox, lasted_us);
	LIST_EACH(&sandbox->sessions, struct session, link, session) {
		session_go_on(session, lasted_us);
	}
}

/* ---- the warden ---- */

static void note_change(struct sandbox *sandbox, const char *type)
{
	struct note note;
	note_begin(&note, sandbox, type);
	note_end(&note);
	log_write(LOG_INFO, type, sandbox->text, "as asked for");
}

static void tell_resume(struct sandbox *sandbox)
{
	struct warden_release message = { .sandbox = sandbox->id };
	warden_tell(&sandbox->api->warden, WARDEN_RESUME, &message, sizeof(message));
}

static void on_paused(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct sandbox *sandbox = CONTAINER_OF(request, struct sandbox, pausing);
	if (packet) {
		sandbox_set_pause(sandbox, SANDBOX_PAUSED);
		note_change(sandbox, "sandbox.paused");
		return answer_waiters(sandbox, NULL);
	}
	log_error("sandbox.pause", sandbox->text, err);
	tell_resume(sandbox); /* in case it came too late, not never */
	let_go_on(sandbox);
	answer_waiters(sandbox, err);
}

static void on_resumed(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct sandbox *sandbox = CONTAINER_OF(request, struct sandbox, pausing);
	if (packet) {
		note_change(sandbox, "sandbox.resumed");
		let_go_on(sandbox);
		return answer_waiters(sandbox, NULL);
	}
	log_error("sandbox.resume", sandbox->text, err);
	sandbox_set_pause(sandbox, SANDBOX_PAUSED);
	answer_waiters(sandbox, err);
}

static bool ask(struct sandbox *sandbox, uint16_t op, warden_on_answer on_answer, struct error *err)
{
	struct warden_release message = { .sandbox = sandbox->id };
	return warden_ask(&sandbox->api->warden, &sandbox->pausing, op, &message, sizeof(message),
		ANSWER_MS, on_answer, err);
}

/* ---- the endpoints ---- */

static bool begin_pause(struct sandbox *sandbox, struct error *err)
{
	sandbox_set_pause(sandbox, SANDBOX_PAUSING);
	stop_clocks(sandbox);
	if (ask(sandbox, WARDEN_PAUSE, on_paused, err))
		return true;
	let_go_on(sandbox);
	return false;
}

static bool begin_resume(struct sandbox *sandbox, struct error *err)
{
	if (!ask(sandbox, WARDEN_RESUME, on_resumed, err))
		return false;
	sandbox_set_pause(sandbox, SANDBOX_RESUMING);
	return true;
}

/* From `from` through `through` to `to`, whichever of them it is in now. */
static bool change(struct call *call, enum sandbox_pause from, enum sandbox_pause through,
	enum sandbox_pause to, struct error *err)
{
	struct sandbox *sandbox = call->sandbox;
	if (sandbox->pause == to) {
		answer_empty(call, 204);
		return true;
	}
	if (sandbox->pause != from && sandbox->pause != through)
		return error_set(err, ERROR_BUSY, "the sandbox is just being %s",
			to == SANDBOX_PAUSED ? "resumed" : "paused");
	bool is_begun =
		sandbox->pause == through ||
		(from == SANDBOX_GOES ? begin_pause(sandbox, err) : begin_resume(sandbox, err));
	return is_begun && waiters_add(&sandbox->pause_waiters, call, err);
}

void pause_post(struct call *call)
{
	struct error err = { 0 };
	if (!change(call, SANDBOX_GOES, SANDBOX_PAUSING, SANDBOX_PAUSED, &err))
		answer_error(call, &err);
}

void resume_post(struct call *call)
{
	struct error err = { 0 };
	if (!change(call, SANDBOX_PAUSED, SANDBOX_RESUMING, SANDBOX_GOES, &err))
		answer_error(call, &err);
}
