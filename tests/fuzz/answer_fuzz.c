/*
 * What a server inside answers: its head, then its body, in pieces. The first byte says how large
 * the pieces are. What is accepted can be written into another head as it is, and the body does not
 * depend on how it was cut.
 */
#include "http/answer_body.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_text(const char *text)
{
	for (; *text; text++)
		assert((unsigned char)*text >= ' ' || *text == '\t');
}

/* Bytes of body, and their sum as a fingerprint; -1: malformed. */
static int64_t decode(const struct answer_head *head, const char *bytes, size_t size, size_t piece)
{
	struct answer_body body;
	uint64_t sum = 0, total = 0;
	answer_body_init(&body, head, true);
	for (size_t at = 0; at < size && body.state != ANSWER_BODY_DONE;) {
		size_t used, out_size;
		const char *out;
		if (!answer_body_next(
			    &body, bytes + at, MIN(piece, size - at), &used, &out, &out_size))
			return -1;
		assert(used > 0 && used <= MIN(piece, size - at) && out_size <= used);
		for (size_t i = 0; i < out_size; i++)
			sum = sum * 31 + (unsigned char)out[i];
		total += out_size;
		at += used;
	}
	assert(head->framing != ANSWER_SIZED || total <= head->size);
	return (int64_t)((sum << 20 ^ total) & INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct answer_head head;
	struct error err = { 0 };
	size_t scanned = 0, head_size = 0;
	if (size == 0)
		return 0;
	size_t piece = bytes[0] + 1u, text_size = size - 1;
	char *text = malloc(text_size + 1);
	memcpy(text, bytes + 1, text_size);
	bool is_good = true;
	for (size_t seen = MIN(piece, text_size); is_good && head_size == 0; seen += piece) {
		is_good = answer_head_find(text, MIN(seen, text_size), &scanned, &head_size, &err);
		if (seen >= text_size)
			break;
	}
	assert(head_size <= ANSWER_HEAD_LIMIT && head_size <= text_size);
	if (is_good && head_size > 0 && answer_head_parse(&head, text, head_size, &err)) {
		for (unsigned i = 0; i < head.header_count; i++) {
			check_text(head.headers[i].name);
			check_text(head.headers[i].value);
			assert(head.headers[i].name[0] && !strchr(head.headers[i].name, ':'));
		}
		int64_t whole = decode(&head, text + head_size, text_size - head_size, text_size);
		assert(whole == decode(&head, text + head_size, text_size - head_size, piece));
	} else if (!is_good) {
		assert(err.code == ERROR_UPSTREAM && err.message[0]);
	}
	free(text);
	return 0;
}
