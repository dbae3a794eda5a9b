/*
 * The answer to a cell. Whether it went well, raised, was too late or lost its kernel: the same
 * fields in the same places, so that a client that knows only some of them is still told the truth.
 * At the limit the same body is that of an error (504), or of a 200 with `timeout` once padding was
 * sent.
 */
#include "api/answer.h"
#include "api/session.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_EXIT 124

struct told {
	const struct cell *cell;
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
	struct session *session = told->cell->session;
	bool is_lost = lost_kernel(told);
	const char *restarted = told->cell->values.restarted;
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
	session->is_restarted = false;
}

static void write_cut(const char *name, uint64_t kept, uint64_t total, struct writer *writer)
{
	writer_open(writer, name, '{');
	writer_int(writer, "kept", (int64_t)kept);
	writer_int(writer, "total", (int64_t)total);
	writer_close(writer, '}');
}

static const char *const stream_names[] = { "stdout", "stderr" };

static void write_truncated(const struct cell *cell, struct writer *writer)
{
	bool is_any = cell->values.lost > 0;
	for (unsigned i = 0; i < 2; i++)
		is_any = is_any || output_is_cut(&cell->streams[i]);
	if (!is_any)
		return;
	writer_open(writer, "truncated", '{');
	for (unsigned i = 0; i < 2; i++)
		if (output_is_cut(&cell->streams[i]))
			write_cut(stream_names[i], output_kept(&cell->streams[i]),
				cell->streams[i].total, writer);
	if (cell->values.lost > 0)
		write_cut("results", cell->values.count, cell->values.count + cell->values.lost,
			writer);
	writer_close(writer, '}');
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
	if (cell->values.lost > 0)
		writer_text(writer, NULL, "results");
	if (cell->values.traceback && strstr(cell->values.error_message, "[Errno 28]"))
		writer_text(writer, NULL, "files");
	writer_close(writer, ']');
	writer_open(writer, "denials", '[');
	writer_close(writer, ']');
}

static int exit_of(const struct told *told)
{
	if (told->outcome == CELL_DONE)
		return told->cell->values.exit;
	return is_timeout(told) ? TIMEOUT_EXIT : told->status;
}

/* What was raised, or what became of the kernel. A timeout's text is in the envelope already. */
static void write_failure(const struct told *told, struct writer *writer)
{
	const struct values *values = &told->cell->values;
	if (lost_kernel(told) && !is_timeout(told)) {
		writer_text(writer, "error", told->text);
		writer_text(writer, "error_name",
			told->outcome == CELL_MEMORY ? "MemoryLimit" : "KernelDied");
		writer_text(writer, "error_message", told->text);
	} else if (values->traceback && !is_timeout(told)) {
		writer_text(writer, "error", values->traceback);
		writer_text(writer, "error_name", values->error_name);
		writer_text(writer, "error_message", values->error_message);
	}
}

static void write_body(const struct told *told, struct writer *writer)
{
	const struct cell *cell = told->cell;
	if (cell->session->is_one_shot)
		writer_text(writer, "language", language_name(cell->session->language));
	write_failure(told, writer);
	for (unsigned i = 0; i < 2; i++)
		output_write(&cell->streams[i], writer, stream_names[i]);
	values_write_results(&cell->values, writer);
	writer_int(writer, "exit", exit_of(told));
	writer_int(writer, "exit_code", exit_of(told));
	writer_int(writer, "duration_ms", (clock_monotonic_us() - cell->begun_us + 999) / 1000);
	writer_bool(writer, "timeout", is_timeout(told));
	if (!cell->session->is_one_shot)
		write_kernel(told, writer);
	write_truncated(cell, writer);
	write_limits_hit(told, writer);
	unheard_tell(cell->session->unheard, writer);
	sandbox_write_expiry(cell->session->sandbox, writer);
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

void run_answer_send(struct cell *cell, enum cell_outcome outcome, const char *text, int status)
{
	struct told told = { cell, outcome, text, status };
	cleanup_writer struct writer writer = writer_make();
	unsigned http_status = 200;
	for (unsigned i = 0; i < 2; i++)
		output_finish(&cell->streams[i]);
	writer_open(&writer, NULL, '{');
	if (is_timeout(&told)) {
		struct error err;
		describe_timeout(&told, &err);
		http_status = answer_status(cell->call, &err);
		answer_write_error(cell->call, &err, &writer);
	}
	write_body(&told, &writer);
	writer_close(&writer, '}');
	cell->call->on_gone = NULL;
	answer_json(cell->call, http_status, &writer);
}
