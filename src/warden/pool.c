/*
 * See pool.h. One timer for all: it is set anew with each claim and each start of a kernel, so a
 * burst is over before anything is made here, and with the end of each own step, so there is one at
 * a time. A burst that does not end puts the next sandbox off by no more than PATIENCE_MS, and its
 * kernels then not at all: so under steady demand a few stand ready all the same, and most of the time
 * is the creates'. A full pool has no timer at all. After failures it waits, longer each time.
 *
 * The unclaimed count against places, promised memory, free memory and descriptors when one more is
 * made, and with a margin where that is what all share, so that the pool is not what fills the
 * machine.
 */
#include "warden/pool.h"

#include "base/clock.h"
#include "base/log.h"
#include "warden/admission.h"
#include "warden/standby.h"
#include "warden/template.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define QUIET_MS 25
#define PATIENCE_MS 250 /* making one more may be put off for so long */
#define AGAIN_MS 1000   /* after the first failure; doubled with each */
#define FAILURES_COUNTED 6
#define DESCRIPTOR_PART 2 /* of the descriptors only one in so many is for the pool to use */

static bool is_on(const struct warden *warden)
{
	return warden->setup.pool > 0 && !warden->is_stopping;
}

static bool is_in_pool(const struct sandbox *sandbox)
{
	return !list_is_empty(&sandbox->pool_link);
}

static void leave(struct sandbox *sandbox)
{
	list_remove(&sandbox->pool_link);
	sandbox->warden->pool_count--;
}

/* ---- what is missing ---- */

/* One of ours is being made. */
static bool is_making(const struct warden *warden)
{
	LIST_EACH(&warden->templates, struct template, link, template)
		LIST_EACH(&template->pool, struct sandbox, pool_link, sandbox)
			if (sandbox->state == SANDBOX_STARTING || standby_is_starting(sandbox))
				return true;
	return false;
}

/* The next sandbox has been put off for long enough. */
static bool is_overdue(const struct warden *warden)
{
	return clock_monotonic_us() >= warden->pool_put_off_us + PATIENCE_MS * 1000;
}

/* The lowest free descriptor tells how many are used. */
static bool has_descriptors(void)
{
	struct rlimit limit;
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	       (rlim_t)fd < limit.rlim_cur / DESCRIPTOR_PART;
}

static bool has_room(const struct warden *warden)
{
	return warden->sandbox_count + warden->pool_count < warden->setup.slices &&
	       has_descriptors() && admission_has_spare(warden);
}

static void on_failure(struct warden *warden)
{
	int64_t wait_ms = (int64_t)AGAIN_MS << MIN(warden->pool_failures, FAILURES_COUNTED);
	warden->pool_failures++;
	warden->pool_not_before_us = clock_monotonic_us() + wait_ms * 1000;
	pool_wake(warden);
}

static void make_one(struct template *template)
{
	struct warden *warden = template->warden;
	struct error err = { 0 };
	struct sandbox_plan plan = { .template = template, .limits = warden->setup.defaults };
	id_random(&plan.id, sizeof(plan.id));
	struct sandbox *sandbox = sandbox_make(warden, &plan, &err);
	if (!sandbox) {
		log_error("pool.fill", NULL, &err);
		on_failure(warden);
		return;
	}
	list_append(&template->pool, &sandbox->pool_link);
	warden->pool_count++;
}

static bool make_kernel(struct template *template)
{
	LIST_EACH(&template->pool, struct sandbox, pool_link, sandbox)
		if (standby_make_missing(sandbox))
			return true;
	return false;
}

static bool make_sandbox(struct template *template)
{
	unsigned count = 0;
	LIST_EACH(&template->pool, struct sandbox, pool_link, sandbox)
		count++;
	if (count >= template->warden->setup.pool || !has_room(template->warden))
		return false;
	make_one(template);
	return true;
}

/* Of the first template that lacks something. */
static bool fill(struct warden *warden, bool (*make)(struct template *template))
{
	LIST_EACH(&warden->templates, struct template, link, template)
		if (template->is_warm && !template->is_replaced && make(template))
			return true;
	return false;
}

