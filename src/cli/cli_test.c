/* The command line's parts that need no daemon: reading a state folder, decoding pictures,
 * reading events. */
#include "cli/events.h"
#include "cli/figures.h"
#include "cli/target.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
	strcpy(folder, "/tmp/cli-test-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static void put(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int remove_folder(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static void state_folder_names_address_and_key(void **state)
{
	struct target target;
	struct error err = { 0 };
	put("address", "http://127.0.0.1:8080\n");
	put("key", "sg_0123456789\n");
	assert_true(target_from_state(&target, folder, &err));
	assert_string_equal(target.api, "http://127.0.0.1:8080");
	assert_string_equal(target.key, "sg_0123456789");
}

static void address_without_a_scheme_is_taken(void **state)
{
	struct target target;
	put("address", "127.0.0.1:8080");
	put("key", "sg_0123456789");
	assert_true(target_from_state(&target, folder, NULL));
	assert_string_equal(target.api, "http://127.0.0.1:8080");
}

static void folder_without_address_says_that_no_daemon_runs(void **state)
{
	struct target target;
	struct error err = { 0 };
	assert_false(target_from_state(&target, folder, &err));
	assert_non_null(strstr(err.message, "no daemon runs on"));
	assert_non_null(strstr(err.hint, "sandglassd --state"));
}

static void missing_folder_says_which(void **state)
{
	struct target target;
	struct error err = { 0 };
	assert_false(target_from_state(&target, "/nonexistent", &err));
	assert_non_null(strstr(err.message, "'/nonexistent'"));
	assert_non_null(strstr(err.hint, "--state DIR"));
}

static void key_that_a_shell_would_run_is_refused(void **state)
{
	struct target target;
	struct error err = { 0 };
	put("address", "http://127.0.0.1:8080");
	put("key", "$(reboot)");
	assert_false(target_from_state(&target, folder, &err));
	assert_non_null(strstr(err.message, "holds no key"));
	put("key", "sg_1");
	put("address", "http://127.0.0.1;reboot `x`");
	assert_false(target_from_state(&target, folder, &err));
	assert_non_null(strstr(err.message, "holds no address"));
}

static void environment_without_key_names_the_variable(void **state)
{
	struct target target;
	struct error err = { 0 };
	setenv("PANDASTACK_API", "http://localhost:1/v1/", 1);
	unsetenv("PANDASTACK_API_KEY");
	assert_false(target_from_environment(&target, &err));
	assert_non_null(strstr(err.message, "PANDASTACK_API_KEY"));
	setenv("PANDASTACK_API_KEY", "sg_1", 1);
	assert_true(target_from_environment(&target, &err));
	assert_string_equal(target.api, "http://localhost:1");
}

static void assert_decodes(const char *text, const char *wanted)
{
	size_t size = 0;
	unsigned char *bytes = figures_decode(text, &size);
	assert_non_null(bytes);
	assert_int_equal(size, strlen(wanted));
	assert_memory_equal(bytes, wanted, size);
	free(bytes);
}

static void base64_of_any_length_is_decoded(void **state)
{
	assert_decodes("", "");
	assert_decodes("YQ==", "a");
	assert_decodes("YWI=", "ab");
	assert_decodes("YWJj", "abc");
	assert_decodes("YWJjZA==\n", "abcd");
	assert_decodes("YW\nJj", "abc");
}

static void what_is_no_base64_is_refused(void **state)
{
	size_t size;
	assert_null(figures_decode("a", &size));
	assert_null(figures_decode("ab*d", &size));
	assert_null(figures_decode("YQ==YQ", &size));
}

static void figures_get_free_numbers(void **state)
{
	struct figures figures = { .folder = folder };
	struct error err = { 0 };
	unsigned count = 0;
	put("figure-1.svg", "mine");
	json_t *result = json_pack("{s:s, s:s, s:s}", "image/png", "YWJj", "image/svg+xml",
		"<svg/>", "text/plain", "<Figure>");
	assert_true(figures_save(&figures, result, &count, &err));
	assert_int_equal(count, 2);
	assert_int_equal(figures.last, 2);
	char path[128];
	snprintf(path, sizeof(path), "%s/figure-2.svg", folder);
	assert_int_equal(access(path, R_OK), 0);
	json_decref(result);
}

static void unsaved_figure_is_an_error(void **state)
{
	struct figures figures = { .folder = "/nonexistent" };
	struct error err = { 0 };
	unsigned count = 0;
	json_t *result = json_pack("{s:s}", "image/png", "YWJj");
	assert_false(figures_save(&figures, result, &count, &err));
	assert_non_null(strstr(err.message, "/nonexistent"));
	json_decref(result);
	figures.folder = folder;
	result = json_pack("{s:s}", "image/png", "?");
	assert_false(figures_save(&figures, result, &count, &err));
	assert_non_null(strstr(err.message, "no base64"));
	json_decref(result);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static void note_event(void *data, const char *name, const char *json, size_t size)
{
	char *seen = data;
	assert_int_equal(strlen(json), size);
	snprintf(seen + strlen(seen), 200 - strlen(seen), "%s=%s;", name, json);
}

static const char stream_text[] = ": a comment\n\nid: 7\nevent: stdout\ndata: {\"chunk\": 1}\n\n"
				  "data:two\r\ndata: lines\r\n\r\nevent: empty\n\ndatum: no\n\n"
				  "event: end\ndata: {}\n\nevent: cut\ndata: off";
static const char stream_events[] = "stdout={\"chunk\": 1};message=two\nlines;end={};";

static void events_come_whole_from_any_pieces(void **state)
{
	for (size_t piece = 1; piece <= sizeof(stream_text); piece++) {
		struct events events;
		char seen[200] = "";
		events_init(&events, note_event, seen);
		for (size_t at = 0; at < sizeof(stream_text) - 1; at += piece)
			assert_true(events_take(&events, stream_text + at,
				MIN(piece, sizeof(stream_text) - 1 - at)));
		events_deinit(&events);
		assert_string_equal(seen, stream_events);
	}
}

static void the_last_id_outlives_a_broken_connection(void **state)
{
	static const char first[] = "id: 41\ndata: 1\n\nid: 42\ndata: 2\n\ndata: cut";
	static const char second[] = "data: 3\n\n";
	struct events events;
	char seen[200] = "";
	events_init(&events, note_event, seen);
	assert_string_equal(events.id, "");
	assert_true(events_take(&events, first, sizeof(first) - 1));
	events_restart(&events);
	assert_string_equal(events.id, "42");
	assert_true(events_take(&events, second, sizeof(second) - 1));
	events_deinit(&events);
	assert_string_equal(seen, "message=1;message=2;message=3;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_id_outlives_a_broken_connection),
		cmocka_unit_test(events_come_whole_from_any_pieces),
		WITH_FOLDER(state_folder_names_address_and_key),
		WITH_FOLDER(address_without_a_scheme_is_taken),
		WITH_FOLDER(folder_without_address_says_that_no_daemon_runs),
		cmocka_unit_test(missing_folder_says_which),
		WITH_FOLDER(key_that_a_shell_would_run_is_refused),
		cmocka_unit_test(environment_without_key_names_the_variable),
		cmocka_unit_test(base64_of_any_length_is_decoded),
		cmocka_unit_test(what_is_no_base64_is_refused),
		WITH_FOLDER(figures_get_free_numbers),
		WITH_FOLDER(unsaved_figure_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
