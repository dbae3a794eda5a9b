/* Heads and bodies of answers from servers that may be hostile. */
#include "http/answer_body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants those first */
#include <cmocka.h>

static struct answer_head head;
static char text[ANSWER_HEAD_LIMIT + 1024];
static struct error err;

static bool parse(const char *given)
{
	size_t scanned = 0, size = 0;
	err = (struct error){ 0 };
	memcpy(text, given, strlen(given) + 1);
	if (!answer_head_find(text, strlen(text), &scanned, &size, &err))
		return false;
	assert_int_equal(size, strlen(text));
	return answer_head_parse(&head, text, size, &err);
}

static void an_ordinary_head_is_read(void **state)
{
	assert_true(parse("HTTP/1.1 200 OK\r\nContent-Type: text/plain \r\nX-Empty:\r\n"
			  "content-length: 12\r\n\r\n"));
	assert_int_equal(head.status, 200);
	assert_int_equal(head.header_count, 3);
	assert_string_equal(answer_head_get(&head, "content-TYPE"), "text/plain");
	assert_string_equal(answer_head_get(&head, "X-Empty"), "");
	assert_null(answer_head_get(&head, "X"));
	assert_int_equal(head.framing, ANSWER_SIZED);
	assert_int_equal(head.size, 12);
}

static void the_framing_is_told(void **state)
{
	assert_true(parse("HTTP/1.0 404 \n\n"));
	assert_int_equal(head.framing, ANSWER_UNTIL_CLOSE);
	assert_true(parse("HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n"));
	assert_int_equal(head.framing, ANSWER_CHUNKED);
}

static void what_can_be_read_in_two_ways_is_refused(void **state)
{
	static const char *const heads[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0x10\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: a\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\x01\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\x7f\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.2 200 OK\r\n\r\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		assert_false(parse(heads[i]));
		assert_int_equal(err.code, ERROR_UPSTREAM);
	}
}

static void a_nul_is_refused(void **state)
{
	char bytes[] = "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n";
	assert_false(answer_head_parse(&head, bytes, sizeof(bytes) - 1, &err));
}

static void the_end_is_found_wherever_it_is_cut(void **state)
{
	static const char given[] = "HTTP/1.1 200 OK\r\nX: a\r\n\r\nbody";
	size_t scanned = 0, size = 0;
	for (size_t seen = 1; size == 0; seen++)
		assert_true(answer_head_find(given, seen, &scanned, &size, &err));
	assert_int_equal(size, sizeof(given) - 1 - 4);
}

static void what_is_no_http_is_noticed_at_once(void **state)
{
	size_t scanned = 0, size = 0;
	assert_false(answer_head_find("SSH-2.0", 7, &scanned, &size, &err));
	assert_true(answer_head_find("HTT", 3, &scanned, &size, &err));
	assert_false(answer_head_find("HTTP/2", 6, &scanned, &size, &err));
}

static void a_head_without_end_is_bounded(void **state)
{
	size_t scanned = 0, size = 0;
	memset(text, 'a', sizeof(text));
	memcpy(text, "HTTP/1.1 200 OK\r\nX:", 19);
	assert_true(answer_head_find(text, ANSWER_HEAD_LIMIT - 1, &scanned, &size, &err));
	assert_false(answer_head_find(text, ANSWER_HEAD_LIMIT, &scanned, &size, &err));
	assert_int_equal(err.code, ERROR_UPSTREAM);
}

static void headers_are_counted(void **state)
{
	size_t at = (size_t)sprintf(text, "HTTP/1.1 200 OK\r\n");
	for (unsigned i = 0; i <= ANSWER_HEADERS; i++)
		at += (size_t)sprintf(text + at, "X: %u\r\n", i);
	at += (size_t)sprintf(text + at, "\r\n");
	assert_false(answer_head_parse(&head, text, at, &err));
}

/* ---- bodies ---- */

