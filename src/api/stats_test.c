/* Unit tests of stats.c. */
#include "api/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *page(const struct stats *stats)
{
	static struct buf text;
	struct stats_now now = { .sandboxes = 7 };
	buf_deinit(&text);
	text = buf_make(1 << 20);
	assert_true(stats_write(stats, &now, "9.9", &text));
	return buf_text(&text);
}

static void assert_has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("'%s' is not in:\n%s", line, text);
}

static void buckets_add_up(void **state)
{
	struct stats stats = { 0 };
	histogram_add(&stats.creates, 400);
	histogram_add(&stats.creates, 500);
	histogram_add(&stats.creates, 2000);
	histogram_add(&stats.creates, 3600000000);
	histogram_add(&stats.creates, -5);
	const char *text = page(&stats);
	assert_has(text, "sandglass_create_seconds_bucket{le=\"0.0005\"} 3\n");
	assert_has(text, "sandglass_create_seconds_bucket{le=\"0.001\"} 3\n");
	assert_has(text, "sandglass_create_seconds_bucket{le=\"0.0025\"} 4\n");
	assert_has(text, "sandglass_create_seconds_bucket{le=\"300\"} 4\n");
	assert_has(text, "sandglass_create_seconds_bucket{le=\"+Inf\"} 5\n");
	assert_has(text, "sandglass_create_seconds_count 5\n");
	assert_has(text, "sandglass_create_seconds_sum 3600.002900\n");
}

static void reasons_and_codes_are_labels(void **state)
{
	struct stats stats = { 0 };
	stats.errors[ERROR_SANDBOX_NOT_FOUND] = 3;
	stats_count_end(&stats, "idle");
	stats_count_end(&stats, "eaten by a grue");
	const char *text = page(&stats);
	assert_has(text, "sandglass_errors_total{code=\"sandbox.not_found\"} 3\n");
	assert_has(text, "sandglass_sandboxes_ended_total{reason=\"idle\"} 1\n");
	assert_has(text, "sandglass_sandboxes_ended_total{reason=\"other\"} 1\n");
	assert_has(text, "sandglass_sandboxes 7\n");
	assert_has(text, "sandglass_build_info{version=\"9.9\"} 1\n");
}

static void every_line_is_a_comment_or_a_sample(void **state)
{
	struct stats stats = { 0 };
	const char *text = page(&stats);
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		assert_true(strncmp(line, "# HELP sandglass_", 17) == 0 ||
			    strncmp(line, "# TYPE sandglass_", 17) == 0 ||
			    strncmp(line, "sandglass_", 10) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_add_up),
		cmocka_unit_test(reasons_and_codes_are_labels),
		cmocka_unit_test(every_line_is_a_comment_or_a_sample),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
