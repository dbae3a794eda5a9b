/*
 * See owners.h. Sandboxes and memory are counted anew for each create: there are few, and a count
 * that is kept can be wrong. The rate is a bucket that holds a second's worth, at least one; it is
 * made at an owner's first create.
 */
#include "api/owners.h"

#include "api/sandbox.h"
#include "base/clock.h"

#include <math.h>
#include <string.h>

struct owner_rate {
	struct list link; /* in api->rates */
	char owner[OWNER_TEXT];
	double tokens;
	int64_t filled_us;
};

struct owner_use owners_use(const struct api *api, const char *owner)
{
	struct owner_use use = { 0 };
	uint64_t bytes = 0;
	LIST_EACH(&api->sandboxes, struct sandbox, link, sandbox) {
		if (sandbox->state == SANDBOX_ENDING || strcmp(sandbox->owner, owner) != 0)
			continue;
		use.sandboxes++;
		bytes += sandbox->limits.memory_bytes;
	}
	use.memory_mb = (int64_t)(bytes >> 20);
	return use;
}

/* ---- creates a second ---- */

static struct owner_rate *find_rate(struct api *api, const char *owner, double most)
{
	LIST_EACH(&api->rates, struct owner_rate, link, known) {
		if (strcmp(known->owner, owner) == 0)
			return known;
	}
	struct owner_rate *rate = calloc(1, sizeof(*rate));
	if (!rate)
		return NULL;
	strncpy(rate->owner, owner, sizeof(rate->owner) - 1);
	rate->tokens = most;
	rate->filled_us = clock_monotonic_us();
	list_append(&api->rates, &rate->link);
	return rate;
}

static bool check_rate(struct call *call, const struct owner_caps *caps, struct error *err)
{
	double a_second = caps->creates_a_second, most = fmax(a_second, 1);
	if (a_second <= 0)
		return true;
	struct owner_rate *rate = find_rate(call->api, call->owner, most);
	if (!rate)
		return error_no_memory(err) != NULL;
	int64_t now_us = clock_monotonic_us();
	double gained = (double)(now_us - rate->filled_us) / 1e6 * a_second;
	rate->tokens = fmin(rate->tokens + gained, most);
	rate->filled_us = now_us;
	if (rate->tokens >= 1) {
		rate->tokens -= 1;
		return true;
	}
	call->retry_after_s = (unsigned)ceil((1 - rate->tokens) / a_second);
	return error_set(err, ERROR_OWNER_RATE, "you may create %g sandboxes a second", a_second);
}

/* ---- at once ---- */

static bool check_room(const struct call *call, const struct owner_caps *caps, int64_t memory_mb,
	struct error *err)
{
	struct owner_use use = owners_use(call->api, call->owner);
	if (use.sandboxes >= caps->sandboxes) {
		error_set(err, ERROR_SANDBOX_LIMIT, "you have %lld sandboxes, as many as you may",
			(long long)use.sandboxes);
		return error_hint(err, "end some, or raise 'owners' in the configuration");
	}
	if (caps->memory_mb == 0 || use.memory_mb + memory_mb <= caps->memory_mb)
		return true;
	error_set(err, ERROR_OWNER_MEMORY,
		"your sandboxes may have %lld MiB of memory together: they have %lld, and this one"
		" asks for %lld",
		(long long)caps->memory_mb, (long long)use.memory_mb, (long long)memory_mb);
	return error_hint(err,
		"end some, ask for less with 'limits.memory_mb', or raise 'owners' in"
		" the configuration");
}

bool owners_admit(struct call *call, int64_t memory_mb, struct error *err)
{
	const struct owner_caps *caps = config_owner(&call->api->config, call->owner);
	return check_room(call, caps, memory_mb, err) && check_rate(call, caps, err);
}

void owners_deinit(struct api *api)
{
	while (!list_is_empty(&api->rates)) {
		struct owner_rate *rate = LIST_FIRST(&api->rates, struct owner_rate, link);
		list_remove(&rate->link);
		free(rate);
	}
}
