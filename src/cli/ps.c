/* `sandglass ps`: what runs, since when, until when, and what it uses. */
#include "cli/command.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/survey.h"

struct ps {
	const char *state;
	bool is_json, is_quiet, has_full_ids;
};

static int print_table(const struct ps *ps, const struct survey *survey)
{
	const struct survey_column columns[] = {
		{ "ID", ps->has_full_ids ? SURVEY_FULL_ID : SURVEY_ID },
		{ "TEMPLATE", SURVEY_TEXT, "template" },
		{ "STATE", SURVEY_STATE, "status" },
		{ "AGE", SURVEY_AGE },
		{ "IDLE", SURVEY_IDLE },
		{ "EXPIRES", SURVEY_EXPIRES },
		{ "CPU", SURVEY_PERCENT, "host_cpu_percent" },
		{ "MEMORY", SURVEY_BYTES, "memory_bytes" },
		{ "LIMIT", SURVEY_BYTES, "memory_limit_bytes" },
		{ "DISK", SURVEY_BYTES, "disk_bytes" },
	};
	struct error err = { 0 };
	const struct table_style style = { .has_colour = human_has_colour(stdout) };
	cleanup_buf struct buf out = buf_make((size_t)64 << 20);
	if (!survey_write_table(survey, columns, ARRAY_SIZE(columns), &style, &out)) {
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
