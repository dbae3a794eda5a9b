/*
 * The answer to a cell. Whether it went well, raised, was too late or lost its kernel: the same
 * fields in the same places, so that a client that knows only some of them is still told the truth.
 * At the limit the same body is that of an error (504), or of a 200 with `timeout` once padding was
 * sent.
 */
#include "api/answer.h"
#include "api/sandbox_events.h"
#include "api/session.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_EXIT 124

struct told {
	const struct cell *cell;
	const struct values *values;
	enum cell_outcome outcome;
	const char *text;
	int status;
};

static bool is_timeout(const struct told *told)
{
	return told->outcome == CELL_LATE || told->outcome == CELL_KILLED;
}

static bool lost_kernel(const struct told *told)
{
	return told->outcome != CELL_DONE && told->outcome != CELL_LATE;
}

static void write_kernel(const struct told *told, struct writer *writer)
{
	const struct session *session = told->cell->session;
	bool is_lost = lost_kernel(told);
	const char *restarted = told->values->restarted;
	bool is_new = is_lost || session->is_restarted || restarted;
	const char *reason = restarted ? restarted : session->restart_reason;
	writer_open(writer, "kernel", '{');
	writer_bool(writer, "state_kept", !is_new);
	writer_bool(writer, "restarted", is_new);
	if (told->outcome == CELL_MEMORY)
		writer_text(writer, "reason", "memory_limit");
	else if (told->outcome == CELL_KILLED)
		writer_text(writer, "reason", "timeout");
	else if (is_new)
		writer_text(writer, "reason", is_lost ? told->text : reason);
	writer_close(writer, '}');
}

static void write_cut(const char *name, uint64_t kept, uint64_t total, struct writer *writer)
{
	writer_open(writer, name, '{');
	writer_int(writer, "kept", (int64_t)kept);
	writer_int(writer, "total", (int64_t)total);
	writer_close(writer, '}');
}

static const char *const stream_names[] = { "stdout", "stderr" };

static void write_truncated(const struct told *told, struct writer *writer)
{
	const struct cell *cell = told->cell;
	bool is_any = told->values->lost > 0;
	for (unsigned i = 0; i < 2; i++)
		is_any = is_any || output_is_cut(&cell->streams[i]);
	if (!is_any)
		return;
	writer_open(writer, "truncated", '{');
	for (unsigned i = 0; i < 2; i++)
		if (output_is_cut(&cell->streams[i]))
			write_cut(stream_names[i], output_kept(&cell->streams[i]),
				cell->streams[i].total, writer);
	if (told->values->lost > 0)
		write_cut("results", told->values->count, told->values->count + told->values->lost,
			writer);
	writer_close(writer, '}');
}

static int exit_of(const struct told *told);

/* By what was raised, in Python's words or Node's; a shell only prints it. */
static bool hit_files(const struct told *told)
{
	const char *raised = told->values->traceback ? told->values->error_message : "";
	return limit_words_no_space(raised, strlen(raised)) ||
	       (exit_of(told) && output_tells(&told->cell->streams[1], limit_words_no_space));
}

static bool hit_processes(const struct told *told)
{
	const char *raised = told->values->traceback;
	return (raised && limit_words_no_process(raised, strlen(raised))) ||
	       (exit_of(told) && output_tells(&told->cell->streams[1], limit_words_no_process));
}

static void note_limits(const struct told *told)
{
	const char *id = told->cell->record->id;
	struct sandbox *sandbox = told->cell->session->sandbox;
	if (is_timeout(told))
		note_limit(sandbox, "time", "run_id", id);
	if (told->outcome == CELL_MEMORY)
		note_limit(sandbox, "memory", "run_id", id);
	if (hit_files(told))
		note_limit(sandbox, "files", "run_id", id);
	if (hit_processes(told))
		note_limit(sandbox, "processes", "run_id", id);
}

static void write_limits_hit(const struct told *told, struct writer *writer)
{
	const struct cell *cell = told->cell;
	writer_open(writer, "limits_hit", '[');
	if (is_timeout(told))
		writer_text(writer, NULL, "time");
	if (told->outcome == CELL_MEMORY)
		writer_text(writer, NULL, "memory");
	if (output_is_cut(&cell->streams[0]) || output_is_cut(&cell->streams[1]))
		writer_text(writer, NULL, "output");
	if (told->values->lost > 0)
		writer_text(writer, NULL, "results");
	if (hit_files(told))
		writer_text(writer, NULL, "files");
	if (hit_processes(told))
		writer_text(writer, NULL, "processes");
	writer_close(writer, ']');
	writer_open(writer, "denials", '[');
	writer_close(writer, ']');
}

static int exit_of(const struct told *told)
{
	if (told->outcome == CELL_DONE)
		return told->values->exit;
	return is_timeout(told) ? TIMEOUT_EXIT : told->status;
}

static void describe_timeout(const struct told *told, struct error *err)
{
	error_set(err, ERROR_CELL_TIMEOUT, "cell timeout after %g s: %s",
		told->cell->limit_ms / 1000.0,
		told->outcome == CELL_LATE ? "it was interrupted, and its kernel lives on"
					   : "it did not heed the interrupt, so its kernel was "
					     "replaced and its state is lost");
	error_hint(err, "ask for more time with 'timeout_ms'");
}

/* What was raised, what became of the kernel, or that the time is over. */
static void write_failure(const struct told *told, struct writer *writer)
{
	const struct values *values = told->values;
	if (is_timeout(told)) {
		struct error err;
		describe_timeout(told, &err);
		writer_text(writer, "error", err.message);
		writer_text(writer, "code", error_word(err.code));
		writer_text(writer, "hint", err.hint);
	} else if (lost_kernel(told)) {
		writer_text(writer, "error", told->text);
		writer_text(writer, "error_name",
			told->outcome == CELL_MEMORY ? "MemoryLimit" : "KernelDied");
		writer_text(writer, "error_message", told->text);
	} else if (values->traceback) {
		writer_text(writer, "error", values->traceback);
		writer_text(writer, "error_name", values->error_name);
		writer_text(writer, "error_message", values->error_message);
	}
}

