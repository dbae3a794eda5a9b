/*
 * See standby.h. A standby went through the same steps as any kernel and was looked at in the same
 * way (kernel.c: on_first_frame), so it is only moved into a slot. What it has said so far, READY,
 * lies in its socket for the api.
 *
 * Commands of the sandbox run as the same user and may have ended or stopped it meanwhile, as they
 * may any kernel. One that is gone is not given; one that stands still is sent on.
 */
#include "warden/standby.h"

#include "base/log.h"
#include "warden/pool.h"
#include "warden/template.h"

#include <poll.h>
#include <signal.h>

#define STAY_MS 10000
#define LEAST_PROCESSES 64 /* with fewer allowed, one that was not asked for is in the way */

static struct kernel *const *place_of(const struct sandbox *sandbox, enum language language)
{
	return &sandbox->kernels[KERNELS_A_SANDBOX + language];
}

static bool is_wanted(const struct sandbox *sandbox, enum language language)
{
	uint32_t set = sandbox->warden->setup.pool_languages & sandbox->template->about.languages;
	return set & LANGUAGE_BIT(language);
}

bool standby_make_missing(struct sandbox *sandbox)
{
	for (enum language language = 0; language < LANGUAGE_COUNT; language++) {
		struct error err = { 0 };
		struct kernel_plan plan = {
			.slot = KERNELS_A_SANDBOX + language,
			.language = language,
		};
		if (*place_of(sandbox, language) || !is_wanted(sandbox, language))
			continue;
		if (!kernel_make(sandbox, &plan, &err)) {
			log_error("pool.kernel", sandbox->name, &err);
			pool_on_kernel_failed(sandbox);
		}
		return true;
	}
	return false;
}

bool standby_is_starting(const struct sandbox *sandbox)
{
	for (enum language language = 0; language < LANGUAGE_COUNT; language++) {
		const struct kernel *kernel = *place_of(sandbox, language);
		if (kernel && kernel->state != KERNEL_LIVE)
			return true;
	}
	return false;
}

bool standby_is_complete(const struct sandbox *sandbox)
{
	for (enum language language = 0; language < LANGUAGE_COUNT; language++) {
		const struct kernel *kernel = *place_of(sandbox, language);
		if (is_wanted(sandbox, language) && (!kernel || kernel->state != KERNEL_LIVE))
			return false;
	}
	return true;
}

static void end(struct kernel *kernel)
{
	if (kernel && !kernel->is_stop_asked)
		kernel_stop(kernel);
}

void standby_end_all(struct sandbox *sandbox)
{
	loop_timer_stop(&sandbox->standby_timer);
	for (enum language language = 0; language < LANGUAGE_COUNT; language++)
		end(*place_of(sandbox, language));
}

static void on_unused(struct loop_timer *timer)
{
	standby_end_all(CONTAINER_OF(timer, struct sandbox, standby_timer));
}

/* Python's code is told the cores of the share when it starts. */
static bool fits(const struct kernel *kernel)
{
	const struct wire_limits *limits = &kernel->sandbox->limits;
	return limits->processes >= LEAST_PROCESSES &&
	       (kernel->language != LANGUAGE_PYTHON || kernel->cores == template_cores(limits));
}

void standby_on_claim(struct sandbox *sandbox)
{
	for (enum language language = 0; language < LANGUAGE_COUNT; language++) {
		struct kernel *kernel = *place_of(sandbox, language);
		if (kernel && !fits(kernel))
			end(kernel);
	}
	loop_timer_start(&sandbox->warden->loop, &sandbox->standby_timer, STAY_MS, on_unused);
}

static bool has_hung_up(const struct kernel *kernel)
{
	struct pollfd watched = { .fd = kernel->frames_fd };
	return poll(&watched, 1, 0) != 0;
}

struct kernel *standby_find(struct sandbox *sandbox, enum language language)
{
	struct kernel *kernel = *place_of(sandbox, language);
	return kernel && !kernel->is_stop_asked && !has_hung_up(kernel) ? kernel : NULL;
}

void standby_give(struct kernel *kernel, const struct kernel_plan *plan)
{
	struct sandbox *sandbox = kernel->sandbox;
	sandbox->kernels[kernel->slot] = NULL;
	kernel->slot = plan->slot;
	kernel->generation = plan->generation;
	kernel->start_serial = plan->start_serial;
	kernel->oom_before = sandbox_oom_kills(sandbox);
	sandbox->kernels[kernel->slot] = kernel;
	if (kernel->pid > 0)
		kill(kernel->pid, SIGCONT);
	if (kernel->state == KERNEL_LIVE)
		kernel_tell_started(kernel);
}
