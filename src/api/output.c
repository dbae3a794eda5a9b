/*
 * Bytes pass two stages. The first holds back the unfinished line, so that a redraw can replace it;
 * the second keeps head and tail. A line longer than OUTPUT_LINE is passed on in parts: what was
 * passed on stays, whatever is redrawn later, which keeps memory bounded.
 */
#include "api/output.h"

#include <stdio.h>
#include <string.h>

void output_init(struct output *output)
{
	*output = (struct output){ .head = buf_make(OUTPUT_HALF), .line = buf_make(OUTPUT_LINE) };
}

void output_deinit(struct output *output)
{
	buf_deinit(&output->head);
	buf_deinit(&output->line);
	free(output->tail);
	output->tail = NULL;
}

/* ---- second stage: head and tail ---- */

static void keep_tail(struct output *output, const char *bytes, size_t size)
{
	if (!output->tail && !(output->tail = malloc(OUTPUT_HALF))) {
		output->lost += size;
		return;
	}
	if (size > OUTPUT_HALF) {
		output->past_head += size - OUTPUT_HALF;
		bytes += size - OUTPUT_HALF;
		size = OUTPUT_HALF;
	}
	size_t place = output->past_head % OUTPUT_HALF;
	size_t first = MIN(size, OUTPUT_HALF - place);
	memcpy(output->tail + place, bytes, first);
	memcpy(output->tail, bytes + first, size - first);
	output->past_head += size;
}

static void keep(struct output *output, const char *bytes, size_t size)
{
	size_t room = output->past_head > 0 ? 0 : OUTPUT_HALF - output->head.size;
	size_t first = MIN(room, size);
	if (!buf_append(&output->head, bytes, first))
		output->lost += first;
	if (size > first)
		keep_tail(output, bytes + first, size - first);
}

/* ---- first stage: redrawn lines ---- */

static void pass_line(struct output *output)
{
	keep(output, output->line.bytes, output->line.size);
	output->line.size = 0;
}

static void hold(struct output *output, const char *bytes, size_t size)
{
	if (size > OUTPUT_LINE - output->line.size)
		pass_line(output);
	if (size > OUTPUT_LINE || !buf_append(&output->line, bytes, size))
		keep(output, bytes, size);
}

/* What follows carriage returns: a line end keeps the line, anything else redraws it. */
static void settle_return(struct output *output, char next)
{
	output->has_return = false;
	if (next != '\n') {
		output->line.size = 0;
		return;
	}
	pass_line(output);
	keep(output, "\r", 1);
}

static size_t to_next_mark(const char *bytes, size_t size)
{
	size_t n = 0;
	while (n < size && bytes[n] != '\n' && bytes[n] != '\r')
		n++;
	return n;
}

/* Whole lines without a redraw, the common case, are passed on in one piece. */
static size_t feed_whole_lines(struct output *output, const char *bytes, size_t size)
{
	const char *last = memrchr(bytes, '\n', size);
	if (!last || output->has_return || memchr(bytes, '\r', size))
		return 0;
	size_t taken = (size_t)(last - bytes) + 1;
	pass_line(output);
	keep(output, bytes, taken);
	return taken;
}

void output_feed(struct output *output, const char *bytes, size_t size)
{
	output->total += size;
	size_t at = feed_whole_lines(output, bytes, size);
	while (at < size) {
		if (bytes[at] == '\r') {
			output->has_return = true;
			at++;
			continue;
		}
		if (output->has_return)
			settle_return(output, bytes[at]);
		if (bytes[at] == '\n') {
			pass_line(output);
			keep(output, "\n", 1);
			at++;
			continue;
		}
		size_t run = to_next_mark(bytes + at, size - at);
		hold(output, bytes + at, run);
		at += run;
	}
}

void output_finish(struct output *output)
{
	pass_line(output);
	output->has_return = false;
	buf_deinit(&output->line);
}

/* ---- what was kept ---- */

static uint64_t left_out(const struct output *output)
{
	uint64_t in_ring = MIN(output->past_head, (uint64_t)OUTPUT_HALF);
	return output->past_head - in_ring + output->lost;
}

bool output_tells(const struct output *output, limit_words words)
{
	size_t tail = (size_t)MIN(output->past_head, (uint64_t)OUTPUT_HALF);
	return words(output->head.bytes, output->head.size) || words(output->tail, tail);
}

bool output_is_cut(const struct output *output)
{
	return left_out(output) > 0;
}

uint64_t output_kept(const struct output *output)
{
	return output->head.size + MIN(output->past_head, (uint64_t)OUTPUT_HALF);
}

static void write_cut(const struct output *output, struct writer *writer, struct utf8 *state)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "\n[... %llu of %llu bytes left out ...]\n",
		(unsigned long long)left_out(output), (unsigned long long)output->total);
	writer_chars(writer, state, text, (size_t)n);
}

/* A cut may fall into a character; its halves are left out rather than shown as damage. */
static size_t skip_broken_start(const char *ring, size_t from)
{
	size_t n = 0;
	while (n < 3 && ((uint8_t)ring[(from + n) % OUTPUT_HALF] & 0xc0) == 0x80)
		n++;
	return n;
}

static void write_tail(const struct output *output, struct writer *writer, struct utf8 *state)
{
	size_t in_ring = (size_t)MIN(output->past_head, (uint64_t)OUTPUT_HALF);
	size_t from = output->past_head > OUTPUT_HALF ? output->past_head % OUTPUT_HALF : 0;
	size_t skipped = output_is_cut(output) ? skip_broken_start(output->tail, from) : 0;
	from = (from + skipped) % OUTPUT_HALF;
	in_ring -= MIN(skipped, in_ring);
	size_t first = MIN(in_ring, OUTPUT_HALF - from);
	writer_chars(writer, state, output->tail + from, first);
	writer_chars(writer, state, output->tail, in_ring - first);
}

void output_write(const struct output *output, struct writer *writer, const char *key)
{
	struct utf8 state = { 0 };
	size_t head = output->head.size;
	if (output_is_cut(output))
		head -= utf8_open_end(output->head.bytes, head);
	writer_string_begin(writer, key);
	writer_chars(writer, &state, output->head.bytes, head);
	if (output_is_cut(output))
		write_cut(output, writer, &state);
	if (output->tail)
		write_tail(output, writer, &state);
	writer_string_end(writer, &state);
}
