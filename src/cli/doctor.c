/* `sandglass doctor`: runs the checks and prints them, for people or as JSON. */
#include "cli/checks.h"
#include "cli/command.h"
#include "cli/options.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

static const char *const state_words[] = { "ok", "warning", "missing", "unknown" };

void report_add(struct report *report, const char *name, enum check_state state, const char *mend,
	const char *format, ...)
{
	if (report->count == ARRAY_SIZE(report->checks))
		return;
	struct check *check = &report->checks[report->count++];
	*check = (struct check){ .name = name, .state = state };
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(check->detail, sizeof(check->detail), format, arguments);
	va_end(arguments);
	if (mend)
		snprintf(check->mend, sizeof(check->mend), "%s", mend);
}

static unsigned count_state(const struct report *report, enum check_state state)
{
	unsigned count = 0;
	for (size_t i = 0; i < report->count; i++)
		count += report->checks[i].state == state;
	return count;
}

static void print_text(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct check *check = &report->checks[i];
		printf("%-8s %-26s %s\n", state_words[check->state], check->name, check->detail);
		if (check->mend[0])
			printf("%-8s   -> %s\n", "", check->mend);
	}
	unsigned missing = count_state(report, CHECK_MISSING);
	unsigned warnings = count_state(report, CHECK_WARNING);
	unsigned unknown = count_state(report, CHECK_UNKNOWN);
	printf("\n%u missing, %u warning%s, %u unknown: %s\n", missing, warnings,
		warnings == 1 ? "" : "s", unknown,
		missing ? "the daemon will not work here" : "the daemon can run here");
}

static void print_json(const struct report *report)
{
	json_t *checks = json_array();
	for (size_t i = 0; i < report->count; i++) {
		const struct check *check = &report->checks[i];
		json_t *object = json_pack("{s:s, s:s, s:s}", "name", check->name, "state",
			state_words[check->state], "detail", check->detail);
		if (check->mend[0])
			json_object_set_new(object, "mend", json_string(check->mend));
		json_array_append_new(checks, object);
	}
	bool is_ok = count_state(report, CHECK_MISSING) == 0;
	command_print_json("doctor", json_pack("{s:b, s:o}", "ok", is_ok, "checks", checks));
}

int doctor_command(int argc, char **argv)
{
	static struct report report;
	bool is_json = false;
	const struct option_spec specs[] = { OPTION_JSON(&is_json) };
	if (options_parse("doctor", argc, argv, specs, ARRAY_SIZE(specs), 0) < 0)
		return EXIT_MISUSED;
	checks_kernel(&report);
	checks_host(&report);
	if (is_json)
		print_json(&report);
	else
		print_text(&report);
	return count_state(&report, CHECK_MISSING) ? EXIT_FAILED : EXIT_OK;
}
