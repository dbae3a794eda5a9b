/* See target.h. */
#include "http/target.h"

#include "base/id.h"

#include <string.h>

/* The byte that the three characters after and with '%' stand for, or -1. */
static int escaped_byte(const char *text, size_t size)
{
	int high = size > 2 ? hex_digit(text[1]) : -1;
	int low = high >= 0 ? hex_digit(text[2]) : -1;
	return low >= 0 ? high * 16 + low : -1;
}

/* Undoes the encoding into `to`, which has room for size + 1 bytes, and puts a NUL behind.
 * Returns the decoded size, or -1 where the encoding is broken. */
static ssize_t decode(const char *text, size_t size, bool is_form, char *to)
{
	char *end = to;
	for (size_t i = 0; i < size; i++) {
		int byte = (unsigned char)text[i];
		if (byte < ' ' || byte == 0x7f)
			return -1;
		if (byte == '%') {
			byte = escaped_byte(text + i, size - i);
			if (byte < 0)
				return -1;
			i += 2;
		} else if (is_form && byte == '+') {
			byte = ' ';
		}
		*end++ = (char)byte;
	}
	*end = '\0';
	return end - to;
}

static unsigned count(const char *text, size_t size, char byte)
{
	unsigned n = 0;
	for (size_t i = 0; i < size; i++)
		n += text[i] == byte;
	return n;
}

/* A piece's size up to the separator. */
static size_t piece(const char *text, const char *end, char separator)
{
	const char *found = memchr(text, separator, (size_t)(end - text));
	return (size_t)((found ? found : end) - text);
}

static bool parse_segments(
	struct target *target, struct arena *arena, const char *raw, size_t size, struct error *err)
{
	char *room = arena_alloc(arena, size + 1);
	target->segments = arena_alloc(arena, (count(raw, size, '/') + 1) * sizeof(char *));
	if (!room || !target->segments)
		return error_no_memory(err);
	const char *end = raw + size;
	for (const char *at = raw + 1; size > 1 && at <= end;) {
		size_t length = piece(at, end, '/');
		ssize_t decoded = decode(at, length, false, room);
		if (decoded < 0)
			return error_set(err, ERROR_INVALID, "the path's encoding is broken");
		if (strlen(room) != (size_t)decoded)
			return error_set(err, ERROR_INVALID, "the path has a NUL");
		target->segments[target->segment_count++] = room;
		room += decoded + 1;
		at += length + 1;
	}
	return true;
}

static bool parse_parameter(struct target_parameter *parameter, const char *text, size_t size,
	char *room, struct error *err)
{
	size_t name_size = piece(text, text + size, '=');
	ssize_t decoded = decode(text, name_size, true, room);
	ssize_t value_decoded = 0;
	char *value = room + name_size + 1;
	if (name_size < size)
		value_decoded = decode(text + name_size + 1, size - name_size - 1, true, value);
	else
		*value = '\0';
	if (decoded < 0 || value_decoded < 0)
		return error_set(err, ERROR_INVALID, "the query's encoding is broken");
	*parameter =
		(struct target_parameter){ room, value, (size_t)decoded, (size_t)value_decoded };
	return true;
}

static bool parse_query(
	struct target *target, struct arena *arena, const char *raw, struct error *err)
{
	size_t size = strlen(raw);
	unsigned most = count(raw, size, '&') + 1;
	char *room = arena_alloc(arena, size + 2 * (size_t)most);
	target->parameters = arena_alloc(arena, most * sizeof(*target->parameters));
	if (!room || !target->parameters)
		return error_no_memory(err);
	const char *end = raw + size;
	for (const char *at = raw; at < end;) {
		size_t length = piece(at, end, '&');
		struct target_parameter *parameter = &target->parameters[target->parameter_count];
		if (length > 0) {
			if (!parse_parameter(parameter, at, length, room, err))
				return false;
			target->parameter_count++;
			room += length + 2;
		}
		at += length + 1;
	}
	return true;
}

bool target_parse(struct target *target, struct arena *arena, const char *raw, struct error *err)
{
	*target = (struct target){ 0 };
	if (raw[0] != '/')
		return error_set(err, ERROR_INVALID, "the request's target is not a path");
	size_t size = strcspn(raw, "?");
	char *path = arena_alloc(arena, size + 1);
	if (!path)
		return error_no_memory(err);
	if (!parse_segments(target, arena, raw, size, err))
		return false;
	decode(raw, size, false, path);
	target->path = path;
	return raw[size] == '\0' || parse_query(target, arena, raw + size + 1, err);
}
