/* The body of an HTTP/1.1 answer, taken out of its framing piece by piece, without copying. */
#ifndef HTTP_ANSWER_BODY_H
#define HTTP_ANSWER_BODY_H

#include "http/answer_head.h"

enum answer_body_state {
	ANSWER_BODY_DATA,
	ANSWER_BODY_SIZE,      /* of a chunk, in hex digits */
	ANSWER_BODY_EXTENSION, /* what follows the size, dropped */
	ANSWER_BODY_DATA_END,
	ANSWER_BODY_TRAILER, /* dropped */
	ANSWER_BODY_DONE,
};

struct answer_body {
	enum answer_framing framing;
	enum answer_body_state state;
	uint64_t left;      /* bytes of the body, or of the chunk */
	size_t overhead;    /* bytes of the line, or of the trailer, so far */
	bool has_digit;     /* of a chunk's size */
	bool is_line_empty; /* of the trailer */
};

void answer_body_init(struct answer_body *body, const struct answer_head *head, bool has_body);
/* Looks at the next bytes, at least one: `*ret_used` are done with; if `*ret_size` is not 0, so
 * many bytes of the body lie at `*ret_bytes`. False: malformed. Call until all is used or the state
 * is DONE. */
bool answer_body_next(struct answer_body *body, const char *bytes, size_t size, size_t *ret_used,
	const char **ret_bytes, size_t *ret_size);
/* Whether it is whole if nothing more comes. */
bool answer_body_is_whole(const struct answer_body *body);

#endif
