/* See writer.h. Plain runs of ASCII are copied whole; only the rest goes through the decoder. */
#include "api/writer.h"

#include <stdio.h>
#include <string.h>

void writer_deinit(struct writer *writer)
{
	buf_deinit(&writer->buf);
}

static void put(struct writer *writer, const char *bytes, size_t size)
{
	if (!writer->is_failed && !buf_append(&writer->buf, bytes, size))
		writer->is_failed = true;
}

/* What stands before a value: a comma, and the key (ours, hence plain) where there is one. */
static void begin_value(struct writer *writer, const char *key)
{
	if (writer->needs_comma)
		put(writer, ",", 1);
	writer->needs_comma = true;
	if (!key)
		return;
	struct utf8 state = { 0 };
	put(writer, "\"", 1);
	writer_chars(writer, &state, key, strlen(key));
	put(writer, "\":", 2);
}

void writer_open(struct writer *writer, const char *key, char bracket)
{
	begin_value(writer, key);
	put(writer, &bracket, 1);
	writer->needs_comma = false;
}

void writer_close(struct writer *writer, char bracket)
{
	put(writer, &bracket, 1);
	writer->needs_comma = true;
}

void writer_bytes(struct writer *writer, const char *key, const char *bytes, size_t size)
{
	struct utf8 state = { 0 };
	writer_string_begin(writer, key);
	writer_chars(writer, &state, bytes, size);
	writer_string_end(writer, &state);
}

void writer_text(struct writer *writer, const char *key, const char *text)
{
	writer_bytes(writer, key, text, strlen(text));
}

void writer_int(struct writer *writer, const char *key, int64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "%lld", (long long)value);
	writer_raw(writer, key, text);
}

void writer_bool(struct writer *writer, const char *key, bool value)
{
	writer_raw(writer, key, value ? "true" : "false");
}

void writer_raw(struct writer *writer, const char *key, const char *json)
{
	writer_raw_bytes(writer, key, json, strlen(json));
}

void writer_string_begin(struct writer *writer, const char *key)
{
	begin_value(writer, key);
	put(writer, "\"", 1);
}

static void put_escape(struct writer *writer, uint32_t unit)
{
	char text[8];
	put(writer, text, (size_t)snprintf(text, sizeof(text), "\\u%04x", (unsigned)unit));
}

static void put_beyond_ascii(struct writer *writer, uint32_t character)
{
	char bytes[4];
	if (!writer->is_ascii)
		return put(writer, bytes, utf8_encode(character, bytes));
	if (character < 0x10000)
		return put_escape(writer, character);
	put_escape(writer, 0xd800 + ((character - 0x10000) >> 10));
	put_escape(writer, 0xdc00 + ((character - 0x10000) & 0x3ff));
}

static void put_character(struct writer *writer, uint32_t character)
{
	switch (character) {
	case '"':
		return put(writer, "\\\"", 2);
	case '\\':
		return put(writer, "\\\\", 2);
	case '\n':
		return put(writer, "\\n", 2);
	case '\t':
		return put(writer, "\\t", 2);
	case '\r':
		return put(writer, "\\r", 2);
	}
	if (character < 0x20)
		return put_escape(writer, character);
	if (character >= 0x80)
		return put_beyond_ascii(writer, character);
	char plain = (char)character;
	put(writer, &plain, 1);
}

/* Beyond ASCII there are only characters of strings, which may be written in either way. */
static void put_json_as_ascii(struct writer *writer, const char *json, size_t size)
{
	struct utf8 state = { 0 };
	for (size_t at = 0; at < size && !writer->is_failed;) {
		size_t plain = at;
		while (state.left == 0 && plain < size && (uint8_t)json[plain] < 0x80)
			plain++;
		put(writer, json + at, plain - at);
		at = plain;
		uint32_t character;
		if (at == size)
			return;
		enum utf8_step step = utf8_step(&state, (uint8_t)json[at], &character);
		if (step != UTF8_BAD_AGAIN)
			at++;
		if (step != UTF8_MORE)
			put_beyond_ascii(writer, character);
	}
}

void writer_raw_bytes(struct writer *writer, const char *key, const char *json, size_t size)
{
	begin_value(writer, key);
	if (writer->is_ascii)
		put_json_as_ascii(writer, json, size);
	else
		put(writer, json, size);
}

static size_t plain_run(const char *bytes, size_t size)
{
	size_t n = 0;
	while (n < size && bytes[n] >= 0x20 && bytes[n] < 0x7f && bytes[n] != '"' &&
		bytes[n] != '\\')
		n++;
	return n;
}

void writer_chars(struct writer *writer, struct utf8 *state, const char *bytes, size_t size)
{
	for (size_t at = 0; at < size && !writer->is_failed;) {
		if (state->left == 0) {
			size_t run = plain_run(bytes + at, size - at);
			put(writer, bytes + at, run);
			at += run;
			if (at == size)
				return;
		}
		uint32_t character;
		enum utf8_step step = utf8_step(state, (uint8_t)bytes[at], &character);
		if (step != UTF8_BAD_AGAIN)
			at++;
		if (step != UTF8_MORE)
			put_character(writer, character);
	}
}

void writer_string_end(struct writer *writer, struct utf8 *state)
{
	if (state->left > 0)
		put_character(writer, UTF8_REPLACEMENT);
	*state = (struct utf8){ 0 };
	writer_string_cut(writer);
}

void writer_string_cut(struct writer *writer)
{
	put(writer, "\"", 1);
}

bool writer_part(
	struct writer *writer, const char *key, struct utf8 *state, const char *bytes, size_t size)
{
	writer_string_begin(writer, key);
	size_t empty = writer->buf.size;
	writer_chars(writer, state, bytes, size);
	bool has_some = writer->buf.size > empty;
	writer_string_cut(writer);
	return has_some;
}
