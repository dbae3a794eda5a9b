/* `sandglass shell`: a login shell in a sandbox, one that is there or one made for it. */
#include "cli/command.h"
#include "cli/create.h"
#include "cli/options.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <unistd.h>

struct shell {
	const char *state, *template_name;
	bool is_kept;
	struct daemon daemon;
	char id[SANDBOX_ID_TEXT];
};

static bool make_sandbox(struct shell *shell, struct error *err)
{
	if (!isatty(STDIN_FILENO))
		return error_set(err, ERROR_INVALID, "standard input is no terminal");
	json_t *body = create_body(shell->template_name, "sandglass shell");
	bool is_made = daemon_create(&shell->daemon, body, shell->id, err);
	json_decref(body);
	if (is_made)
		fprintf(stderr, "sandbox %.*s made; it %s\n", DAEMON_SHORT_ID, shell->id,
			shell->is_kept ? "stays" : "ends with this shell");
	return is_made;
}

static void end_sandbox(struct shell *shell)
{
	if (create_end(&shell->daemon, "shell", shell->id, shell->is_kept))
		fprintf(stderr, "sandbox %.*s ended\n", DAEMON_SHORT_ID, shell->id);
}

static int perform(struct shell *shell, const char *word)
{
	struct error err = { 0 };
	int status = EXIT_NOT_RUN;
	bool is_good = daemon_open(&shell->daemon, shell->state, &err) &&
		       daemon_hold_signals(&shell->daemon, true, &err) &&
		       (word ? daemon_find(&shell->daemon, word, shell->id, &err)
			     : make_sandbox(shell, &err));
	bool is_made = is_good && !word;
	is_good = is_good && terminal_run(&shell->daemon, shell->id, NULL, &status, &err);
	if (is_made)
		end_sandbox(shell);
	daemon_close(&shell->daemon);
	if (is_good)
		return status;
	command_fail("shell", &err);
	return EXIT_NOT_RUN;
}

int shell_command(int argc, char **argv)
{
	struct shell shell = { 0 };
	const struct option_spec specs[] = { OPTION_STATE(&shell.state),
		{ "template", 0, OPTION_TEXT, &shell.template_name },
		{ "keep", 0, OPTION_FLAG, &shell.is_kept } };
	int first = options_parse("shell", argc, argv, specs, ARRAY_SIZE(specs), 1);
	if (first < 0)
		return EXIT_MISUSED;
	if (first < argc && (shell.template_name || shell.is_kept))
		return command_misused("shell", "--template and --keep are for a new sandbox");
	return perform(&shell, first < argc ? argv[first] : NULL);
}
