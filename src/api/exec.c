/*
 * POST /exec: a command whose output is captured and answered whole. Cut output, redrawn lines and
 * padding work as for cells.
 */
#include "api/answer.h"
#include "api/command.h"
#include "api/fields.h"
#include "api/output.h"
#include "api/routes.h"
#include "api/sandbox_events.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_MS 28000
#define CLIENT_PATIENCE_MS 28000
#define PADDING_MS 10000
#define TIMEOUT_EXIT 124

struct exec {
	struct call *call;       /* not owned */
	struct command *command; /* owned */
	struct sandbox *sandbox; /* not owned: good while the command is its guest */
	struct output streams[2];
	struct loop_timer padding;
};

static void exec_free(struct exec *exec)
{
	if (exec->command)
		command_free(exec->command);
	loop_timer_stop(&exec->padding);
	for (unsigned i = 0; i < 2; i++)
		output_deinit(&exec->streams[i]);
	free(exec);
}

static void write_truncated(const struct exec *exec, struct writer *writer)
{
	if (!output_is_cut(&exec->streams[0]) && !output_is_cut(&exec->streams[1]))
		return;
	writer_open(writer, "truncated", '{');
	for (unsigned i = 0; i < 2; i++) {
		if (!output_is_cut(&exec->streams[i]))
			continue;
		writer_open(writer, command_streams[i], '{');
		writer_int(writer, "kept", (int64_t)output_kept(&exec->streams[i]));
		writer_int(writer, "total", (int64_t)exec->streams[i].total);
		writer_close(writer, '}');
	}
	writer_close(writer, '}');
}

static void write_memory(const struct command_limits *limits, struct writer *writer)
{
	char text[COMMAND_LIMITS_TEXT];
	command_limits_describe_memory(limits, text, sizeof(text));
	writer_text(writer, "error", text);
}

static void write_files(const struct wire_limits *limits, struct writer *writer)
{
	char text[160];
	snprintf(text, sizeof(text),
		"the sandbox's files limit is reached: %llu MiB, %u inodes; see limits.files_mb and"
		" limits.inodes",
		(unsigned long long)(limits->files_bytes >> 20), limits->inodes);
	writer_text(writer, "hint", text);
}

static void write_processes(const struct wire_limits *limits, struct writer *writer)
{
	char text[128];
	snprintf(text, sizeof(text),
		"the sandbox's limit of %u processes and threads is reached; see limits.processes",
		limits->processes);
	writer_text(writer, "hint", text);
}

static void write_names(const bool hit[3], struct writer *writer)
{
	static const char *const names[] = { "memory", "files", "processes" };
	writer_open(writer, "limits_hit", '[');
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (hit[i])
			writer_text(writer, NULL, names[i]);
	writer_close(writer, ']');
}

static void write_limits(struct exec *exec, bool hit_files, struct writer *writer)
{
	const struct command_limits *limits = &exec->command->limits;
	const bool hit[] = { limits->hit_memory, hit_files, limits->hit_processes };
	if (!hit[0] && !hit[1] && !hit[2])
		return;
	if (limits->hit_memory)
		write_memory(limits, writer);
	if (hit_files)
		write_files(&exec->sandbox->limits, writer);
	else if (limits->hit_processes)
		write_processes(&exec->sandbox->limits, writer);
	if (hit_files)
		note_limit(exec->sandbox, "files", "command_id", exec->command->id);
	write_names(hit, writer);
}

static int exit_code(const struct command *command, const struct error *problem)
{
	if (problem->code)
		return problem->code == ERROR_COMMAND_TIMEOUT ? TIMEOUT_EXIT : 1;
	return command_exit_code(command);
}

