/*
 * The log of a sandbox: what its cells and commands print, line by line, in the order in which the
 * lines were finished. The latest LOG_LIMIT bytes are kept; what is gone is told by a line.
 */
#ifndef API_SANDBOX_LOG_H
#define API_SANDBOX_LOG_H

#include "api/journal.h"

#define LOG_LIMIT ((size_t)1 << 20)
#define LOG_LINE ((size_t)16 * 1024) /* longer lines are cut into several */

/* Places of a log only grow, over a crash of the api too: one that was there before this start goes
 * on where no earlier place can have been. What was printed before is gone, and so is its size. */
#define LOG_START_SHIFT 44

static inline uint64_t log_start_place(uint64_t start)
{
	return start << LOG_START_SHIFT;
}

#define LOG_GAP_SIZE 192
/* What stands for what is gone between two places, as whole lines; returns their size. Who comes back
 * with a place of before a crash has most likely read all of that, and is told of no gap there. */
size_t log_gap_text(uint64_t from, uint64_t to, char text[LOG_GAP_SIZE]);

/* The unfinished lines of one source of output: a cell or a command. All zero: none. */
struct log_lines {
	struct {
		char *bytes; /* owned; NULL or LOG_LINE bytes of room */
		size_t size;
		bool has_return; /* the line's last byte was a carriage return: it may be redrawn */
	} streams[2];
};

/* Takes what was printed on a stream (0 stdout, 1 stderr). A line redrawn with carriage returns
 * counts in its last state only. */
void log_take(struct journal *log, struct log_lines *lines, unsigned stream, const char *bytes,
	size_t size);
/* Nothing more comes: the unfinished lines end here. Idempotent. */
void log_finish(struct journal *log, struct log_lines *lines);

#endif
