/* `sandglass ps`: what runs, since when, until when, and what it uses. */
#include "cli/command.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/survey.h"
#include "cli/table.h"

#include "base/clock.h"

#include <string.h>

struct ps {
	const char *state;
	bool is_json, is_quiet, has_full_ids;
};

static const struct table_column columns[] = { { "ID", false }, { "TEMPLATE", false },
	{ "STATE", false }, { "AGE", true }, { "IDLE", true }, { "EXPIRES", true }, { "CPU", true },
	{ "MEMORY", true }, { "LIMIT", true }, { "DISK", true } };

enum {
	COLUMN_ID,
	COLUMN_TEMPLATE,
	COLUMN_STATE,
	COLUMN_AGE,
	COLUMN_IDLE,
	COLUMN_EXPIRES,
	COLUMN_CPU,
	COLUMN_MEMORY,
	COLUMN_LIMIT,
	COLUMN_DISK,
	COLUMN_COUNT
};

static int64_t left_s(const struct surveyed *entry)
{
	int64_t end_ms = human_time_ms(surveyed_text(entry, "expires_at"));
	return end_ms < 0 ? -1 : MAX((end_ms - clock_wall_ms() + 500) / 1000, 0);
}

/* The idle time is what of the whole has gone by. */
static int64_t idle_s(const struct surveyed *entry, int64_t left)
{
	json_int_t whole = json_integer_value(json_object_get(entry->sandbox, "ttl_seconds"));
	return left < 0 ? -1 : MAX(whole - left, 0);
}

static void format_bytes(const struct surveyed *entry, const char *name, char text[HUMAN_SIZE])
{
	double bytes = surveyed_number(entry, name);
	if (bytes < 0)
		strcpy(text, "-");
	else
		human_bytes(bytes, text);
}

static bool add_row(struct table *table, const struct ps *ps, const struct surveyed *entry)
{
	char texts[COLUMN_COUNT][HUMAN_SIZE] = { 0 };
	const char *cells[COLUMN_COUNT];
	int64_t left = left_s(entry);
	double percent = surveyed_number(entry, "host_cpu_percent");
	bool is_running = strcmp(surveyed_text(entry, "status"), "running") == 0;
	human_age(surveyed_age(entry), texts[COLUMN_AGE]);
	human_age(idle_s(entry, left), texts[COLUMN_IDLE]);
	human_age(left, texts[COLUMN_EXPIRES]);
	if (left < 0)
		strcpy(texts[COLUMN_EXPIRES], "never");
	snprintf(texts[COLUMN_CPU], HUMAN_SIZE, "%.1f%%", percent);
	if (percent < 0)
		strcpy(texts[COLUMN_CPU], "-");
	format_bytes(entry, "memory_bytes", texts[COLUMN_MEMORY]);
	format_bytes(entry, "memory_limit_bytes", texts[COLUMN_LIMIT]);
	format_bytes(entry, "disk_bytes", texts[COLUMN_DISK]);
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		cells[i] = texts[i];
	cells[COLUMN_ID] = ps->has_full_ids ? entry->id : entry->short_id;
	cells[COLUMN_TEMPLATE] = surveyed_text(entry, "template");
	cells[COLUMN_STATE] = surveyed_text(entry, "status");
	if (!table_add(table, cells))
		return false;
	table_paint(table, COLUMN_STATE, is_running ? TABLE_GREEN : TABLE_YELLOW);
	return true;
}

static int print_table(const struct ps *ps, const struct survey *survey)
{
	struct error err = { 0 };
	const struct table_style style = { .has_colour = human_has_colour(stdout) };
	CLEANUP(table_free) struct table *table = table_new(columns, COLUMN_COUNT);
	cleanup_buf struct buf out = buf_make((size_t)64 << 20);
	bool is_good = table;
	for (size_t i = 0; i < survey->count && is_good; i++)
		is_good = add_row(table, ps, &survey->entries[i]);
	if (!is_good || !table_write(table, &style, &out)) {
		error_no_memory(&err);
		return command_fail("ps", &err);
	}
	fwrite(out.bytes, 1, out.size, stdout);
	return command_end("ps");
}

/* The sandboxes as the API tells them, each with its metrics. */
static int print_json(const struct survey *survey)
{
	json_t *all = json_array();
	for (size_t i = 0; i < survey->count; i++) {
		json_t *one = json_copy((json_t *)survey->entries[i].sandbox);
		if (survey->entries[i].metrics)
			json_object_set(one, "metrics", survey->entries[i].metrics);
		json_array_append_new(all, one);
	}
	return command_print_json("ps", all);
}

static int print(const struct ps *ps, const struct survey *survey)
{
	for (size_t i = 0; ps->is_quiet && i < survey->count; i++)
		puts(survey->entries[i].id);
	if (ps->is_quiet)
		return command_end("ps");
	return ps->is_json ? print_json(survey) : print_table(ps, survey);
}

int ps_command(int argc, char **argv)
{
	struct ps ps = { 0 };
	const struct option_spec specs[] = { OPTION_STATE(&ps.state), OPTION_JSON(&ps.is_json),
		{ "quiet", 'q', OPTION_FLAG, &ps.is_quiet },
		{ "full-ids", 0, OPTION_FLAG, &ps.has_full_ids } };
	int first = options_parse("ps", argc, argv, specs, ARRAY_SIZE(specs), 0);
	struct daemon daemon;
	struct survey survey;
	struct error err = { 0 };
	if (first < 0)
		return EXIT_MISUSED;
	if (!daemon_open(&daemon, ps.state, &err) ||
		!survey_take(&survey, &daemon, !ps.is_quiet, &err)) {
		daemon_close(&daemon);
		return command_fail("ps", &err);
	}
	int status = print(&ps, &survey);
	survey_deinit(&survey);
	daemon_close(&daemon);
	return status;
}
