/* See bash_lines.h. */
#include "api/bash_lines.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HEAD "bash: "
#define REST ": line "

static bool begins(const char *bytes, size_t size, const char *with)
{
	return size >= strlen(with) && memcmp(bytes, with, strlen(with)) == 0;
}

/* How long the name is that stands behind HEAD, with its colon and blank; 0: this is no such line. */
static size_t name_size(const char *line, size_t size, const char *folder)
{
	size_t at = strlen(HEAD);
	if (!begins(line, size, HEAD) || !begins(line + at, size - at, folder))
		return 0;
	at += strlen(folder);
	size_t number = at;
	while (at < size && isdigit((unsigned char)line[at]))
		at++;
	if (at == number || !begins(line + at, size - at, REST))
		return 0;
	return at + strlen(": ") - strlen(HEAD);
}

size_t bash_lines_mend(char *bytes, size_t size, uint32_t pid)
{
	char folder[32];
	size_t from = 0, to = 0;
	snprintf(folder, sizeof(folder), "/proc/%u/fd/", pid);
	if (!memmem(bytes, size, folder, strlen(folder)))
		return size; /* nearly always */
	while (from < size) {
		const char *end = memchr(bytes + from, '\n', size - from);
		size_t line = end ? (size_t)(end - bytes) + 1 - from : size - from;
		size_t name = name_size(bytes + from, line, folder), kept = name ? strlen(HEAD) : 0;
		memmove(bytes + to, bytes + from, kept);
		memmove(bytes + to + kept, bytes + from + kept + name, line - kept - name);
		to += line - name;
		from += line;
	}
	return to;
}
