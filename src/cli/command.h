/*
 * The subcommands of `sandglass`. Each is one function in a file of its own; commands.c has the
 * table.
 *
 * A command gets its own name as argv[0] and returns the exit status. What it cannot do it says
 * with command_fail, a wrong call with command_misused; both return the status to hand on.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/error.h"
#include "base/macros.h"

#include <jansson.h>

#define EXIT_OK 0
#define EXIT_FAILED 1
#define EXIT_MISUSED 2
#define EXIT_TIMED_OUT 124 /* what ran inside did, at its limit */
#define EXIT_NOT_RUN 125   /* what was to be run inside was not */

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
	const char *help; /* all but the name and the summary */
};

/* In the order in which they are listed; the last has no name. */
extern const struct command commands[];

int env_command(int argc, char **argv);
int run_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int key_command(int argc, char **argv);
int template_command(int argc, char **argv);
int create_command(int argc, char **argv);
int ps_command(int argc, char **argv);
int exec_command(int argc, char **argv);
int shell_command(int argc, char **argv);
int cp_command(int argc, char **argv);
int logs_command(int argc, char **argv);
int events_command(int argc, char **argv);
int top_command(int argc, char **argv);
int pause_command(int argc, char **argv); /* and resume */
int rm_command(int argc, char **argv);
int ports_command(int argc, char **argv);
int preview_command(int argc, char **argv);

/* "sandglass run: message" and the hint on stderr; returns EXIT_FAILED. */
int command_fail(const char *command, const struct error *err);
/* The same with a pointer to the command's help; returns EXIT_MISUSED. */
int command_misused(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);
/* How JSON is printed: real numbers as exactly as the API gives them. */
#define COMMAND_JSON JSON_REAL_PRECISION(6)
/* Takes the JSON and prints it as one document; returns the exit status. */
int command_print_json(const char *command, json_t *json);
/* All is said: EXIT_OK, or what went wrong with standard output. */
int command_end(const char *command);

#endif
