/*
 * The head of an HTTP/1.1 answer, as a client reads it: status, headers, and how the body is
 * framed. Who sent it may be hostile. Whatever could be read in two ways is refused: control
 * characters, folded lines, a name with white space, two lengths, a length beside a transfer
 * coding, a coding but `chunked`. A lone line feed ends a line: what is sent on is written anew, so
 * nobody else reads it.
 */
#ifndef HTTP_ANSWER_HEAD_H
#define HTTP_ANSWER_HEAD_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define ANSWER_HEAD_LIMIT ((size_t)32 << 10) /* bytes, with the empty line */
#define ANSWER_HEADERS 256

struct answer_header {
	const char *name,
		*value; /* in the parsed bytes; no control character but tabs in the value */
};

enum answer_framing { ANSWER_UNTIL_CLOSE, ANSWER_SIZED, ANSWER_CHUNKED };

struct answer_head {
	unsigned status; /* 100 to 599 */
	struct answer_header headers[ANSWER_HEADERS];
	unsigned header_count;
	enum answer_framing framing; /* as stated; 1xx, 204, 304 and answers to HEAD have no body */
	uint64_t size;               /* of ANSWER_SIZED */
};

/* Bytes of the head that begins at `bytes`, 0 while its end is missing. `*scanned` is 0 at first
 * and remembers how far was looked. False and err: it is none, or too large. */
bool answer_head_find(
	const char *bytes, size_t size, size_t *scanned, size_t *ret_size, struct error *err);
/* Parses a whole one in place: puts NULs into it. */
bool answer_head_parse(struct answer_head *head, char *bytes, size_t size, struct error *err);
/* The first of that name; NULL. */
const char *answer_head_get(const struct answer_head *head, const char *name);

#endif
