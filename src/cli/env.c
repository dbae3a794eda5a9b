/* `sandglass env`: two export lines for a shell, checked to hold nothing a shell would interpret.
 */
#include "cli/command.h"
#include "cli/http.h"
#include "cli/options.h"

#include <stdio.h>

int env_command(int argc, char **argv)
{
	const char *state = NULL;
	const struct option_spec specs[] = { OPTION_STATE(&state) };
	struct target target;
	struct error err = { 0 };
	if (options_parse("env", argc, argv, specs, ARRAY_SIZE(specs), 0) < 0)
		return EXIT_MISUSED;
	if (!state)
		return command_misused("env", "--state DIR is missing");
	if (!target_from_state(&target, state, &err) || !http_check_alive(&target, &err))
		return command_fail("env", &err);
	printf("export PANDASTACK_API=%s\nexport PANDASTACK_API_KEY=%s\n", target.api, target.key);
	return EXIT_OK;
}
