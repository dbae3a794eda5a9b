/*
 * Whether a limit of the sandbox was behind a command's end. SIGKILL has many senders, and text is no
 * proof: the sandbox's counters know.
 */
#ifndef API_COMMAND_LIMITS_H
#define API_COMMAND_LIMITS_H

#include "api/warden.h"
#include "api/writer.h"

#define COMMAND_LIMITS_TEXT 128

struct command;

struct command_limits {
	struct warden_request usage;
	void (*done)(struct command *command);
	uint64_t oom_before, memory_limit, memory_peak; /* kills; bytes */
	bool tells_no_process; /* set by an owner that has seen it in the output */
	bool is_line_open;     /* stderr does not end with a newline */
	bool hit_memory, hit_processes;
};

/* For one that has ended, before its owner is told: `done` comes within a second, unless the command is
 * freed or its sandbox ends before. False: there is nothing to ask, and it never comes. */
bool command_limits_ask(struct command *command, void (*done)(struct command *command));
/* One line, without its end. */
void command_limits_describe_memory(const struct command_limits *limits, char *text, size_t size);
/* The same for the end of stderr, where one who reads no more than output and status would see
 * "Killed": a line of its own. The text has room for COMMAND_LIMITS_TEXT + 2 bytes. */
size_t command_limits_say_memory(const struct command *command, char *text, size_t size);
/* limits_hit of a streamed command's last message, where there is one. */
void command_limits_write(const struct command_limits *limits, struct writer *writer);

#endif
