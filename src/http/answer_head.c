/* See answer_head.h. */
#include "http/answer_head.h"

#include <string.h>
#include <strings.h>

static bool bad(struct error *err, const char *what)
{
	return error_set(err, ERROR_UPSTREAM, "the server inside does not speak HTTP: %s", what);
}

/* ---- the end ---- */

static bool begins_like_one(const char *bytes, size_t size)
{
	static const char start[] = "HTTP/1.";
	return memcmp(bytes, start, MIN(size, sizeof(start) - 1)) == 0;
}

bool answer_head_find(
	const char *bytes, size_t size, size_t *scanned, size_t *ret_size, struct error *err)
{
	*ret_size = 0;
	if (!begins_like_one(bytes, size))
		return bad(err, "its answer does not begin with 'HTTP/1.'");
	size_t looked_at = MIN(size, ANSWER_HEAD_LIMIT);
	for (size_t i = *scanned; i < looked_at; i++) {
		if (bytes[i] != '\n' || i == 0)
			continue;
		bool is_empty = bytes[i - 1] == '\n' ||
				(i > 1 && bytes[i - 1] == '\r' && bytes[i - 2] == '\n');
		if (is_empty) {
			*ret_size = i + 1;
			return true;
		}
	}
	*scanned = looked_at;
	if (size >= ANSWER_HEAD_LIMIT)
		return bad(err, "the head of its answer is larger than 32 KiB");
	return true;
}

/* ---- lines ---- */

static bool is_token(const char *text)
{
	static const char alphabet[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	return *text && text[strspn(text, alphabet)] == '\0';
}

/* Cuts the line at `at` off, without its end; NULL where it has a character that it may not have.
 */
static char *next_line(char *at, char *end, char **ret_line)
{
	char *feed = memchr(at, '\n', (size_t)(end - at));
	if (!feed)
		return NULL;
	char *line_end = feed > at && feed[-1] == '\r' ? feed - 1 : feed;
	for (char *c = at; c < line_end; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
			return NULL;
	*line_end = '\0';
	*ret_line = at;
	return feed + 1;
}

static bool read_status(struct answer_head *head, const char *line)
{
	const char *digits = line + strlen("HTTP/1.1 ");
	if (strncmp(line, "HTTP/1.1 ", 9) != 0 && strncmp(line, "HTTP/1.0 ", 9) != 0)
		return false;
	if (strspn(digits, "0123456789") != 3 || (digits[3] != '\0' && digits[3] != ' '))
		return false;
	head->status = (unsigned)strtoul(digits, NULL, 10);
	return head->status >= 100 && head->status <= 599;
}

static bool read_header(struct answer_head *head, char *line)
{
	char *colon = strchr(line, ':');
	if (!colon || head->header_count == ANSWER_HEADERS)
		return false;
	*colon = '\0';
	char *value = colon + 1 + strspn(colon + 1, " \t");
	size_t size = strlen(value);
	while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t'))
		value[--size] = '\0';
	head->headers[head->header_count++] = (struct answer_header){ line, value };
	return is_token(line);
}

/* ---- framing ---- */

static bool read_length(struct answer_head *head, const char *value)
{
	size_t digits = strspn(value, "0123456789");
	if (digits == 0 || digits > 18 || value[digits] != '\0')
		return false;
	head->framing = ANSWER_SIZED;
	head->size = strtoull(value, NULL, 10);
	return true;
}

static bool read_framing(struct answer_head *head, struct error *err)
{
	unsigned lengths = 0, codings = 0;
	for (unsigned i = 0; i < head->header_count; i++) {
		const struct answer_header *header = &head->headers[i];
		if (strcasecmp(header->name, "Content-Length") == 0) {
			lengths++;
			if (!read_length(head, header->value))
				return bad(err, "its 'Content-Length' is no number");
		} else if (strcasecmp(header->name, "Transfer-Encoding") == 0) {
			codings++;
			head->framing = ANSWER_CHUNKED;
			if (strcasecmp(header->value, "chunked") != 0)
				return bad(err, "its 'Transfer-Encoding' is not 'chunked'");
		}
	}
	return lengths + codings <= 1 ||
	       bad(err, "the length of its answer is stated more than once");
}

bool answer_head_parse(struct answer_head *head, char *bytes, size_t size, struct error *err)
{
	char *end = bytes + size, *line = NULL;
	head->header_count = 0;
	head->framing = ANSWER_UNTIL_CLOSE;
	head->size = 0;
	char *at = next_line(bytes, end, &line);
	if (!at || !read_status(head, line))
		return bad(err, "the first line of its answer is malformed");
	for (;;) {
		at = next_line(at, end, &line);
		if (!at)
			return bad(err, "a header has characters that it may not have");
		if (*line == '\0')
			return read_framing(head, err);
		if (!read_header(head, line))
			return bad(err, "a header is malformed, or there are too many");
	}
}

const char *answer_head_get(const struct answer_head *head, const char *name)
{
	for (unsigned i = 0; i < head->header_count; i++)
		if (strcasecmp(head->headers[i].name, name) == 0)
			return head->headers[i].value;
	return NULL;
}
