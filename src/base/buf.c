/* See buf.h. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_deinit(struct buf *buf)
{
	free(buf->bytes);
	*buf = (struct buf){ .limit = buf->limit };
}

char *buf_reserve(struct buf *buf, size_t size)
{
	assert(buf->size <= buf->limit);
	if (size > buf->limit - buf->size)
		return NULL;
	size_t needed = buf->size + size + 1; /* one more for a NUL */
	if (needed > buf->capacity) {
		size_t capacity = MAX(buf->capacity * 2, (size_t)256);
		if (capacity < needed)
			capacity = needed;
		char *bytes = realloc(buf->bytes, capacity);
		if (!bytes)
			return NULL;
		buf->bytes = bytes;
		buf->capacity = capacity;
	}
	return buf->bytes + buf->size;
}

bool buf_append(struct buf *buf, const void *bytes, size_t size)
{
	if (size == 0)
		return true;
	char *room = buf_reserve(buf, size);
	if (!room)
		return false;
	memcpy(room, bytes, size);
	buf->size += size;
	return true;
}

bool buf_append_text(struct buf *buf, const char *text)
{
	return buf_append(buf, text, strlen(text));
}

bool buf_printf(struct buf *buf, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	char *room = n < 0 ? NULL : buf_reserve(buf, (size_t)n);
	if (!room)
		return false;
	va_start(arguments, format);
	vsnprintf(room, (size_t)n + 1, format, arguments);
	va_end(arguments);
	buf->size += (size_t)n;
	return true;
}

void buf_consume(struct buf *buf, size_t size)
{
	assert(size <= buf->size);
	memmove(buf->bytes, buf->bytes + size, buf->size - size);
	buf->size -= size;
}

const char *buf_text(struct buf *buf)
{
	if (!buf->bytes)
		return "";
	buf->bytes[buf->size] = '\0';
	return buf->bytes;
}
