/* Options of a command, read by a table. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG,   /* value: bool */
	OPTION_TEXT,   /* value: const char *, not owned */
	OPTION_NUMBER, /* value: int64_t, from least to most */
};

struct option_spec {
	const char *name; /* without the dashes; NULL: there is only the letter */
	char letter;      /* 0: there is only the name */
	enum option_kind kind;
	void *value; /* left as it is where the option is not given */
	int64_t least, most;
};

#define OPTIONS_MOST 16
#define OPTION_STATE(target) \
	{ \
		"state", 0, OPTION_TEXT, target, 0, 0 \
	}
#define OPTION_JSON(target) \
	{ \
		"json", 0, OPTION_FLAG, target, 0, 0 \
	}

/* How many arguments that are no options a command takes; else a number. */
#define OPTIONS_ANY (-1)
#define OPTIONS_STOP (-2) /* the first one ends the options: what follows is another command's */

/* The index of the first argument that is no option; those are moved to the end. -1: it was wrong,
 * or there are more than `most`, and that has been said. */
int options_parse(const char *command, int argc, char **argv, const struct option_spec *specs,
	size_t count, int most);

#endif
