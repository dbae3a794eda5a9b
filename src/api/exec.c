/*
 * POST /exec: a command whose output is captured and answered whole. Cut output, redrawn lines and
 * padding work as for cells.
 */
#include "api/answer.h"
#include "api/command.h"
#include "api/fields.h"
#include "api/output.h"
#include "api/routes.h"
#include "base/clock.h"

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

static const char *const stream_names[] = { "stdout", "stderr" };

static void write_truncated(const struct exec *exec, struct writer *writer)
{
	if (!output_is_cut(&exec->streams[0]) && !output_is_cut(&exec->streams[1]))
		return;
	writer_open(writer, "truncated", '{');
	for (unsigned i = 0; i < 2; i++) {
		if (!output_is_cut(&exec->streams[i]))
			continue;
		writer_open(writer, stream_names[i], '{');
		writer_int(writer, "kept", (int64_t)output_kept(&exec->streams[i]));
		writer_int(writer, "total", (int64_t)exec->streams[i].total);
		writer_close(writer, '}');
	}
	writer_close(writer, '}');
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
		output_write(&exec->streams[i], writer, stream_names[i]);
	}
	writer_int(writer, "exit_code", exit_code(command, problem));
	writer_int(writer, "duration_ms", (clock_monotonic_us() - command->begun_us + 999) / 1000);
	writer_bool(writer, "timeout", problem->code == ERROR_COMMAND_TIMEOUT);
	write_truncated(exec, writer);
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

static void on_end(struct command *command, enum command_end end)
{
	struct exec *exec = command->state;
	struct error problem;
	cleanup_writer struct writer writer = writer_make();
	guest_leave(&command->guest); /* the idle time begins here, and the answer tells its end */
	command_problem(command, end, &problem);
	write_body(exec, end, &problem, &writer);
	exec->call->on_gone = NULL;
	answer_json(exec->call, answer_status(exec->call, &problem), &writer);
	exec_free(exec);
}

static const struct command_owner owner = { .on_output = on_output, .on_end = on_end };

static void on_gone(struct call *call)
{
	struct exec *exec = call->state;
	call->is_answered = true;
	if (call->is_padded)
		http_stream_end(call->request);
	else
		answer_empty(call, 499);
	exec_free(exec);
}

/* The first space goes out only when the answer may come later than the client waits. */
static void on_padding(struct loop_timer *timer)
{
	struct exec *exec = CONTAINER_OF(timer, struct exec, padding);
	if (exec->command->limit_ms > CLIENT_PATIENCE_MS)
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