static void on_full(struct warden *warden)
{
	if (warden->is_pool_filling)
		log_write(LOG_INFO, "pool.full", NULL, "%u sandboxes stand ready",
			warden->pool_count);
	warden->is_pool_filling = warden->is_pool_urgent = false;
	warden->pool_failures = 0;
	warden->pool_put_off_us = 0;
}

static void on_due(struct loop_timer *timer);

static void look_at(struct warden *warden, int64_t due_us)
{
	loop_timer_start_at(&warden->loop, &warden->pool_timer,
		MAX(due_us, warden->pool_not_before_us), on_due);
}

static void look_later(struct warden *warden)
{
	look_at(warden, clock_monotonic_us() + QUIET_MS * 1000);
}

static void on_due(struct loop_timer *timer)
{
	struct warden *warden = CONTAINER_OF(timer, struct warden, pool_timer);
	bool is_late = is_overdue(warden);
	if (!is_on(warden))
		return; /* told to stop meanwhile: one more would never be ended */
	if (is_making(warden) || (warden->waiting_count > 0 && !is_late && !warden->is_pool_urgent))
		return look_later(warden);
	if (fill(warden, make_kernel)) {
		warden->is_pool_filling = true;
		warden->pool_put_off_us = 0;
		return pool_wake(warden);
	}
	if (warden->is_pool_urgent && !is_late) {
		warden->is_pool_urgent = false; /* that one is complete, or taken */
		return pool_wake(warden);
	}
	if (!fill(warden, make_sandbox))
		return on_full(warden);
	warden->is_pool_filling = true;
	warden->is_pool_urgent = is_late;
	warden->pool_put_off_us = 0;
	pool_wake(warden);
}

void pool_wake(struct warden *warden)
{
	int64_t now_us = clock_monotonic_us();
	if (!is_on(warden))
		return;
	if (!warden->pool_put_off_us)
		warden->pool_put_off_us = now_us;
	int64_t latest_us = MAX(warden->pool_put_off_us + PATIENCE_MS * 1000, now_us);
	int64_t quiet_us = now_us + (warden->is_pool_urgent ? 0 : QUIET_MS * 1000);
	look_at(warden, MIN(quiet_us, latest_us));
}

void pool_on_warm(struct warden *warden)
{
	warden->is_pool_filling = true;
	pool_wake(warden);
}

/* ---- what is there ---- */

struct sandbox *pool_find(struct template *template)
{
	struct sandbox *found = NULL;
	LIST_EACH(&template->pool, struct sandbox, pool_link, sandbox) {
		if (sandbox->state != SANDBOX_LIVE)
			continue;
		if (standby_is_complete(sandbox))
			return sandbox;
		if (!found)
			found = sandbox;
	}
	return found;
}

void pool_take(struct sandbox *sandbox)
{
	leave(sandbox);
}

/* Whichever; NULL when there is none. */
static struct sandbox *any(struct warden *warden, const struct template *only)
{
	LIST_EACH(&warden->templates, struct template, link, template)
		if ((!only || template == only) && !list_is_empty(&template->pool))
			return LIST_FIRST(&template->pool, struct sandbox, pool_link);
	return NULL;
}

void pool_trim(struct warden *warden)
{
	struct sandbox *sandbox;
	while ((warden->sandbox_count + warden->pool_count > warden->setup.slices ||
		       !admission_is_kept(warden)) &&
		(sandbox = any(warden, NULL)))
		sandbox_end(sandbox, SANDBOX_END_RELEASED);
}

void pool_empty(struct warden *warden, struct template *template)
{
	struct sandbox *sandbox;
	while ((sandbox = any(warden, template)))
		sandbox_end(sandbox, SANDBOX_END_RELEASED);
}

void pool_on_end(struct sandbox *sandbox)
{
	if (!is_in_pool(sandbox))
		return;
	leave(sandbox);
	if (sandbox->end == SANDBOX_END_RELEASED)
		return;
	log_write(LOG_WARNING, "pool.ended", sandbox->name,
		"a sandbox of the pool ended, reason %d", (int)sandbox->end);
	on_failure(sandbox->warden);
}

void pool_on_kernel_failed(struct sandbox *sandbox)
{
	if (is_in_pool(sandbox))
		on_failure(sandbox->warden);
}
