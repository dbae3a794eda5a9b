/* See stats.h. */
#include "api/stats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Upper bounds, as text and in microseconds. */
static const struct {
	const char *text;
	int64_t us;
} bounds[STATS_BUCKETS] = { { "0.0005", 500 }, { "0.001", 1000 }, { "0.0025", 2500 },
	{ "0.005", 5000 }, { "0.01", 10000 }, { "0.025", 25000 }, { "0.05", 50000 },
	{ "0.1", 100000 }, { "0.25", 250000 }, { "0.5", 500000 }, { "1", 1000000 },
	{ "5", 5000000 }, { "30", 30000000 }, { "300", 300000000 } };

static const char *const ends[STATS_ENDS] = { "other", "released", "idle", "memory_limit",
	"host_failure", "start_failed", "client_gone" };

static const char *const states[STATS_STATES] = { NULL, NULL, "done", "interrupted", "timeout",
	"kernel_died" };

void histogram_add(struct histogram *histogram, int64_t took_us)
{
	unsigned i = 0;
	took_us = MAX(took_us, (int64_t)0);
	while (i < STATS_BUCKETS && took_us > bounds[i].us)
		i++;
	if (i < STATS_BUCKETS)
		histogram->buckets[i]++;
	histogram->count++;
	histogram->sum_us += (uint64_t)took_us;
}

void stats_count_end(struct stats *stats, const char *reason)
{
	for (unsigned i = 1; i < STATS_ENDS && ends[i]; i++)
		if (strcmp(ends[i], reason) == 0) {
			stats->ended[i]++;
			return;
		}
	stats->ended[0]++;
}

/* ---- as text ---- */

struct page {
	struct buf *text;
	bool is_failed;
};

static void put(struct page *page, const char *format, ...) PRINTF_LIKE(2, 3);

static void put(struct page *page, const char *format, ...)
{
	char line[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (!buf_append_text(page->text, line))
		page->is_failed = true;
}

static void head(struct page *page, const char *name, const char *type, const char *help)
{
	put(page, "# HELP sandglass_%s %s\n# TYPE sandglass_%s %s\n", name, help, name, type);
}

static void one(
	struct page *page, const char *name, const char *type, const char *help, uint64_t value)
{
	head(page, name, type, help);
	put(page, "sandglass_%s %" PRIu64 "\n", name, value);
}

static void labelled(
	struct page *page, const char *name, const char *label, const char *word, uint64_t value)
{
	put(page, "sandglass_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, word, value);
}

static void seconds(
	struct page *page, const char *name, const char *help, const struct histogram *histogram)
{
	uint64_t below = 0;
	head(page, name, "histogram", help);
	for (unsigned i = 0; i < STATS_BUCKETS; i++) {
		below += histogram->buckets[i];
		put(page, "sandglass_%s_bucket{le=\"%s\"} %" PRIu64 "\n", name, bounds[i].text,
			below);
	}
	put(page, "sandglass_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, histogram->count);
	put(page, "sandglass_%s_sum %.6f\n", name, (double)histogram->sum_us / 1e6);
	put(page, "sandglass_%s_count %" PRIu64 "\n", name, histogram->count);
}

static void put_errors(struct page *page, const struct stats *stats)
{
	head(page, "errors_total", "counter", "Answers that are errors, by code.");
	for (unsigned code = 1; code < ERROR_COUNT; code++)
		if (stats->errors[code] > 0)
			labelled(page, "errors_total", "code", error_word((enum error_code)code),
				stats->errors[code]);
}

static void put_sandboxes(struct page *page, const struct stats *stats, const struct stats_now *now)
{
	one(page, "sandboxes", "gauge",
		"Sandboxes that the api knows, starting and ending ones too.", now->sandboxes);
	one(page, "sandboxes_running", "gauge", "Sandboxes that serve.", now->sandboxes_running);
	one(page, "contexts", "gauge", "Code contexts.", now->contexts);
	head(page, "sandboxes_ended_total", "counter", "Sandboxes that ended, by reason.");
	for (unsigned i = 0; i < STATS_ENDS && ends[i]; i++)
		labelled(page, "sandboxes_ended_total", "reason", ends[i], stats->ended[i]);
	seconds(page, "create_seconds", "From a create to its sandbox.", &stats->creates);
}

static void put_work(struct page *page, const struct stats *stats, const struct stats_now *now)
{
	head(page, "runs_total", "counter", "Cells that ended, by how.");
	for (unsigned i = 0; i < STATS_STATES; i++)
		if (states[i])
			labelled(page, "runs_total", "state", states[i], stats->runs[i]);
	seconds(page, "run_seconds", "From the begin of a cell to its end.", &stats->runs_took);
	one(page, "runs_kept", "gauge", "Runs that can be read.", now->runs_kept);
	one(page, "run_bytes", "gauge", "Bytes kept of them.", now->run_bytes);
	one(page, "kernels_restarted_total", "counter", "Kernels that were replaced.",
		stats->kernels_restarted);
	one(page, "commands_total", "counter", "Commands that ended.", stats->commands);
	one(page, "command_timeouts_total", "counter", "Of these, at their limit.",
		stats->command_timeouts);
	seconds(page, "command_seconds", "From the start of a command to its end.",
		&stats->commands_took);
	one(page, "memory_limit_total", "counter", "Cells and commands ended by the memory limit.",
		stats->memory_kills);
	head(page, "output_bytes_total", "counter", "Bytes printed by cells and commands.");
	labelled(page, "output_bytes_total", "stream", "stdout", stats->output_bytes[0]);
	labelled(page, "output_bytes_total", "stream", "stderr", stats->output_bytes[1]);
}

bool stats_write(const struct stats *stats, const struct stats_now *now, const char *version,
	struct buf *text)
{
	struct page page = { .text = text };
	head(&page, "build_info", "gauge", "1, and the version.");
	put(&page, "sandglass_build_info{version=\"%s\"} 1\n", version);
	head(&page, "start_time_seconds", "gauge", "When the api started, since 1970.");
	put(&page, "sandglass_start_time_seconds %.3f\n", (double)stats->started_ms / 1000);
	put_sandboxes(&page, stats, now);
	put_work(&page, stats, now);
	one(&page, "requests_total", "counter", "HTTP requests.", stats->requests);
	one(&page, "requests_under_way", "gauge", "HTTP requests that are not done.", now->calls);
	put_errors(&page, stats);
	one(&page, "descriptors", "gauge", "Descriptors promised.", now->descriptors);
	one(&page, "descriptor_limit", "gauge", "At this many, creates are refused.",
		now->descriptor_limit);
	return !page.is_failed;
}
