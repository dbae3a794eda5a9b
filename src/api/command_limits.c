/* See command_limits.h. */
#include "api/command_limits.h"

#include "api/command.h"
#include "api/sandbox_events.h"

#include <stdio.h>

#define KILLED_EXIT (128 + 9)
#define USAGE_MS 1000

static bool may_be_behind(const struct command *command)
{
	const struct inside_command_answer *result = &command->result;
	if (result->timed_out || result->start_error || command_exit_code(command) == 0)
		return false;
	return command_exit_code(command) == KILLED_EXIT || command->limits.tells_no_process;
}

static void on_usage(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct command_limits *limits = CONTAINER_OF(request, struct command_limits, usage);
	struct command *command = CONTAINER_OF(limits, struct command, limits);
	struct sandbox *sandbox = command->guest.sandbox;
	const struct warden_usage *usage = packet ? (const void *)packet->bytes : NULL;
	if (usage && usage->header.op == WARDEN_USAGE_ANSWER) {
		limits->hit_memory = usage->oom_kills > limits->oom_before;
		limits->memory_limit = usage->memory_limit;
		limits->memory_peak = usage->memory_peak;
		limits->hit_processes =
			limits->tells_no_process && usage->pids_refused > sandbox->forks_refused;
		sandbox->oom_kills = usage->oom_kills;
		sandbox->forks_refused = usage->pids_refused;
	}
	if (limits->hit_memory)
		note_limit(sandbox, "memory", "command_id", command->id);
	if (limits->hit_processes)
		note_limit(sandbox, "processes", "command_id", command->id);
	limits->done(command);
}

bool command_limits_ask(struct command *command, void (*done)(struct command *command))
{
	struct sandbox *sandbox = command->guest.sandbox;
	if (!sandbox || !may_be_behind(command))
		return false;
	struct warden_release message = { .sandbox = sandbox->id };
	command->limits.done = done;
	return warden_ask(&command->api->warden, &command->limits.usage, WARDEN_USAGE, &message,
		sizeof(message), USAGE_MS, on_usage, NULL);
}

void command_limits_describe_memory(const struct command_limits *limits, char *text, size_t size)
{
	snprintf(text, size,
		"memory limit reached: the sandbox may use %llu MiB, its peak was %llu MiB",
		(unsigned long long)(limits->memory_limit >> 20),
		(unsigned long long)(limits->memory_peak >> 20));
}

size_t command_limits_say_memory(const struct command *command, char *text, size_t size)
{
	char description[COMMAND_LIMITS_TEXT];
	command_limits_describe_memory(&command->limits, description, sizeof(description));
	return (size_t)snprintf(
		text, size, "%s%s\n", command->limits.is_line_open ? "\n" : "", description);
}

void command_limits_write(const struct command_limits *limits, struct writer *writer)
{
	if (!limits->hit_memory)
		return;
	writer_open(writer, "limits_hit", '[');
	writer_text(writer, NULL, "memory");
	writer_close(writer, ']');
}
