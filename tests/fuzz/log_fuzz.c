/*
 * What code prints, on its way into a sandbox's log: any bytes, in any pieces. Each record has to
 * be whole lines of bounded length, places have to add up, and nothing but carriage returns and
 * what they redraw may get lost. The first byte chooses the size of the pieces.
 */
#include "api/sandbox_log.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t longest_line(const struct record *record)
{
	size_t longest = 0, begin = 0;
	for (size_t i = 0; i < record->size; i++) {
		if (record->bytes[i] != '\n')
			continue;
		longest = MAX(longest, i - begin);
		begin = i + 1;
	}
	return longest;
}

static void check(const struct journal *log, size_t size, bool has_returns)
{
	uint64_t place = journal_first_place(log), lines = 0;
	for (const struct record *record = journal_find(log, 0); record;
		record = journal_next(log, record)) {
		assert(record->place == place && record->size > 0);
		assert(record->bytes[record->size - 1] == '\n');
		assert(longest_line(record) <= LOG_LINE);
		assert(place > 0 || journal_find(log, record->size - 1) == record);
		place += record->size;
		lines++;
	}
	assert(place == log->end_place);
	assert(has_returns || place >= size);
	assert(place <= size + lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (size == 0)
		return 0;
	size_t piece = bytes[0] + 1u;
	const char *text = (const char *)bytes + 1;
	struct journal *log = journal_new(NULL, LOG_LIMIT, 1, NULL);
	struct log_lines lines = { 0 };
	size--;
	for (size_t at = 0; at < size; at += piece)
		log_take(log, &lines, at / piece % 2, text + at, MIN(piece, size - at));
	log_finish(log, &lines);
	check(log, size, memchr(text, '\r', size));
	journal_unref(log);
	return 0;
}
