/*
 * See admission.h. Two questions, both from the keeper's configuration: may the limits of all
 * sandboxes add up to that much, and does the machine have the reserve left now? The second is also
 * asked of the control group that the daemon was started in, which may have less than the machine.
 *
 * The kernel is asked at most every 50 ms: a burst of creates is one question, and what each takes
 * in its first moment is far below the reserve.
 */
#include "warden/admission.h"

#include "base/clock.h"
#include "base/fd.h"
#include "warden/sandbox.h"

#include <fcntl.h>
#include <string.h>

#define ASK_AGAIN_MS 50
#define MEMINFO_SIZE 16384
#define POOL_MARGIN ((uint64_t)64 << 20) /* beyond the reserve, before the pool grows */

uint64_t admission_parse_available(const char *meminfo)
{
	static const char key[] = "\nMemAvailable:";
	const char *line = meminfo ? strstr(meminfo, key) : NULL;
	return line ? strtoull(line + strlen(key), NULL, 10) << 10 : UINT64_MAX;
}

static uint64_t available(const struct warden *warden)
{
	static int64_t asked_ms;
	static uint64_t answer;
	int64_t now_ms = clock_monotonic_ms();
	if (asked_ms && now_ms - asked_ms < ASK_AGAIN_MS)
		return answer;
	cleanup_free char *text = fd_read_file(AT_FDCWD, "/proc/meminfo", MEMINFO_SIZE, NULL, NULL);
	asked_ms = now_ms;
	answer = MIN(admission_parse_available(text), cgroup_tree_available(&warden->cgroups));
	return answer;
}

/* To those who have claimed one. */
static uint64_t committed(const struct warden *warden)
{
	return warden->table.claimed_bytes;
}

bool admission_check(const struct warden *warden, uint64_t memory_bytes, struct error *err)
{
	const struct nursery_setup *setup = &warden->setup;
	uint64_t sum = setup->memory_commit ? committed(warden) + memory_bytes : 0;
	if (sum > setup->memory_commit) {
		error_set(err, ERROR_HOST_MEMORY,
			"the limits of all sandboxes would add up to %ju MiB, and may to %ju",
			(uintmax_t)(sum >> 20), (uintmax_t)(setup->memory_commit >> 20));
		return error_hint(err, "ask for less with 'limits.memory_mb', or try again when "
				       "others have ended");
	}
	uint64_t free_bytes = setup->memory_reserve ? available(warden) : UINT64_MAX;
	if (free_bytes >= setup->memory_reserve)
		return true;
	error_set(err, ERROR_HOST_MEMORY, "this machine has %ju MiB of memory left, and keeps %ju",
		(uintmax_t)(free_bytes >> 20), (uintmax_t)(setup->memory_reserve >> 20));
	return error_hint(err, "try again when others have ended");
}

static bool is_within(const struct warden *warden, unsigned unclaimed)
{
	const struct nursery_setup *setup = &warden->setup;
	return !setup->memory_commit ||
	       committed(warden) + unclaimed * setup->defaults.memory_bytes <= setup->memory_commit;
}

bool admission_has_spare(const struct warden *warden)
{
	uint64_t reserve = warden->setup.memory_reserve;
	return is_within(warden, warden->pool_count + 1) &&
	       (!reserve || available(warden) >= reserve + POOL_MARGIN);
}

bool admission_is_kept(const struct warden *warden)
{
	return is_within(warden, warden->pool_count);
}