/* The decoded text, or NULL; `*ret_is_whole` as it stands at the end. */
static const char *decode(enum answer_framing framing, uint64_t size, const char *given,
	size_t piece, bool *ret_is_whole)
{
	static char out[1024];
	struct answer_body body;
	size_t given_size = strlen(given), out_size = 0;
	const struct answer_head stated = { .framing = framing, .size = size };
	answer_body_init(&body, &stated, true);
	for (size_t at = 0; at < given_size && body.state != ANSWER_BODY_DONE;) {
		size_t used, got_size;
		const char *got;
		if (!answer_body_next(
			    &body, given + at, MIN(piece, given_size - at), &used, &got, &got_size))
			return NULL;
		memcpy(out + out_size, got_size ? got : "", got_size);
		out_size += got_size;
		at += used;
	}
	*ret_is_whole = answer_body_is_whole(&body);
	out[out_size] = '\0';
	return out;
}

static void bodies_come_out_of_their_framing(void **state)
{
	static const char chunks[] =
		"3\r\nabc\r\nA ; name=value\r\n0123456789\r\n000\r\nTrailer: x\r\n\r\n";
	bool is_whole;
	for (size_t piece = 1; piece < 20; piece++) {
		assert_string_equal(
			decode(ANSWER_CHUNKED, 0, chunks, piece, &is_whole), "abc0123456789");
		assert_true(is_whole);
		assert_string_equal(decode(ANSWER_SIZED, 4, "abcdef", piece, &is_whole), "abcd");
		assert_true(is_whole);
		assert_string_equal(
			decode(ANSWER_UNTIL_CLOSE, 0, "abcdef", piece, &is_whole), "abcdef");
		assert_true(is_whole);
	}
}

static void a_body_that_is_cut_is_not_whole(void **state)
{
	static const char *const cut[] = { "", "5", "5\r\n", "5\r\nhell", "5\r\nhello",
		"5\r\nhello\r\n", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n",
		"5\r\nhello\r\n0\r\nX: y\r\n" };
	bool is_whole;
	for (size_t i = 0; i < ARRAY_SIZE(cut); i++) {
		assert_non_null(decode(ANSWER_CHUNKED, 0, cut[i], 7, &is_whole));
		assert_false(is_whole);
	}
	decode(ANSWER_SIZED, 4, "abc", 7, &is_whole);
	assert_false(is_whole);
}

static void malformed_chunks_are_refused(void **state)
{
	static const char *const chunks[] = { "x\r\n", "\r\n", ";x\r\n", "-1\r\n", "0x5\r\n",
		"5\r\nhelloX", "5\r\nhello\r\r\n", "11111111111111111\r\n", " 5\r\n" };
	bool is_whole;
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++)
		assert_null(decode(ANSWER_CHUNKED, 0, chunks[i], 3, &is_whole));
}

static void extensions_and_trailers_are_bounded(void **state)
{
	bool is_whole;
	memset(text, 'a', 20000);
	memcpy(text, "5;", 2);
	text[20000] = '\0';
	assert_null(decode(ANSWER_CHUNKED, 0, text, 100, &is_whole));
	memcpy(text, "0\r\n", 3);
	assert_null(decode(ANSWER_CHUNKED, 0, text, 100, &is_whole));
	memset(text, '0', 20000);
	assert_null(decode(ANSWER_CHUNKED, 0, text, 100, &is_whole));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_head_is_read),
		cmocka_unit_test(the_framing_is_told),
		cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
		cmocka_unit_test(a_nul_is_refused),
		cmocka_unit_test(the_end_is_found_wherever_it_is_cut),
		cmocka_unit_test(what_is_no_http_is_noticed_at_once),
		cmocka_unit_test(a_head_without_end_is_bounded),
		cmocka_unit_test(headers_are_counted),
		cmocka_unit_test(bodies_come_out_of_their_framing),
		cmocka_unit_test(a_body_that_is_cut_is_not_whole),
		cmocka_unit_test(malformed_chunks_are_refused),
		cmocka_unit_test(extensions_and_trailers_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
