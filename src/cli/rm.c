/*
 * `sandglass rm`, `pause`, `resume`: one thing done to each of some sandboxes. Each one's id is
 * printed as it is done; one that fails is told and does not keep the others from it.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "cli/survey.h"

#include <stdio.h>
#include <string.h>

struct deed {
	const char *command, *method, *rest; /* "rm", "DELETE", "" */
	const char *state;
	bool is_json, takes_all;
	struct daemon daemon;
	json_t *done, *failed; /* owned */
};

static void note_failure(struct deed *deed, const char *word, const struct error *err)
{
	json_array_append_new(
		deed->failed, json_pack("{s:s, s:s}", "id", word, "error", err->message));
	fprintf(stderr, "sandglass %s: %s: %s\n", deed->command, word, err->message);
	if (err->hint[0])
		fprintf(stderr, "  -> %s\n", err->hint);
}

static void do_to(struct deed *deed, const char *word)
{
	char id[SANDBOX_ID_TEXT], path[DAEMON_PATH];
	struct error err = { 0 };
	bool is_done = daemon_find(&deed->daemon, word, id, &err);
	if (is_done) {
		daemon_path(path, id, deed->rest);
		is_done = daemon_call(&deed->daemon, deed->method, path, NULL, NULL, &err);
	}
	if (!is_done)
		return note_failure(deed, word, &err);
	json_array_append_new(deed->done, json_string(id));
	if (!deed->is_json)
		printf("%s\n", id);
}

/* Those there are when it begins. */
static bool do_to_all(struct deed *deed, struct error *err)
{
	struct survey survey;
	if (!survey_take(&survey, &deed->daemon, false, err))
		return false;
	for (size_t i = 0; i < survey.count; i++)
		do_to(deed, survey.entries[i].id);
	fprintf(stderr, "sandboxes ended: %zu of %zu\n", json_array_size(deed->done), survey.count);
	survey_deinit(&survey);
	return true;
}

static int report(struct deed *deed)
{
	bool is_good = json_array_size(deed->failed) == 0;
	int status = deed->is_json ? command_print_json(deed->command,
					     json_pack("{s:O, s:O}", "done", deed->done, "failed",
						     deed->failed))
				   : command_end(deed->command);
	return is_good ? status : EXIT_FAILED;
}

static int perform(struct deed *deed, int count, char **words)
{
	struct error err = { 0 };
	if (!daemon_open(&deed->daemon, deed->state, &err))
		return command_fail(deed->command, &err);
	deed->done = json_array();
	deed->failed = json_array();
	bool is_good = !deed->takes_all || do_to_all(deed, &err);
	for (int i = 0; i < count; i++)
		do_to(deed, words[i]);
	int status = is_good ? report(deed) : command_fail(deed->command, &err);
	json_decref(deed->done);
	json_decref(deed->failed);
	daemon_close(&deed->daemon);
	return status;
}

int rm_command(int argc, char **argv)
{
	struct deed deed = { .command = "rm", .method = "DELETE", .rest = "" };
	const struct option_spec specs[] = { OPTION_STATE(&deed.state), OPTION_JSON(&deed.is_json),
		{ "all", 'a', OPTION_FLAG, &deed.takes_all } };
	int first = options_parse("rm", argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_ANY);
	if (first < 0)
		return EXIT_MISUSED;
	if (deed.takes_all == (first < argc))
		return command_misused("rm", "give the ID of one or more sandboxes, or --all");
	return perform(&deed, argc - first, argv + first);
}

int pause_command(int argc, char **argv)
{
	bool resumes = strcmp(argv[0], "resume") == 0;
	struct deed deed = {
		.command = argv[0], .method = "POST", .rest = resumes ? "/resume" : "/pause"
	};
	const struct option_spec specs[] = { OPTION_STATE(&deed.state),
		OPTION_JSON(&deed.is_json) };
	int first = options_parse(argv[0], argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_ANY);
	if (first < 0)
		return EXIT_MISUSED;
	if (first == argc)
		return command_misused(argv[0], "give the ID of one or more sandboxes");
	return perform(&deed, argc - first, argv + first);
}
