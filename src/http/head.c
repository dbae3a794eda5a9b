/*
 * The head of a request: its headers copied, its framing checked.
 *
 * libmicrohttpd 0.9.75 accepts bare line feeds, folded lines, NULs (a value ends there), spaces
 * before the colon, two Content-Lengths and Content-Length beside Transfer-Encoding: all ways to
 * have one request read differently by two programs. It keeps the head in one piece, with two NULs
 * in place of each line's CRLF, so a line that does not begin two bytes behind the last value shows
 * that something was in between. Later versions have switches for that.
 */
#include "http/private.h"

#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define FIRST_HEADERS 32

struct head {
	struct http_request *request;
	const char *next_line; /* where the next line must begin */
	unsigned capacity;
	struct error *err;
};

static bool is_token(const char *text, size_t size)
{
	static const char others[] = "!#$%&'*+-.^_`|~";
	for (size_t i = 0; i < size; i++) {
		char c = text[i];
		bool is_alphanumeric =
			(c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
		if (!is_alphanumeric && (c == '\0' || !strchr(others, c)))
			return false;
	}
	return size > 0;
}

static bool has_control(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];
		if ((c < ' ' && c != '\t') || c == 0x7f)
			return true;
	}
	return false;
}

static struct http_header *next_header(struct head *head)
{
	struct http_request *request = head->request;
	if (request->header_count == head->capacity) {
		unsigned capacity = MAX(head->capacity * 2, (unsigned)FIRST_HEADERS);
		struct http_header *headers =
			arena_alloc(&request->arena, capacity * sizeof(*headers));
		if (!headers)
			return NULL;
		if (request->header_count > 0)
			memcpy(headers, request->headers, request->header_count * sizeof(*headers));
		request->headers = headers;
		head->capacity = capacity;
	}
	return &request->headers[request->header_count];
}

static bool add_header(
	struct head *head, const char *name, size_t name_size, const char *value, size_t value_size)
{
	while (value_size > 0 && (value[value_size - 1] == ' ' || value[value_size - 1] == '\t'))
		value_size--;
	if (!is_token(name, name_size) || has_control(value, value_size))
		return error_set(
			head->err, ERROR_INVALID, "a header has characters that it may not have");
	struct http_header *header = next_header(head);
	if (!header)
		return error_no_memory(head->err);
	header->name = arena_copy(&head->request->arena, name, name_size);
	header->value = arena_copy(&head->request->arena, value, value_size);
	if (!header->name || !header->value)
		return error_no_memory(head->err);
	head->request->header_count++;
	return true;
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *name,
	size_t name_size, const char *value, size_t value_size)
{
	struct head *head = cls;
	if (name != head->next_line) {
		error_set(head->err, ERROR_INVALID,
			"the head has a NUL, a bare line feed or a folded line");
		return MHD_NO;
	}
	head->next_line = value + value_size + strlen("\r\n");
	return add_header(head, name, name_size, value, value_size) ? MHD_YES : MHD_NO;
}

/* Method, target and version must fill the request line. */
static bool check_request_line(struct http_request *request, const char *url, const char *method,
	const char *version, struct error *err)
{
	size_t method_size = strlen(method);
	const char *target_end = url + strlen(request->raw_target);
	if (!is_token(method, method_size) || url != method + method_size + 1 ||
		version != target_end + 1 || strchr(request->raw_target, ' '))
		return error_set(err, ERROR_INVALID, "the request line is malformed");
	return true;
}

static bool read_content_length(struct http_request *request, struct error *err)
{
	const char *length = http_request_header(request, "Content-Length");
	const char *coding = http_request_header(request, "Transfer-Encoding");
	unsigned lengths = http_request_header_count(request, "Content-Length");
	unsigned codings = http_request_header_count(request, "Transfer-Encoding");
	if (lengths + codings > 1)
		return error_set(
			err, ERROR_INVALID, "the length of the body is stated more than once");
	if (coding && strcasecmp(coding, "chunked") != 0)
		return error_set(
			err, ERROR_INVALID, "the only Transfer-Encoding known is 'chunked'");
	request->content_length = coding ? -1 : 0;
	if (length) { /* the library has checked that it is a number of 64 bits */
		errno = 0;
		request->content_length = strtoll(length, NULL, 10);
		if (errno != 0)
			return error_set(err, ERROR_INVALID, "the Content-Length is out of range");
	}
	return true;
}

static void choose_id(struct http_request *request)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789._-";
	const char *sent = http_request_header(request, "X-Request-Id");
	size_t size = sent ? strspn(sent, alphabet) : 0;
	if (size > 0 && size <= HTTP_ID_LIMIT && sent[size] == '\0') {
		memcpy(request->id, sent, size + 1);
		return;
	}
	uint8_t bytes[SHORT_ID_SIZE];
	id_random(bytes, sizeof(bytes));
	id_to_text(bytes, sizeof(bytes), request->id);
}

static bool read_headers(struct http_request *request, struct MHD_Connection *mhd,
	const char *method, const char *version, struct error *err)
{
	struct head head = { request, version + strlen(version) + strlen("\r\n"), 0, err };
	struct error found = { 0 };
	head.err = &found;
	MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, on_header, &head);
	size_t size =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
	if (found.code == ERROR_NONE && head.next_line + strlen("\r\n") != method + size)
		error_set(&found, ERROR_INVALID,
			"the head has a NUL, a bare line feed or a folded line");
	if (found.code == ERROR_NONE)
		return true;
	if (err)
		*err = found;
	return false;
}

bool head_read(struct http_request *request, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, struct error *err)
{
	bool is_clean = check_request_line(request, url, method, version, err) &&
			read_headers(request, mhd, method, version, err);
	choose_id(request);
	request->method = arena_copy(&request->arena, method, strlen(method));
	if (!request->method)
		return error_no_memory(err);
	if (!is_clean || !read_content_length(request, err))
		return false;
	if (strcmp(version, MHD_HTTP_VERSION_1_0) != 0 && !http_request_header(request, "Host"))
		return error_set(err, ERROR_INVALID, "there is no Host header");
	const char *expect = http_request_header(request, "Expect");
	request->is_expecting = expect && strcasecmp(expect, "100-continue") == 0;
	return true;
}
