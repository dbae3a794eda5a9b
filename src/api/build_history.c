/* See build_history.h. */
#include "api/build_history.h"

#include "api/api.h"
#include "api/journal.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/builds.h"

#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

/* All lines that are kept. */
static bool collect_log(const struct journal *log, struct buf *text)
{
	bool is_good = true;
	LIST_EACH(&log->records, struct record, link, record) {
		if (record->kind == BUILD_LOG_LINES)
			is_good = is_good && buf_append(text, record->bytes, record->size);
	}
	return is_good;
}

static struct build_row row_of(const struct build *build, const struct buf *log)
{
	struct build_row row = { .state = build->state,
		.created_ms = build->created_ms,
		.started_ms = build->started_ms,
		.ended_ms = build->ended_ms,
		.size_mb = build->size_mb,
		.bytes = build->bytes,
		.log_dropped = (int64_t)journal_first_place(build->log),
		.log = log->bytes,
		.log_size = log->size };
	memcpy(row.id, build->id, sizeof(row.id));
	memcpy(row.name, build->name, sizeof(row.name));
	memcpy(row.base, build->base, sizeof(row.base));
	memcpy(row.error, build->error, sizeof(row.error));
	return row;
}

void build_history_save(const struct build *build)
{
	struct error err = { 0 };
	cleanup_buf struct buf log = buf_make(2 * LOG_LIMIT);
	if (!collect_log(build->log, &log))
		log.size = 0;
	struct build_row row = row_of(build, &log);
	if (!build_row_put(build->api->store, &row, &err))
		log_error("store.build", NULL, &err);
}

void build_history_forget(const struct build *build)
{
	struct error err = { 0 };
	if (!build_row_delete(build->api->store, build->id, &err))
		log_error("store.build", NULL, &err);
}

/* ---- reading ---- */

/* In records as the builder's lines came, so that the oldest can go one by one. */
static void load_log(struct journal *log, const struct build_row *row)
{
	log->end_place = (uint64_t)row->log_dropped;
	for (size_t at = 0; at < row->log_size;) {
		const char *end = memchr(row->log + at, '\n', row->log_size - at);
		size_t next = end ? (size_t)(end - row->log) + 1 : row->log_size;
		journal_append(log, BUILD_LOG_LINES, row->log + at, next - at);
		at = next;
	}
}

/* It was open when the process ended, and the builder has ended with that. */
static void fail(struct build *build)
{
	char line[sizeof(build->error) + 1];
	snprintf(build->error, sizeof(build->error),
		"host_failure: the daemon ended or was restarted %s; ask for the build once more",
		build->state == BUILD_RUNNING ? "while the template was being built"
					      : "before the template was built");
	build->state = BUILD_FAILED;
	build->ended_ms = clock_wall_ms();
	int size = snprintf(line, sizeof(line), "%s\n", build->error);
	journal_append(build->log, BUILD_LOG_LINES, line, (size_t)size);
}

static void load(void *context, const struct build_row *row)
{
	struct api *api = context;
	struct error err = { 0 };
	struct build *build = builds_restore(api, row, &err);
	if (!build)
		return log_error("store.build", NULL, &err);
	load_log(build->log, row);
	if (build->state != BUILD_DONE && build->state != BUILD_FAILED)
		fail(build);
	journal_append(build->log, BUILD_LOG_END, "\n", 1);
	journal_close(build->log);
}

bool build_history_load(struct api *api, struct error *err)
{
	int64_t now_ms = clock_wall_ms();
	if (!build_row_each(api->store, load, api, err))
		return false;
	LIST_EACH(&api->builds.all, struct build, link, build) {
		if (build->ended_ms >= now_ms) /* it has failed just now */
			build_history_save(build);
	}
	return true;
}