static void write_body(
	struct exec *exec, enum command_end end, const struct error *problem, struct writer *writer)
{
	struct command *command = exec->command;
	writer_open(writer, NULL, '{');
	if (problem->code)
		answer_write_error(exec->call, problem, writer);
	for (unsigned i = 0; i < 2; i++) {
		output_finish(&exec->streams[i]);
		output_write(&exec->streams[i], writer, command_streams[i]);
	}
	writer_int(writer, "exit_code", exit_code(command, problem));
	writer_int(writer, "duration_ms", (clock_monotonic_us() - command->begun_us + 999) / 1000);
	writer_bool(writer, "timeout", problem->code == ERROR_COMMAND_TIMEOUT);
	write_truncated(exec, writer);
	if (end != COMMAND_SANDBOX && !problem->code)
		write_limits(exec,
			command_exit_code(command) &&
				output_tells(&exec->streams[1], limit_words_no_space),
			writer);
	if (end != COMMAND_SANDBOX)
		sandbox_write_expiry(exec->sandbox, writer);
	writer_close(writer, '}');
}

static bool on_output(struct command *command, unsigned stream, const char *bytes, size_t size)
{
	struct exec *exec = command->state;
	output_feed(&exec->streams[stream], bytes, size);
	return true;
}

static void answer(struct exec *exec, enum command_end end)
{
	struct error problem;
	cleanup_writer struct writer writer = writer_make();
	guest_leave(&exec->command
			     ->guest); /* the idle time begins here, and the answer tells its end */
	command_problem(exec->command, end, &problem);
	write_body(exec, end, &problem, &writer);
	exec->call->on_gone = NULL;
	answer_json(exec->call, answer_status(exec->call, &problem), &writer);
	exec_free(exec);
}

static bool tells_no_process(struct command *command)
{
	struct exec *exec = command->state;
	for (unsigned i = 0; i < 2; i++)
		output_finish(&exec->streams[i]);
	return output_tells(&exec->streams[1], limit_words_no_process);
}

static void on_end(struct command *command, enum command_end end)
{
	struct exec *exec = command->state;
	char text[COMMAND_LIMITS_TEXT + 2];
	if (command->limits.hit_memory)
		output_feed(&exec->streams[1], text,
			command_limits_say_memory(command, text, sizeof(text)));
	answer(exec, end);
}

static const struct command_owner owner = {
	.on_output = on_output, .tells_no_process = tells_no_process, .on_end = on_end
};

static void on_gone(struct call *call)
{
	struct exec *exec = call->state;
	answer_gone(call);
	exec_free(exec);
}

/* The first space goes out only when the answer may come later than the client waits. */
static void on_padding(struct loop_timer *timer)
{
	struct exec *exec = CONTAINER_OF(timer, struct exec, padding);
	const struct command *command = exec->command;
	if (command->limit_ms + command->stopped_us / 1000 > CLIENT_PATIENCE_MS ||
		command->is_stopped)
		answer_pad(exec->call);
	loop_timer_start(&exec->call->api->loop, timer, PADDING_MS, on_padding);
}

static bool start(struct call *call, struct error *err)
{
	uint32_t limit_ms = DEFAULT_MS;
	const char *text;
	size_t size;
	cleanup_json json_t *body = NULL;
	if (!command_read_body(call, &limit_ms, &body, &text, &size, err))
		return false;
	struct exec *exec = calloc(1, sizeof(*exec));
	if (!exec)
		return error_no_memory(err), false;
	*exec = (struct exec){ .call = call, .sandbox = call->sandbox };
	for (unsigned i = 0; i < 2; i++)
		output_init(&exec->streams[i]);
	exec->command = command_start(call->sandbox, text, size, limit_ms, &owner, exec, err);
	if (!exec->command) {
		exec_free(exec);
		return false;
	}
	call->state = exec;
	call->on_gone = on_gone;
	loop_timer_start(&call->api->loop, &exec->padding, PADDING_MS, on_padding);
	return true;
}

void commands_exec(struct call *call)
{
	struct error err = { 0 };
	if (!start(call, &err))
		answer_error(call, &err);
}
