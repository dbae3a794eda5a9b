/* sandglass-probe SUBCOMMAND [ARGUMENT...]: tells from inside a sandbox what it can do. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

static const struct probe_command *const tables[] = {
	posture_commands,
	syscall_commands,
	namespace_commands,
	mount_commands,
	credential_commands,
	filter_commands,
	process_commands,
	socket_commands,
	file_commands,
	resource_commands,
	frame_commands,
};

static int usage(void)
{
	fprintf(stderr, "usage: sandglass-probe SUBCOMMAND [ARGUMENT...]\n");
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		for (const struct probe_command *c = tables[i]; c->name; c++)
			fprintf(stderr, "  %-14s %s\n", c->name, c->usage);
	}
	return 2;
}

int probe_main(int argc, char **argv)
{
	if (argc < 2)
		return usage();
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		for (const struct probe_command *c = tables[i]; c->name; c++) {
			if (strcmp(c->name, argv[1]) != 0)
				continue;
			json_start();
			int status = c->run(argc - 1, argv + 1);
			putchar('\n');
			fflush(stdout);
			return status;
		}
	}
	return usage();
}
