/*
 * See pause.h. Freezing is asked for and then looked at, by a timer: a process may need a moment to
 * get to where it can stand still. The time a kernel has left is kept from the first moment on, so
 * that the freezing is not at its cost.
 *
 * Signals to a frozen process wait until it is thawed. An interrupt is then heard at once; a kernel
 * that was stopped meanwhile ends before it runs another instruction.
 */
#include "warden/pause.h"

#include "base/log.h"
#include "jail/freezer.h"

#define LOOK_AGAIN_MS 2
#define LOOKS 1000 /* 2 s and what the looking takes */

static void each_clock(struct sandbox *sandbox, bool goes_on)
{
	struct loop *loop = &sandbox->warden->loop;
	for (unsigned i = 0; i < KERNEL_PLACES; i++) {
		struct kernel *kernel = sandbox->kernels[i];
		if (kernel && goes_on)
			loop_timer_go_on(loop, &kernel->timer);
		else if (kernel)
			loop_timer_halt(&kernel->timer);
	}
}

static void answer(const struct sandbox *sandbox, uint16_t op, uint32_t serial)
{
	struct warden_release message = { .header = warden_header(op, serial),
		.sandbox = sandbox->id };
	warden_send(sandbox->warden, &message, sizeof(message), NULL, 0);
}

static bool thaw(struct sandbox *sandbox, struct error *err)
{
	if (!freezer_set(&sandbox->warden->cgroups, sandbox->box, false, err))
		return false;
	loop_timer_stop(&sandbox->timer);
	sandbox->pause = PAUSE_NONE;
	each_clock(sandbox, true);
	return true;
}

static void fail(struct sandbox *sandbox, const char *why)
{
	struct error err;
	uint32_t serial = sandbox->pause_serial;
	pause_give_up(sandbox);
	error_set(&err, ERROR_BUSY, "the sandbox could not be paused: %s", why);
	log_error("sandbox.pause", sandbox->name, &err);
	warden_send_failed(sandbox->warden, serial, &err);
}

static void look(struct sandbox *sandbox);

static void on_look_again(struct loop_timer *timer)
{
	look(CONTAINER_OF(timer, struct sandbox, timer));
}

static void look(struct sandbox *sandbox)
{
	if (freezer_is_frozen(&sandbox->warden->cgroups, sandbox->box)) {
		sandbox->pause = PAUSE_FROZEN;
		answer(sandbox, WARDEN_PAUSED, sandbox->pause_serial);
	} else if (++sandbox->pause_looks >= LOOKS) {
		fail(sandbox, "a process in it does not stand still");
	} else {
		loop_timer_start(
			&sandbox->warden->loop, &sandbox->timer, LOOK_AGAIN_MS, on_look_again);
	}
}

bool pause_begin(struct sandbox *sandbox, uint32_t serial, struct error *err)
{
	if (sandbox->pause == PAUSE_FREEZING)
		return error_set(err, ERROR_BUSY, "the sandbox is being paused already");
	if (sandbox->pause == PAUSE_FROZEN) {
		answer(sandbox, WARDEN_PAUSED, serial);
		return true;
	}
	if (!freezer_set(&sandbox->warden->cgroups, sandbox->box, true, err))
		return false;
	sandbox->pause = PAUSE_FREEZING;
	sandbox->pause_serial = serial;
	sandbox->pause_looks = 0;
	each_clock(sandbox, false);
	look(sandbox);
	return true;
}

bool pause_resume(struct sandbox *sandbox, uint32_t serial, struct error *err)
{
	if (sandbox->pause == PAUSE_FREEZING)
		fail(sandbox, "it was resumed meanwhile");
	if (sandbox->pause != PAUSE_NONE && !thaw(sandbox, err))
		return false;
	answer(sandbox, WARDEN_RESUMED, serial);
	return true;
}

void pause_give_up(struct sandbox *sandbox)
{
	struct error err = { 0 };
	if (sandbox->pause != PAUSE_NONE && !thaw(sandbox, &err))
		log_error("sandbox.thaw", sandbox->name, &err);
}
