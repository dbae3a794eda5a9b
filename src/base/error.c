/*
 * The error value and its table. Messages are cut rather than grown: a text that does not fit ends
 * in "...", since the reader is better served by a cut sentence than by a second failure.
 */
#include "base/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *word;
	unsigned status;
} error_table[] = {
#define ERROR_ROW(name, word, status, meaning) { word, status },
	ERROR_TABLE(ERROR_ROW)
#undef ERROR_ROW
};
static_assert(ARRAY_SIZE(error_table) == ERROR_COUNT, "each code has one row");

static void format_into(char *text, size_t size, const char *format, va_list arguments)
{
	int n = vsnprintf(text, size, format, arguments);
	if (n >= 0 && (size_t)n >= size && size > 4)
		memcpy(text + size - 4, "...", 4);
}

bool error_set(struct error *err, enum error_code code, const char *format, ...)
{
	if (!err)
		return false;
	va_list arguments;
	va_start(arguments, format);
	*err = (struct error){ .code = code };
	format_into(err->message, sizeof(err->message), format, arguments);
	va_end(arguments);
	return false;
}

bool error_from_os(struct error *err, int os_error, const char *format, ...)
{
	if (!err)
		return false;
	va_list arguments;
	va_start(arguments, format);
	*err = (struct error){ .code = ERROR_INTERNAL, .os_error = os_error };
	format_into(err->message, sizeof(err->message), format, arguments);
	va_end(arguments);
	size_t used = strlen(err->message);
	snprintf(err->message + used, sizeof(err->message) - used, ": %s", strerror(os_error));
	return false;
}

bool error_hint(struct error *err, const char *format, ...)
{
	if (!err)
		return false;
	va_list arguments;
	va_start(arguments, format);
	format_into(err->hint, sizeof(err->hint), format, arguments);
	va_end(arguments);
	return false;
}

bool error_context(struct error *err, const char *format, ...)
{
	if (!err)
		return false;
	char old[sizeof(err->message)];
	memcpy(old, err->message, sizeof(old));
	va_list arguments;
	va_start(arguments, format);
	format_into(err->message, sizeof(err->message), format, arguments);
	va_end(arguments);
	size_t used = strlen(err->message);
	snprintf(err->message + used, sizeof(err->message) - used, ": %s", old);
	return false;
}

void *error_no_memory(struct error *err)
{
	error_set(err, ERROR_NO_MEMORY, "out of memory");
	return NULL;
}

const char *error_word(enum error_code code)
{
	return code < ERROR_COUNT ? error_table[code].word : "internal";
}

unsigned error_status(enum error_code code)
{
	return code < ERROR_COUNT ? error_table[code].status : 500;
}
