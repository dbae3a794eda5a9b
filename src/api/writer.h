/*
 * Writes JSON text: objects and arrays item by item, into one buffer. Strings may be any bytes:
 * what is no UTF-8 comes out as U+FFFD. After a failure (memory, limit) all calls do nothing, and
 * is_failed says so: check it once, at the end.
 *
 * `key` is the name inside an object, NULL inside an array and for the outermost value.
 */
#ifndef API_WRITER_H
#define API_WRITER_H

#include "api/utf8.h"
#include "base/buf.h"

#include <stdint.h>

#define WRITER_LIMIT ((size_t)96 << 20)

struct writer {
	struct buf buf; /* owned */
	bool is_ascii;  /* all beyond ASCII is written as \uXXXX */
	bool needs_comma;
	bool is_failed;
};

static inline struct writer writer_make(void)
{
	return (struct writer){ .buf = buf_make(WRITER_LIMIT) };
}
void writer_deinit(struct writer *writer);
#define cleanup_writer __attribute__((cleanup(writer_deinit)))

void writer_open(struct writer *writer, const char *key, char bracket); /* '{' or '[' */
void writer_close(struct writer *writer, char bracket);                 /* '}' or ']' */
void writer_text(struct writer *writer, const char *key, const char *text);
void writer_bytes(struct writer *writer, const char *key, const char *bytes, size_t size);
void writer_int(struct writer *writer, const char *key, int64_t value);
void writer_bool(struct writer *writer, const char *key, bool value);
void writer_raw(struct writer *writer, const char *key, const char *json); /* JSON as it is */
/* The same; in an ASCII writer what is beyond ASCII is escaped. */
void writer_raw_bytes(struct writer *writer, const char *key, const char *json, size_t size);

/* A string in parts, whose characters may be cut between them: begin, chars ..., end. */
void writer_string_begin(struct writer *writer, const char *key);
void writer_chars(struct writer *writer, struct utf8 *state, const char *bytes, size_t size);
void writer_string_end(struct writer *writer, struct utf8 *state);
/* Ends the string where a character may be half read: the rest of it comes with the next string. */
void writer_string_cut(struct writer *writer);
/* A string with what has come of a stream, to be cut so; false where that is only the beginning of
 * a character, and there is nothing to say yet. */
bool writer_part(
	struct writer *writer, const char *key, struct utf8 *state, const char *bytes, size_t size);

#endif
