/*
 * `sandglass`: the command line. It talks to a running daemon over HTTP like any other client, and
 * looks at the host for `doctor`; it holds no privilege of the daemon and shares no process with
 * it.
 */
#include "cli/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct command *find_command(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (strcmp(command->name, name) == 0)
			return command;
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

int command_print_json(const char *command, json_t *json)
{
	if (json)
		json_dumpf(json, stdout, JSON_INDENT(2) | COMMAND_JSON);
	putchar('\n');
	json_decref(json);
	return command_end(command);
}

int command_end(const char *command)
{
	struct error err = { 0 };
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_OK;
	error_from_os(&err, errno, "cannot write to standard output");
	return command_fail(command, &err);
}

static void print_overview(FILE *stream)
{
	fprintf(stream, "usage: sandglass COMMAND [ARGUMENT]...\n\n");
	for (const struct command *command = commands; command->name; command++)
		fprintf(stream, "  %-10s %s\n", command->name, command->summary);
	fprintf(stream, "  %-10s %s\n", "version", "print the version");
	fprintf(stream, "  %-10s %s\n", "help", "this text, or `help COMMAND`");
	fprintf(stream,
		"\nThe daemon is started with: sandglassd --state DIR --listen 127.0.0.1:8080\n");
}

static int print_help(const char *name)
{
	if (!name || strcmp(name, "help") == 0 || strcmp(name, "version") == 0) {
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
