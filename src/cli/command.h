/*
 * The subcommands of `sandglass`. Each is one function in a file of its own; main.c has the table.
 *
 * A command gets its own name as argv[0] and returns the exit status. What it cannot do it says
 * with command_fail, a wrong call with command_misused; both return the status to hand on.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/error.h"
#include "base/macros.h"

#define EXIT_OK 0
#define EXIT_FAILED 1
#define EXIT_MISUSED 2

int env_command(int argc, char **argv);
int run_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int key_command(int argc, char **argv);
int template_command(int argc, char **argv);

/* "sandglass run: message" and the hint on stderr; returns EXIT_FAILED. */
int command_fail(const char *command, const struct error *err);
/* The same with a pointer to the command's help; returns EXIT_MISUSED. */
int command_misused(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
