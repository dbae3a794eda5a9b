/* See options.h. getopt_long does the reading; the tables it wants are made from ours. */
#include "cli/options.h"

#include "cli/command.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_VALUE 256 /* what getopt_long returns for the first spec */

struct tables {
	struct option long_options[OPTIONS_MOST + 1];
	char letters[2 * OPTIONS_MOST + 3];
};

static void make_tables(
	struct tables *tables, const struct option_spec *specs, size_t count, bool stops)
{
	char *letter = tables->letters;
	struct option *option = tables->long_options;
	assert(count <= OPTIONS_MOST);
	if (stops)
		*letter++ = '+';
	*letter++ = ':';
	for (size_t i = 0; i < count; i++) {
		bool has_value = specs[i].kind != OPTION_FLAG;
		if (specs[i].name)
			*option++ = (struct option){ specs[i].name,
				has_value ? required_argument : no_argument, NULL,
				FIRST_VALUE + (int)i };
		if (specs[i].letter)
			*letter++ = specs[i].letter;
		if (specs[i].letter && has_value)
			*letter++ = ':';
	}
}

static const struct option_spec *find(const struct option_spec *specs, size_t count, int value)
{
	for (size_t i = 0; i < count; i++)
		if (value == FIRST_VALUE + (int)i || (value && value == specs[i].letter))
			return &specs[i];
	return NULL;
}

static bool take_number(const char *command, const struct option_spec *spec, const char *text)
{
	char *end;
	errno = 0;
	int64_t number = strtoll(text, &end, 10);
	*(int64_t *)spec->value = number;
	if (*text && !*end && !errno && number >= spec->least && number <= spec->most)
		return true;
	command_misused(command,
		"%s%s takes a whole number from %" PRId64 " to %" PRId64 ", not '%s'",
		spec->name ? "--" : "-", spec->name ? spec->name : (char[]){ spec->letter, 0 },
		spec->least, spec->most, text);
	return false;
}

static bool take(const char *command, const struct option_spec *spec, const char *text)
{
	if (spec->kind == OPTION_NUMBER)
		return take_number(command, spec, text);
	if (spec->kind == OPTION_TEXT)
		*(const char **)spec->value = text;
	else
		*(bool *)spec->value = true;
	return true;
}

/* A letter may stand among others ("-itx"), so it is named by itself. */
static void complain(const char *command, int found, const char *argument)
{
	const char *what = found == ':' ? "needs a value" : "is no option of this command";
	if (optopt > 0 && optopt < FIRST_VALUE)
		command_misused(command, "-%c %s", optopt, what);
	else
		command_misused(command, "%s %s", argument, what);
}

int options_parse(const char *command, int argc, char **argv, const struct option_spec *specs,
	size_t count, int most)
{
	struct tables tables = { 0 };
	make_tables(&tables, specs, count, most == OPTIONS_STOP);
	opterr = 0;
	for (int found; (found = getopt_long(
				 argc, argv, tables.letters, tables.long_options, NULL)) != -1;) {
		const struct option_spec *spec = find(specs, count, found);
		if (!spec)
			complain(command, found, argv[optind - 1]);
		if (!spec || !take(command, spec, optarg))
			return -1;
	}
	if (most >= 0 && argc - optind > most) {
		command_misused(command, "'%s' is one argument too many", argv[optind + most]);
		return -1;
	}
	return optind;
}
