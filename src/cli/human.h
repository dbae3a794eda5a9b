/* Figures and texts as people read them. What comes from a sandbox may hold anything, so it goes
 * through human_clean before a terminal sees it. */
#ifndef CLI_HUMAN_H
#define CLI_HUMAN_H

#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>

#define HUMAN_SIZE 24

/* "42s", "12m", "5h", "3d"; "-" below 0. */
void human_age(int64_t seconds, char text[HUMAN_SIZE]);
/* "512 B", "1.5 KiB", "340 MiB". */
void human_bytes(double bytes, char text[HUMAN_SIZE]);
/* Milliseconds since 1970 of an RFC 3339 time in UTC; -1 when it is none. */
int64_t human_time_ms(const char *text);

/* What a terminal may be given: without control characters. HUMAN_LINES lets line ends and tabs
 * stand, HUMAN_COLOURS also the sequences that set colours (and nothing else). */
enum human_style { HUMAN_PLAIN, HUMAN_LINES, HUMAN_COLOURS };
bool human_clean(struct buf *out, const char *text, size_t size, enum human_style style);

/* Is colour wanted there: a terminal, no NO_COLOR, not a dumb one? */
bool human_has_colour(FILE *stream);

#endif