static bool has_reader(const struct cell *cell)
{
	return cell->call || cell->is_streamed || cell->record->is_detached;
}

static void write_ending(const struct told *told, struct writer *writer)
{
	writer_int(writer, "exit", exit_of(told));
	writer_int(writer, "exit_code", exit_of(told));
	writer_int(
		writer, "duration_ms", (clock_monotonic_us() - told->cell->begun_us + 999) / 1000);
	writer_bool(writer, "timeout", is_timeout(told));
	if (!told->cell->session->is_one_shot)
		write_kernel(told, writer);
	write_truncated(told, writer);
	write_limits_hit(told, writer);
	if (has_reader(told->cell))
		unheard_tell(told->cell->session->unheard, writer);
}

/* Members of an object, to be put into several; NULL without memory. */
static char *text_of(
	const struct told *told, void (*write)(const struct told *told, struct writer *writer))
{
	cleanup_writer struct writer writer = writer_make();
	write(told, &writer);
	const char *text = writer.is_failed ? NULL : buf_text(&writer.buf);
	return text ? strdup(text) : NULL;
}

/* ---- to who waits ---- */

static void write_members(struct writer *writer, const char *members)
{
	if (!members)
		writer->is_failed = true;
	else if (*members)
		writer_raw(writer, NULL, members);
}

static void answer(const struct told *told, const char *failure, const char *ending)
{
	const struct cell *cell = told->cell;
	cleanup_writer struct writer writer = writer_make();
	unsigned status = 200;
	writer_open(&writer, NULL, '{');
	write_members(&writer, failure);
	if (is_timeout(told)) {
		writer_text(&writer, "request_id", http_request_id(cell->call->request));
		status = cell->call->is_padded ? 200 : error_status(ERROR_CELL_TIMEOUT);
	}
	writer_text(&writer, "run_id", cell->record->id);
	if (cell->session->is_one_shot)
		writer_text(&writer, "language", language_name(cell->session->language));
	for (unsigned i = 0; i < 2; i++)
		output_write(&cell->streams[i], &writer, stream_names[i]);
	values_write_results(told->values, &writer);
	write_members(&writer, ending);
	sandbox_write_expiry(cell->session->sandbox, &writer);
	writer_close(&writer, '}');
	cell->call->on_gone = NULL;
	answer_json(cell->call, status, &writer);
}

/* ---- to the run ---- */

static enum run_state state_of(const struct told *told)
{
	if (is_timeout(told))
		return RUN_TIMEOUT;
	if (lost_kernel(told))
		return RUN_KERNEL_DIED;
	return told->cell->record->is_cancelled ? RUN_INTERRUPTED : RUN_DONE;
}

static void write_event(struct writer *writer, const char *name, const char *message,
	const char *traceback, const struct error *err)
{
	writer_open(writer, NULL, '{');
	writer_text(writer, "name", name);
	writer_text(writer, "message", message);
	writer_text(writer, "traceback", traceback);
	if (err)
		writer_text(writer, "code", error_word(err->code));
	if (err && err->hint[0])
		writer_text(writer, "hint", err->hint);
	writer_close(writer, '}');
}

/* The "error" event's data; nothing where all went well. */
static void write_error_event(const struct told *told, struct writer *writer)
{
	const struct values *values = told->values;
	struct error err;
	if (is_timeout(told)) {
		describe_timeout(told, &err);
		write_event(writer, "CellTimeout", err.message, "", &err);
	} else if (lost_kernel(told)) {
		write_event(writer, told->outcome == CELL_MEMORY ? "MemoryLimit" : "KernelDied",
			told->text, "", NULL);
	} else if (values->traceback) {
		write_event(
			writer, values->error_name, values->error_message, values->traceback, NULL);
	}
}

void run_answer_tell(struct cell *cell, enum cell_outcome outcome, const char *text, int status)
{
	struct run *run = cell->record;
	struct told told = { cell, &run->values, outcome, text, status };
	for (unsigned i = 0; i < 2; i++)
		output_finish(&cell->streams[i]);
	cleanup_free char *error = text_of(&told, write_error_event);
	char *failure = text_of(&told, write_failure), *ending = text_of(&told, write_ending);
	struct stats *stats = &cell->session->sandbox->api->stats;
	histogram_add(&stats->runs_took, clock_monotonic_us() - cell->begun_us);
	note_limits(&told);
	if (is_timeout(&told))
		stats->errors[ERROR_CELL_TIMEOUT]++;
	if (cell->call)
		answer(&told, failure, ending);
	if (has_reader(cell))
		cell->session->is_restarted = false;
	enum run_state state = state_of(&told);
	cell->record = NULL;
	run_end(run, state, failure, ending, error && *error ? error : NULL);
}

void run_answer_fail(struct cell *cell, const struct error *why)
{
	struct run *run = cell->record;
	cleanup_writer struct writer writer = writer_make(), failure = writer_make();
	if (!run)
		return;
	writer_text(&failure, "error", why->message);
	writer_text(&failure, "code", error_word(why->code));
	write_event(&writer, "NotRun", why->message, "", why);
	const char *text = buf_text(&failure.buf), *event = buf_text(&writer.buf);
	cell->record = NULL;
	run_end(run, why->code == ERROR_KERNEL_START ? RUN_KERNEL_DIED : RUN_INTERRUPTED,
		text ? strdup(text) : NULL, NULL, event);
}
