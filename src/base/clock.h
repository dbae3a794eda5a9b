/* Time: monotonic milliseconds for limits, wall time only for what people read. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline int64_t clock_monotonic_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t clock_monotonic_ms(void)
{
	return clock_monotonic_us() / 1000;
}

static inline int64_t clock_wall_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define CLOCK_TEXT_SIZE 32
/* RFC 3339 in UTC with milliseconds: "2026-11-29T19:36:33.120Z". */
static inline void clock_text(int64_t wall_ms, char text[CLOCK_TEXT_SIZE])
{
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm parts;
	gmtime_r(&seconds, &parts);
	size_t n = strftime(text, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + n, CLOCK_TEXT_SIZE - n, ".%03dZ", (int)(wall_ms % 1000));
}

#endif
