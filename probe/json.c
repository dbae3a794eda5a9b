/* The JSON writer: just enough for flat reports, straight to stdout. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool needs_comma;

static void quoted(const char *bytes, size_t size)
{
	putchar('"');
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)bytes[i];
		if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte < 0x20 || byte >= 0x7f)
			printf("\\u%04x", byte);
		else
			putchar(byte);
	}
	putchar('"');
}

static void put_key(const char *key)
{
	if (needs_comma)
		putchar(',');
	needs_comma = true;
	if (!key)
		return;
	quoted(key, strlen(key));
	putchar(':');
}

void json_start(void)
{
	needs_comma = false;
}

void json_open(const char *key, char bracket)
{
	put_key(key);
	putchar(bracket);
	needs_comma = false;
}

void json_close(char bracket)
{
	putchar(bracket);
	needs_comma = true;
}

void json_bytes(const char *key, const char *bytes, size_t size)
{
	put_key(key);
	quoted(bytes, size);
}

void json_text(const char *key, const char *text)
{
	json_bytes(key, text, strlen(text));
}

void json_number(const char *key, int64_t number)
{
	put_key(key);
	printf("%jd", (intmax_t)number);
}

void json_format(const char *key, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	json_text(key, text);
}
