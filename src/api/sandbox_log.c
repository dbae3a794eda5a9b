/* See sandbox_log.h. A record holds whole lines, many where many came at once. */
#include "api/sandbox_log.h"

#include "api/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void pass(struct journal *log, unsigned stream, const char *bytes, size_t size)
{
	if (size > 0)
		journal_append(log, (uint8_t)stream, bytes, size);
}

/* The held part of the line goes out as a line of its own. */
static void pass_held(struct journal *log, struct log_lines *lines, unsigned stream)
{
	typeof(&lines->streams[0]) line = &lines->streams[stream];
	if (line->size == 0)
		return;
	size_t open = utf8_open_end(line->bytes, line->size);
	char rest[4];
	memcpy(rest, line->bytes + line->size - open, open);
	line->bytes[line->size - open] = '\n';
	pass(log, stream, line->bytes, line->size - open + 1);
	memcpy(line->bytes, rest, open);
	line->size = open;
}

/* Without memory the bytes are lost to the log. */
static void hold(struct journal *log, struct log_lines *lines, unsigned stream, const char *bytes,
	size_t size)
{
	typeof(&lines->streams[0]) line = &lines->streams[stream];
	if (size > 0 && !line->bytes && !(line->bytes = malloc(LOG_LINE + 1)))
		return;
	while (size > 0) {
		size_t part = MIN(size, LOG_LINE - line->size);
		memcpy(line->bytes + line->size, bytes, part);
		line->size += part;
		bytes += part;
		size -= part;
		if (line->size == LOG_LINE)
			pass_held(log, lines, stream);
	}
}

static void end_line(struct journal *log, struct log_lines *lines, unsigned stream)
{
	typeof(&lines->streams[0]) line = &lines->streams[stream];
	line->has_return = false;
	if (line->size == 0)
		return pass(log, stream, "\n", 1);
	line->bytes[line->size] = '\n'; /* there is room for it */
	pass(log, stream, line->bytes, line->size + 1);
	line->size = 0;
}

/* Many whole lines without a redraw, the common case, are one record. */
static size_t take_whole_lines(struct journal *log, const struct log_lines *lines, unsigned stream,
	const char *bytes, size_t size)
{
	const char *last = memrchr(bytes, '\n', size);
	if (!last || lines->streams[stream].size > 0 || lines->streams[stream].has_return ||
		memchr(bytes, '\r', size))
		return 0;
	size_t taken = (size_t)(last - bytes) + 1;
	for (const char *at = bytes, *end = bytes + taken; at < end;) {
		size_t line = (size_t)((char *)memchr(at, '\n', (size_t)(end - at)) - at);
		if (line > LOG_LINE)
			return 0;
		at += line + 1;
	}
	pass(log, stream, bytes, taken);
	return taken;
}

size_t log_gap_text(uint64_t from, uint64_t to, char text[LOG_GAP_SIZE])
{
	uint64_t start_place = to >> LOG_START_SHIFT << LOG_START_SHIFT;
	int size = 0;
	if (from == 0 && start_place > 0)
		size = snprintf(text, LOG_GAP_SIZE,
			"[... what was printed before the daemon's HTTP side was restarted is"
			" gone ...]\n");
	from = MAX(from, start_place);
	if (from < to)
		size += snprintf(text + size, LOG_GAP_SIZE - (size_t)size,
			"[... %" PRIu64 " bytes of output left out ...]\n", to - from);
	return (size_t)size;
}

void log_take(struct journal *log, struct log_lines *lines, unsigned stream, const char *bytes,
	size_t size)
{
	typeof(&lines->streams[0]) line = &lines->streams[stream];
	size_t at = take_whole_lines(log, lines, stream, bytes, size);
	while (at < size) {
		size_t run = 0;
		while (at + run < size && bytes[at + run] != '\n' && bytes[at + run] != '\r')
			run++;
		if (run > 0 && line->has_return) {
			line->size = 0;
			line->has_return = false;
		}
		hold(log, lines, stream, bytes + at, run);
		at += run;
		if (at < size && bytes[at] == '\n')
			end_line(log, lines, stream);
		else if (at < size)
			line->has_return = true;
		at++;
	}
}

void log_finish(struct journal *log, struct log_lines *lines)
{
	for (unsigned stream = 0; stream < 2; stream++) {
		typeof(&lines->streams[0]) line = &lines->streams[stream];
		if (line->size > 0)
			end_line(log, lines, stream);
		free(line->bytes);
	}
	*lines = (struct log_lines){ 0 };
}
