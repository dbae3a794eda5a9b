/*
 * The captured output of one stream of a cell or command, in bounded memory: the first and the last
 * half mebibyte are kept, the rest is counted. A line that is redrawn with carriage returns is kept
 * in its last state only; "\r\n" is an ordinary line end.
 */
#ifndef API_OUTPUT_H
#define API_OUTPUT_H

#include "api/limit_words.h"
#include "api/writer.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define OUTPUT_HALF ((size_t)512 * 1024)
#define OUTPUT_LINE ((size_t)64 * 1024) /* beyond this a line is no longer collapsed */

struct output {
	uint64_t total;     /* bytes written by the program */
	struct buf head;    /* owned: the first OUTPUT_HALF bytes of the kept text */
	char *tail;         /* owned: a ring of the last ones; NULL while head suffices */
	uint64_t past_head; /* bytes that went into the ring so far */
	struct buf line;    /* owned: the line that is not finished yet */
	bool has_return;    /* carriage returns were seen behind `line` */
	uint64_t lost;      /* bytes dropped for want of memory */
};

void output_init(struct output *output);
void output_deinit(struct output *output);
void output_feed(struct output *output, const char *bytes, size_t size);
/* Takes in the unfinished line; nothing may be fed after it. */
void output_finish(struct output *output);

/* After output_finish: */
/* Whether the kept text has such words. */
bool output_tells(const struct output *output, limit_words words);
bool output_is_cut(const struct output *output);
uint64_t output_kept(const struct output *output); /* bytes of the text below */
/* Writes the text; where it was cut, a line in the middle says how much is missing. */
void output_write(const struct output *output, struct writer *writer, const char *key);

#endif
