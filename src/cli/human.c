/* See human.h. */
#include "cli/human.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_COLOUR 24 /* bytes of a sequence that sets colours */

void human_age(int64_t seconds, char text[HUMAN_SIZE])
{
	if (seconds < 0)
		strcpy(text, "-");
	else if (seconds < 100)
		snprintf(text, HUMAN_SIZE, "%ds", (int)seconds);
	else if (seconds < 100 * 60)
		snprintf(text, HUMAN_SIZE, "%dm", (int)(seconds / 60));
	else if (seconds < 48 * 3600)
		snprintf(text, HUMAN_SIZE, "%dh", (int)(seconds / 3600));
	else
		snprintf(text, HUMAN_SIZE, "%lldd", (long long)(seconds / 86400));
}

void human_bytes(double bytes, char text[HUMAN_SIZE])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;
	for (; bytes >= 1023.5 && unit + 1 < ARRAY_SIZE(units); unit++)
		bytes /= 1024;
	bool is_exact = unit == 0 || bytes >= 99.95 || (double)(int64_t)bytes == bytes;
	snprintf(text, HUMAN_SIZE, "%.*f %s", is_exact ? 0 : 1, bytes, units[unit]);
}

int64_t human_time_ms(const char *text)
{
	struct tm parts = { 0 };
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;
	if (!rest)
		return -1;
	double fraction = *rest == '.' ? strtod(rest, NULL) : 0;
	return (int64_t)timegm(&parts) * 1000 + (int64_t)(fraction * 1000);
}

/* The size of "ESC [ digits and semicolons m" at the front, or 0. */
static size_t colour_size(const char *text, size_t size)
{
	size_t at = 2;
	if (size < 3 || text[0] != '\033' || text[1] != '[')
		return 0;
	while (at < size && at < MOST_COLOUR && text[at] && strchr("0123456789;", text[at]))
		at++;
	return at < size && text[at] == 'm' ? at + 1 : 0;
}

/* C1 controls are two bytes in UTF-8, and some terminals heed them. */
static size_t control_size(const char *text, size_t size)
{
	unsigned char first = (unsigned char)text[0];
	if (first < ' ' || first == 0x7f)
		return 1;
	bool is_c1 = first == 0xc2 && size > 1 && (unsigned char)text[1] >= 0x80 &&
		     (unsigned char)text[1] < 0xa0;
	return is_c1 ? 2 : 0;
}

bool human_clean(struct buf *out, const char *text, size_t size, enum human_style style)
{
	bool is_good = true;
	for (size_t at = 0; at < size && is_good;) {
		size_t colour = style == HUMAN_COLOURS ? colour_size(text + at, size - at) : 0;
		size_t control = control_size(text + at, size - at);
		bool is_layout = style != HUMAN_PLAIN && (text[at] == '\n' || text[at] == '\t');
		size_t part = colour ? colour : control && !is_layout ? 0 : 1;
		is_good = part ? buf_append(out, text + at, part) : buf_append(out, "?", 1);
		at += part ? part : control;
	}
	return is_good;
}

bool human_has_colour(FILE *stream)
{
	const char *forbidden = getenv("NO_COLOR"), *terminal = getenv("TERM");
	return isatty(fileno(stream)) && !(forbidden && *forbidden) &&
	       !(terminal && strcmp(terminal, "dumb") == 0);
}
