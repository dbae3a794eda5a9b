/*
 * See log.h. A line is built in one buffer and written with one write, so that lines of several
 * processes on the same stderr do not mix. Lines are bounded; what could repeat endlessly is held
 * back by a budget of lines a second, and the number of lines left out is said.
 */
#include "base/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 1024
#define LINES_A_SECOND 200

static struct {
	const char *process, *request;
	enum log_level least;
	int64_t second;
	unsigned lines_this_second, dropped;
} the_log = { .process = "sandglass", .least = LOG_INFO };

static const char *const level_names[] = { "debug", "info", "warning", "error" };

void log_init(const char *process, enum log_level least)
{
	the_log.process = process;
	the_log.least = least;
}

void log_set_request(const char *id)
{
	the_log.request = id;
}

const char *log_request(void)
{
	return the_log.request;
}

/* Appends text as the inside of a JSON string; control characters and non-ASCII are escaped. */
static size_t append_escaped(char *line, size_t used, size_t size, const char *text)
{
	for (; *text && used + 8 < size; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			used += (size_t)snprintf(line + used, size - used, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			used += (size_t)snprintf(line + used, size - used, "\\u%04x", c);
		else
			line[used++] = (char)c;
	}
	return used;
}

static size_t append_field(char *line, size_t used, const char *name, const char *value)
{
	if (used + 32 >= LINE_SIZE)
		return used;
	used += (size_t)snprintf(line + used, LINE_SIZE - used, ",\"%s\":\"", name);
	used = append_escaped(line, used, LINE_SIZE - 4, value);
	line[used++] = '"';
	return used;
}

static bool within_budget(void)
{
	int64_t second = clock_monotonic_ms() / 1000;
	if (second != the_log.second) {
		the_log.second = second;
		the_log.lines_this_second = 0;
	}
	if (the_log.lines_this_second++ < LINES_A_SECOND)
		return true;
	the_log.dropped++;
	return false;
}

static void write_line(
	enum log_level level, const char *event, const char *sandbox, const char *message)
{
	char line[LINE_SIZE], time_text[CLOCK_TEXT_SIZE];
	clock_text(clock_wall_ms(), time_text);
	size_t used = (size_t)snprintf(line, sizeof(line),
		"{\"time\":\"%s\",\"level\":\"%s\",\"process\":\"%s\"", time_text,
		level_names[level], the_log.process);
	used = append_field(line, used, "event", event);
	if (sandbox)
		used = append_field(line, used, "sandbox", sandbox);
	if (the_log.request)
		used = append_field(line, used, "request", the_log.request);
	used = append_field(line, used, "message", message);
	memcpy(line + used, "}\n", 2);
	ssize_t ignored = write(STDERR_FILENO, line, used + 2);
	(void)ignored;
}

void log_write(
	enum log_level level, const char *event, const char *sandbox, const char *format, ...)
{
	if (level < the_log.least || !within_budget())
		return;
	char message[640];
	if (the_log.dropped) {
		snprintf(message, sizeof(message), "%u lines were left out", the_log.dropped);
		the_log.dropped = 0;
		write_line(LOG_WARNING, "log.dropped", NULL, message);
	}
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	write_line(level, event, sandbox, message);
}

void log_error(const char *event, const char *sandbox, const struct error *err)
{
	if (err->hint[0])
		log_write(LOG_ERROR, event, sandbox, "%s (%s)", err->message, err->hint);
	else
		log_write(LOG_ERROR, event, sandbox, "%s", err->message);
}
