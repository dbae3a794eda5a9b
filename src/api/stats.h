/*
 * What the daemon has done since it started, as numbers: for GET /metrics, in Prometheus' text
 * format. Nothing of it names an owner or a sandbox.
 */
#ifndef API_STATS_H
#define API_STATS_H

#include "base/buf.h"
#include "base/error.h"

#include <stdint.h>

#define STATS_BUCKETS 14
#define STATS_ENDS 8   /* reasons of sandboxes' ends that are told apart */
#define STATS_STATES 8 /* of runs */

struct histogram {
	uint64_t buckets[STATS_BUCKETS]; /* each counts what the ones before it do not */
	uint64_t count;
	uint64_t sum_us;
};

struct stats {
	int64_t started_ms;
	uint64_t requests, errors[ERROR_COUNT];
	uint64_t ended[STATS_ENDS];
	uint64_t runs[STATS_STATES];
	uint64_t commands, command_timeouts, kernels_restarted, memory_kills;
	uint64_t output_bytes[2]; /* of cells and commands: stdout, stderr */
	struct histogram creates, runs_took, commands_took;
};

void histogram_add(struct histogram *histogram, int64_t took_us);
void stats_count_end(struct stats *stats, const char *reason);

struct stats_now { /* what is not counted but looked at */
	unsigned sandboxes, sandboxes_running, contexts, runs_kept, calls, descriptors;
	unsigned descriptor_limit;
	uint64_t run_bytes;
};
/* False without memory. */
bool stats_write(const struct stats *stats, const struct stats_now *now, const char *version,
	struct buf *text);

#endif
