/*
 * `sandglass`: the command line. It talks to a running daemon over HTTP like any other client, and
 * looks at the host for `doctor`; it holds no privilege of the daemon and shares no process with
 * it.
 */
#include "cli/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
	const char *help; /* all but the name and the summary */
};

static const struct command commands[] = {
	{ "env", env_command, "print the export lines that aim clients at a daemon",
		"usage: eval \"$(sandglass env --state DIR)\"\n"
		"\n"
		"  --state DIR     the daemon's state folder (sandglassd --state DIR)\n" },
	{ "run", run_command,
		"run Python code in a fresh sandbox, print what it prints, end the sandbox",
		"usage: sandglass run [OPTION]... FILE\n"
		"       sandglass run [OPTION]... -c CODE\n"
		"       sandglass run [OPTION]... -           (code from standard input)\n"
		"\n"
		"  -c CODE             the code itself\n"
		"  --state DIR         the daemon's state folder; without it PANDASTACK_API and\n"
		"                      PANDASTACK_API_KEY say which daemon and which key\n"
		"  --template NAME     the image to start from (default code-interpreter)\n"
		"  --timeout SECONDS   the longest the code may run (default: the daemon's)\n"
		"  --out DIR           where figures are saved (default: this folder)\n"
		"  --keep              leave the sandbox, and say its id\n"
		"\n"
		"Figures become files figure-1.png, figure-2.svg, ...; no file is overwritten.\n"
		"The exit status is the code's own; 124 when it ran past its limit, 125 when it "
		"could not\n"
		"be run at all, 128 + N when signal N ended this command.\n" },
	{ "doctor", doctor_command, "say what this host lacks, with the command that mends it",
		"usage: sandglass doctor [--json]\n"
		"\n"
		"  --json          for programs: {\"ok\": ..., \"checks\": [...]}\n"
		"\n"
		"Needs no daemon. Run it as the user who starts sandglassd. The exit status is 1 "
		"when\n"
		"something is missing that the daemon needs; warnings do not count.\n" },
	{ "key", key_command, "make keys for further owners, list them, remove them",
		"usage: sandglass key create --state DIR --owner NAME [--label TEXT] [--days N]\n"
		"       sandglass key list --state DIR\n"
		"       sandglass key remove --state DIR PREFIX\n"
		"\n"
		"  --state DIR     the daemon's state folder; who may write in it may do this\n"
		"  --owner NAME    whose key it is: an owner sees its own sandboxes only\n"
		"  --label TEXT    what it is for\n"
		"  --days N        it expires after that long (default: never)\n"
		"\n"
		"The key is printed once and kept nowhere: DIR/keys holds its hash. Owners make "
		"and\n"
		"revoke further keys of their own over the API (/v1/me/tokens).\n" },
	{ "template", template_command, "build the images that sandboxes start from, or list them",
		"usage: sandglass template build NAME [--force] [--quiet]\n"
		"       sandglass template list\n"
		"       sandglass template build NAME --dockerfile FILE [--context DIR]\n"
		"                                [--size-mb N] [--state DIR]\n"
		"       sandglass template list --state DIR [--json]\n"
		"       sandglass template builds [--state DIR] [--json]\n"
		"       sandglass template logs BUILD [--state DIR]\n"
		"       sandglass template rm NAME [--state DIR]\n"
		"\n"
		"The first two are about the host's own images, which lie in $SANDGLASS_CACHE\n"
		"(default ~/.cache/sandglass). The others ask a daemon, with the operator's key:\n"
		"\n"
		"  --dockerfile FILE   what to build from; see docs/api.md for what it may say\n"
		"  --context DIR       the files it copies\n"
		"  --size-mb N         the image may be that large (default 1024)\n"
		"  --state DIR         the daemon's state folder; without it PANDASTACK_API and\n"
		"                      PANDASTACK_API_KEY say which daemon and which key\n" },
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int command_fail(const char *command, const struct error *err)
{
	fprintf(stderr, "sandglass %s: %s\n", command, err->message);
	if (err->hint[0])
		fprintf(stderr, "  -> %s\n", err->hint);
	return EXIT_FAILED;
}

int command_misused(const char *command, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "sandglass %s: ", command);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n  -> sandglass help %s\n", command);
	return EXIT_MISUSED;
}

static void print_overview(FILE *stream)
{
	fprintf(stream, "usage: sandglass COMMAND [ARGUMENT]...\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(stream, "  %-10s %s\n", "version", "print the version");
	fprintf(stream, "  %-10s %s\n", "help", "this text, or `help COMMAND`");
	fprintf(stream,
		"\nThe daemon is started with: sandglassd --state DIR --listen 127.0.0.1:8080\n");
}

static int print_help(const char *name)
{
	if (!name) {
		print_overview(stdout);
		return EXIT_OK;
	}
	const struct command *command = find_command(name);
	if (!command) {
		fprintf(stderr, "sandglass: there is no command '%s'\n  -> sandglass help\n", name);
		return EXIT_MISUSED;
	}
	printf("sandglass %s: %s\n\n%s", command->name, command->summary, command->help);
	return EXIT_OK;
}

static bool asks_for_help(int argc, char **argv)
{
	return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_overview(stderr);
		return EXIT_MISUSED;
	}
	const char *name = argv[1];
	if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
		printf("sandglass %s\n", SANDGLASS_VERSION);
		return EXIT_OK;
	}
	if (strcmp(name, "help") == 0 || asks_for_help(argc, argv))
		return print_help(argc > 2 ? argv[2] : NULL);
	const struct command *command = find_command(name);
	if (!command)
		return print_help(name);
	if (asks_for_help(argc - 1, argv + 1))
		return print_help(name);
	return command->run(argc - 1, argv + 1);
}
