/*
 * What a proxied request becomes for the server inside, and the server's answer for the client.
 * First byte: how the server is exposed; then the request (target, headers), a NUL, and the head of
 * the answer. No header may come out that was not asked for, and none that belongs to a hop.
 */
#include "request.h"

#include "api/auth.h"
#include "api/forward.h"
#include "api/hosts.h"
#include "http/websocket.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static bool begins(const char *line, const char *name)
{
	return strncasecmp(line, name, strlen(name)) == 0;
}

static void check_line(const char *line, size_t size)
{
	assert(size > 0 && !memchr(line, '\r', size) && !memchr(line, '\n', size));
	assert(memchr(line, ':', size));
	assert(!begins(line, "TE:") && !begins(line, "Proxy-") && !begins(line, "Expect:"));
	assert(!begins(line, "X-Preview-Token:") && !begins(line, "X-Forwarded-For"));
}

/* One request line, then well-formed headers, one Host among them, one empty line at the end. */
static void check_request(const struct buf *out)
{
	const char *at = out->bytes, *end = out->bytes + out->size;
	unsigned hosts = 0, lengths = 0;
	at = memmem(at, out->size, "\r\n", 2);
	assert(at && out->size > 4 && memcmp(end - 4, "\r\n\r\n", 4) == 0);
	for (at += 2; at < end - 2;) {
		const char *next = memmem(at, (size_t)(end - at), "\r\n", 2);
		check_line(at, (size_t)(next - at));
		hosts += begins(at, "Host:");
		lengths += begins(at, "Content-Length:") || begins(at, "Transfer-Encoding:");
		at = next + 2;
	}
	assert(at == end - 2 && hosts == 1 && lengths <= 1);
}

static void check_reply(const struct http_request *request, const struct exposure *exposure)
{
	const struct http_reply_header *header = request->reply_headers;
	for (; header; header = header->next) {
		assert(fuzz_is_name(header->name) && fuzz_is_value(header->value));
		assert(strcasecmp(header->name, "Connection") != 0);
		assert(strcasecmp(header->name, "Transfer-Encoding") != 0);
		if (exposure->kind == EXPOSED_BY_TOKEN)
			assert(strcasecmp(header->name, "Set-Cookie") != 0);
		if (exposure->kind != EXPOSED_BY_HOST)
			assert(strncasecmp(header->name, "Access-Control-", 15) != 0);
	}
}

static void try_answer(
	struct fuzz_request *made, const struct exposure *exposure, char *bytes, size_t size)
{
	static struct answer_head head;
	struct error err;
	size_t scanned = 0, head_size = 0;
	if (!answer_head_find(bytes, size, &scanned, &head_size, &err) || head_size == 0 ||
		!answer_head_parse(&head, bytes, head_size, &err))
		return;
	forward_answer(&made->request, &head, exposure);
	check_reply(&made->request, exposure);
}

static void try_request(struct fuzz_request *made, const struct exposure *exposure)
{
	const struct http_request *request = &made->request;
	struct error err = { 0 };
	cleanup_buf struct buf out = buf_make(1 << 20);
	const char *host = http_request_header(request, "Host");
	const char *origin = http_request_header(request, "Origin");
	if (websocket_check(request, &err))
		assert(http_request_header(request, "Sec-WebSocket-Key"));
	else
		assert(err.code == ERROR_UPGRADE || err.code == ERROR_INVALID);
	if (host)
		host_is_served(host, NULL, 0);
	if (host && origin && origin_is_own(origin, host))
		assert(strlen(origin) > strlen(host));
	if (host || exposure->kind != EXPOSED_BY_HOST) {
		assert(forward_request(&out, request, exposure));
		check_request(&out);
	}
}

static struct key the_key;
static const struct keys the_keys = { .keys = &the_key, .count = 1 };

/* As routes and proxy would: the prefix ends where a segment does. */
static struct exposure expose(const struct http_request *request, uint8_t kind)
{
	struct exposure exposure = { .kind = kind % 3, .port = 8000 };
	const char *raw = request->raw_target;
	exposure.is_upgrade = kind & 4;
	exposure.keys = kind & 8 ? &the_keys : NULL;
	exposure.is_from_browser = kind & 16;
	exposure.parameter = kind & 32 ? "access_token" : NULL;
	if (exposure.kind != EXPOSED_BY_HOST)
		exposure.prefix_size = 1 + strcspn(raw + 1, "/?");
	return exposure;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_request made;
	if (size == 0)
		return 0;
	char *text = malloc(size);
	memcpy(text, bytes + 1, size - 1);
	text[size - 1] = '\0';
	size_t request_size = strlen(text) + 1;
	if (fuzz_request_make(&made, text)) {
		struct exposure exposure = expose(&made.request, bytes[0]);
		try_request(&made, &exposure);
		if (request_size < size)
			try_answer(&made, &exposure, text + request_size, size - request_size);
	}
	fuzz_request_free(&made);
	free(text);
	return 0;
}
