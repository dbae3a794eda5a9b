/*
 * The endpoints of runs: what became of a cell, whoever asked for it. A run is read from a place
 * on; the answer says from where to go on, so nothing is read twice and nothing is run twice.
 */
#include "api/answer.h"
#include "api/cell.h"
#include "api/query.h"
#include "api/routes.h"
#include "api/run.h"

#include <inttypes.h>
#include <string.h>

#define PLACE_LIMIT ((uint64_t)1 << 53) /* what JSON numbers hold exactly */

/* The run of the path; NULL, answered. */
static struct run *find(struct call *call)
{
	struct error err;
	struct run *run = run_find(call->api, http_request_segment(call->request, 2), call->owner);
	if (run)
		return run;
	error_set(&err, ERROR_RUN_NOT_FOUND, "run not found");
	error_hint(&err, "a run is kept for 10 minutes after its end, while its sandbox lives");
	answer_error(call, &err);
	return NULL;
}

/* ---- what it printed ---- */

/* One stream from the place on. Records are whole characters; a place may lie within one. */
static void write_stream(const struct run *run, enum run_record kind, uint64_t from,
	const char *key, struct writer *writer)
{
	struct utf8 state = { 0 };
	const struct journal *journal = run->journal;
	writer_string_begin(writer, key);
	for (const struct record *record = journal_find(journal, from); record;
		record = journal_next(journal, record)) {
		size_t skipped = from > record->place ? (size_t)(from - record->place) : 0;
		if (record->kind == kind)
			writer_chars(
				writer, &state, record->bytes + skipped, record->size - skipped);
	}
	writer_string_end(writer, &state);
}

static void write_run(const struct run *run, uint64_t asked, struct writer *writer)
{
	uint64_t first = journal_first_place(run->journal), end = run->journal->end_place;
	uint64_t from = MIN(MAX(asked, first), end);
	writer_open(writer, NULL, '{');
	run_write_head(run, true, writer);
	writer_int(writer, "offset", (int64_t)from);
	writer_int(writer, "next_offset", (int64_t)end);
	if (asked < first)
		writer_int(writer, "dropped", (int64_t)(first - asked));
	write_stream(run, RUN_STDOUT, from, "stdout", writer);
	write_stream(run, RUN_STDERR, from, "stderr", writer);
	values_write_results(&run->values, writer);
	sandbox_write_expiry(run->sandbox, writer);
	writer_close(writer, '}');
}

void runs_get(struct call *call)
{
	struct error err = { 0 };
	uint64_t offset = 0;
	struct run *run = find(call);
	if (!run)
		return;
	if (!query_number(call, "offset", PLACE_LIMIT, &offset, &err))
		return answer_error(call, &err);
	cleanup_writer struct writer writer = writer_make();
	write_run(run, offset, &writer);
	answer_json(call, 200, &writer);
}

/* ---- to follow, to cancel, to list ---- */

/* Browsers come back with the id of the last event they got, and the address they had. */
static bool read_place(
	const struct call *call, uint64_t *place, bool *ret_is_back, struct error *err)
{
	const char *last = http_request_header(call->request, "Last-Event-ID");
	*ret_is_back = last;
	if (!query_number(call, "offset", PLACE_LIMIT, place, err))
		return false;
	if (!last || query_parse_number(last, strlen(last), PLACE_LIMIT, place))
		return true;
	return error_set(err, ERROR_INVALID, "'Last-Event-ID' is none of a run's events");
}

/* Nothing will come any more. */
static bool is_read_to_its_end(const struct run *run, uint64_t place)
{
	return run->ending && place >= run->journal->end_place;
}

void runs_stream(struct call *call)
{
	struct error err = { 0 };
	uint64_t place = 0;
	bool is_back;
	struct run *run = find(call);
	if (!run)
		return;
	if (!read_place(call, &place, &is_back, &err))
		return answer_error(call, &err);
	if (is_back && is_read_to_its_end(run, place))
		return answer_empty(call, 204); /* a browser stops coming back then */
	if (!run_follow(run, call, place, &err))
		answer_error(call, &err);
}

void runs_cancel(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	struct run *run = find(call);
	if (!run)
		return;
	sandbox_touch(run->sandbox);
	if (run->cell)
		cell_cancel(run->cell);
	writer_open(&writer, NULL, '{');
	run_write_head(run, true, &writer);
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

void runs_list(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_open(&writer, "runs", '[');
	LIST_EACH(&call->sandbox->runs, struct run, link, run) {
		writer_open(&writer, NULL, '{');
		run_write_head(run, false, &writer);
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}
