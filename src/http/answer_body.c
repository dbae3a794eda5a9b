/* See answer_body.h. Lines of a chunk's head are at most LINE_LIMIT, all of a trailer
 * TRAILER_LIMIT. */
#include "http/answer_body.h"

#include "base/id.h"

#define LINE_LIMIT ((size_t)4096)
#define TRAILER_LIMIT ((size_t)16384)
#define MOST_DIGITS_LEFT (UINT64_MAX >> 8) /* a size that still takes a digit */

void answer_body_init(struct answer_body *body, const struct answer_head *head, bool has_body)
{
	*body = (struct answer_body){ .framing = head->framing, .left = head->size };
	if (!has_body || (head->framing == ANSWER_SIZED && head->size == 0))
		body->state = ANSWER_BODY_DONE;
	else if (head->framing == ANSWER_CHUNKED)
		body->state = ANSWER_BODY_SIZE;
}

/* The line of a chunk's size is over. */
static bool end_size(struct answer_body *body)
{
	if (!body->has_digit)
		return false;
	body->state = body->left > 0 ? ANSWER_BODY_DATA : ANSWER_BODY_TRAILER;
	body->is_line_empty = true;
	body->overhead = 0;
	body->has_digit = false;
	return true;
}

static bool take_size(struct answer_body *body, char c)
{
	int digit = hex_digit(c);
	if (++body->overhead > LINE_LIMIT)
		return false;
	if (digit >= 0) {
		if (body->left > MOST_DIGITS_LEFT)
			return false;
		body->left = body->left * 16 + (uint64_t)digit;
		body->has_digit = true;
		return true;
	}
	if (c == '\n')
		return end_size(body);
	if (c != ';' && c != ' ' && c != '\t' && c != '\r')
		return false;
	body->state = ANSWER_BODY_EXTENSION;
	return body->has_digit;
}

static bool take_trailer(struct answer_body *body, char c)
{
	if (++body->overhead > TRAILER_LIMIT)
		return false;
	if (c == '\n' && body->is_line_empty)
		body->state = ANSWER_BODY_DONE;
	else if (c != '\r')
		body->is_line_empty = c == '\n';
	return true;
}

/* One byte of what is no data. */
static bool take_framing(struct answer_body *body, char c)
{
	switch (body->state) {
	case ANSWER_BODY_SIZE:
		return take_size(body, c);
	case ANSWER_BODY_EXTENSION:
		return ++body->overhead <= LINE_LIMIT && (c != '\n' || end_size(body));
	case ANSWER_BODY_DATA_END:
		if (c == '\n')
			body->state = ANSWER_BODY_SIZE;
		return c == '\n' || (c == '\r' && body->overhead++ == 0);
	default:
		return take_trailer(body, c);
	}
}

static size_t take_data(struct answer_body *body, size_t size)
{
	if (body->framing == ANSWER_UNTIL_CLOSE)
		return size;
	size = (size_t)MIN((uint64_t)size, body->left);
	body->left -= size;
	if (body->left == 0) {
		body->state =
			body->framing == ANSWER_SIZED ? ANSWER_BODY_DONE : ANSWER_BODY_DATA_END;
		body->overhead = 0;
	}
	return size;
}

bool answer_body_next(struct answer_body *body, const char *bytes, size_t size, size_t *ret_used,
	const char **ret_bytes, size_t *ret_size)
{
	size_t used = 0;
	*ret_size = 0;
	while (used < size && body->state != ANSWER_BODY_DATA && body->state != ANSWER_BODY_DONE)
		if (!take_framing(body, bytes[used++]))
			return false;
	if (body->state == ANSWER_BODY_DATA && used < size) {
		*ret_bytes = bytes + used;
		*ret_size = take_data(body, size - used);
	}
	*ret_used = used + *ret_size;
	return true;
}

bool answer_body_is_whole(const struct answer_body *body)
{
	return body->state == ANSWER_BODY_DONE || body->framing == ANSWER_UNTIL_CLOSE;
}
