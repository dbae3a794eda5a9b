/* `sandglass env`: two export lines for a shell, checked to hold nothing a shell would interpret.
 */
#include "cli/command.h"
#include "cli/http.h"
#include "cli/target.h"

#include <getopt.h>
#include <stdio.h>

int env_command(int argc, char **argv)
{
	static const struct option options[] = { { "state", required_argument, NULL, 's' }, { 0 } };
	const char *state = NULL;
	opterr = 0;
	for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
		if (option == ':')
			return command_misused("env", "%s needs a value", argv[optind - 1]);
		if (option != 's')
			return command_misused("env", "there is no option '%s'", argv[optind - 1]);
		state = optarg;
	}
	if (optind < argc)
		return command_misused("env", "'%s' is one argument too many", argv[optind]);
	if (!state)
		return command_misused("env", "--state DIR is missing");
	struct target target;
	struct error err = { 0 };
	if (!target_from_state(&target, state, &err) || !http_check_alive(&target, &err))
		return command_fail("env", &err);
	printf("export PANDASTACK_API=%s\nexport PANDASTACK_API_KEY=%s\n", target.api, target.key);
	return EXIT_OK;
}
