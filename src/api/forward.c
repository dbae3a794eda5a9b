/*
 * See forward.h. Nothing is passed on as bytes: the target was parsed and has neither white space
 * nor control characters, headers were taken apart on both sides, and what frames a message is made
 * anew. So no two programs can disagree where a message ends.
 */
#include "api/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADER_LIMIT ((size_t)64 << 10)

/* Between two neighbours only (RFC 9110, 7.6.1), or made anew by each. */
static const char *const of_a_hop[] = { "Connection", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
	"Content-Length", "HTTP2-Settings", "X-Request-Id" };
static const char *const kept_from_server[] = { "Host", "Expect", "Forwarded", PREVIEW_HEADER };
static const char *const kept_from_client[] = { "Alt-Svc", "Content-Type", "Date",
	"Service-Worker-Allowed", "Set-Cookie2" };
/* What speaks for an origin, where the origin is the API's. */
static const char *const of_an_origin[] = { "Clear-Site-Data", "NEL", "Origin-Agent-Cluster",
	"Public-Key-Pins", "Report-To", "Reporting-Endpoints", "Strict-Transport-Security" };

static const char sandboxed[] =
	"sandbox allow-downloads allow-forms allow-modals allow-pointer-lock"
	" allow-popups allow-scripts";

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}
#define IS_ONE_OF(name, names) is_one_of(name, names, ARRAY_SIZE(names))

/* ---- the target ---- */

static bool holds_key(const struct exposure *exposure, const char *text)
{
	return exposure->keys && auth_holds_key(exposure->keys, text);
}

/* A parameter as it is read here and inside, whatever of it is encoded. NULs are of no interest. */
static bool decode(struct buf *out, const char *text, size_t size)
{
	for (const char *end = text + size; text < end; text++) {
		uint8_t byte = (uint8_t)*text;
		char digits[3] = "";
		if (byte == '%' && end - text > 2)
			memcpy(digits, text + 1, 2);
		if (strspn(digits, "0123456789abcdefABCDEF") == 2) {
			byte = (uint8_t)strtoul(digits, NULL, 16);
			text += 2;
		}
		if (byte && !buf_append(out, &byte, 1))
			return false;
	}
	return buf_text(out);
}

/* Not to be told: the parameter that holds a secret of ours, and a key under any other name. */
static bool is_secret(const struct exposure *exposure, const char *text, size_t size)
{
	cleanup_buf struct buf decoded = buf_make(HEADER_LIMIT);
	const char *name = exposure->parameter;
	size_t name_size = name ? strlen(name) : 0;
	if (!decode(&decoded, text, size))
		return true; /* without memory */
	const char *plain = buf_text(&decoded);
	return (name && strncmp(plain, name, name_size) == 0 && strchr("=#", plain[name_size])) ||
	       holds_key(exposure, plain);
}

static bool put_query(struct buf *out, const char *query, const struct exposure *exposure)
{
	char separator = '?';
	while (*query) {
		size_t size = strcspn(query, "&");
		bool is_kept = !is_secret(exposure, query, size);
		if (is_kept && !(buf_append(out, &separator, 1) && buf_append(out, query, size)))
			return false;
		if (is_kept)
			separator = '&';
		query += size + (query[size] == '&');
	}
	return true;
}

bool forward_target(struct buf *out, const char *raw, const struct exposure *exposure)
{
	const char *rest = raw + exposure->prefix_size;
	size_t path_size = strcspn(rest, "?");
	if (path_size == 0 && !buf_append(out, "/", 1))
		return false;
	return buf_append(out, rest, path_size) &&
	       (rest[path_size] == '\0' || put_query(out, rest + path_size + 1, exposure));
}

/* ---- the request's headers ---- */

bool forward_cookies(struct buf *out, const char *value, const char *without)
{
	size_t name_size = strlen(without), begin = out->size;
	while (*value) {
		value += strspn(value, "; \t");
		size_t size = strcspn(value, ";");
		bool is_kept = size > 0 && !(strncmp(value, without, name_size) == 0 &&
						   strchr("= \t", value[name_size]));
		if (is_kept && !(buf_append_text(out, out->size > begin ? "; " : "") &&
				       buf_append(out, value, size)))
			return false;
		value += size;
	}
	return true;
}

/* What is between neighbours, or theirs to say, by the beginning of its name. */
static bool is_of_neighbours(const char *name)
{
	return strncasecmp(name, "Proxy-", 6) == 0 || strncasecmp(name, "X-Forwarded-", 12) == 0;
}

static bool is_kept_from_server(
	const struct http_request *request, const struct exposure *exposure, const char *name)
{
	bool is_by_host = exposure->kind == EXPOSED_BY_HOST;
	if (IS_ONE_OF(name, of_a_hop) || IS_ONE_OF(name, kept_from_server) ||
		is_of_neighbours(name) || http_request_names(request, "Connection", name))
		return true;
	if (strcasecmp(name, "Authorization") == 0)
		return exposure->kind == EXPOSED_BY_PATH;
	if (strcasecmp(name, "Origin") == 0 || strcasecmp(name, "Referer") == 0)
		return !is_by_host;
	if (strcasecmp(name, "Cookie") == 0)
		return exposure->is_from_browser && !is_by_host;
	return false;
}

static bool put_header(struct buf *out, const char *name, const char *value)
{
	return buf_append_text(out, name) && buf_append_text(out, ": ") &&
	       buf_append_text(out, value) && buf_append_text(out, "\r\n");
}

static bool put_cookies(struct buf *out, const char *value)
{
	cleanup_buf struct buf cookies = buf_make(HEADER_LIMIT);
	return forward_cookies(&cookies, value, PREVIEW_COOKIE) &&
	       (cookies.size == 0 || put_header(out, "Cookie", buf_text(&cookies)));
}

static bool put_client_headers(
	struct buf *out, const struct http_request *request, const struct exposure *exposure)
{
	const char *name, *value;
	for (unsigned i = 0; http_request_header_at(request, i, &name, &value); i++) {
		if (is_kept_from_server(request, exposure, name) || holds_key(exposure, value))
			continue;
		bool is_put = strcasecmp(name, "Cookie") == 0 ? put_cookies(out, value)
							      : put_header(out, name, value);
		if (!is_put)
			return false;
	}
	return true;
}

/* By host the name is the client's, so that it fits to Origin; else what a server expects to be
 * called. */
static bool put_names(
	struct buf *out, const struct http_request *request, const struct exposure *exposure)
{
	const char *host = http_request_header(request, "Host");
	if (exposure->kind == EXPOSED_BY_HOST)
		return put_header(out, "Host", host) && put_header(out, "X-Forwarded-Host", host);
	if (!buf_printf(out, "Host: localhost:%u\r\n", exposure->port))
		return false;
	return exposure->kind != EXPOSED_BY_PATH ||
	       buf_printf(out, "X-Forwarded-Prefix: %.*s\r\n", (int)exposure->prefix_size,
		       http_request_raw_target(request));
}

const char *forward_scheme(const struct http_request *request)
{
	const char *said = http_request_header(request, "X-Forwarded-Proto");
	return said && strcasecmp(said, "https") == 0 ? "https" : "http";
}

static bool put_framing(
	struct buf *out, const struct http_request *request, const struct exposure *exposure)
{
	int64_t size = http_request_content_length(request);
	if (exposure->is_upgrade)
		return buf_append_text(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	if (size < 0)
		return buf_append_text(
			out, "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	if (size > 0 || http_request_header(request, "Content-Length"))
		return buf_printf(
			out, "Content-Length: %jd\r\nConnection: close\r\n\r\n", (intmax_t)size);
	return buf_append_text(out, "Connection: close\r\n\r\n");
}

bool forward_request(
	struct buf *out, const struct http_request *request, const struct exposure *exposure)
{
	return buf_append_text(out, http_request_method(request)) && buf_append_text(out, " ") &&
	       forward_target(out, http_request_raw_target(request), exposure) &&
	       buf_append_text(out, " HTTP/1.1\r\n") && put_names(out, request, exposure) &&
	       put_header(out, "X-Forwarded-Proto", forward_scheme(request)) &&
	       put_header(out, "X-Request-Id", http_request_id(request)) &&
	       put_client_headers(out, request, exposure) && put_framing(out, request, exposure);
}

/* ---- the answer's headers ---- */

bool forward_cookie(struct buf *out, const char *value, const char *path, size_t path_size)
{
	size_t size = strcspn(value, ";");
	bool is_good = buf_append(out, value, size);
	for (value += size; is_good && *value; value += size) {
		value += strspn(value, "; \t");
		size = strcspn(value, ";");
		size_t name_size = strcspn(value, "=; \t");
		bool is_domain = name_size == 6 && strncasecmp(value, "domain", 6) == 0;
		bool is_path = name_size == 4 && strncasecmp(value, "path", 4) == 0;
		if (size > 0 && !is_domain && !(is_path && path))
			is_good = buf_append_text(out, "; ") && buf_append(out, value, size);
	}
	return is_good &&
	       (!path || (buf_append_text(out, "; Path=") && buf_append(out, path, path_size) &&
				 buf_append_text(out, "/")));
}

/* What follows the server's own address in an absolute link to it; NULL where it is another's. */
static const char *own_rest(const char *value, uint16_t port)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "0.0.0.0" };
	char address[64];
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int size = snprintf(address, sizeof(address), "http://%s:%u", names[i], port);
		if (port == 80 && strncasecmp(value, address, (size_t)size) != 0)
			size -= 3;
		if (strncasecmp(value, address, (size_t)size) == 0 && strchr("/?#", value[size]))
			return value + size;
	}
	return NULL;
}

bool forward_location(
	struct buf *out, const char *value, const char *prefix, size_t prefix_size, uint16_t port)
{
	const char *rest = value[0] == '/' && value[1] != '/' ? value : own_rest(value, port);
	if (!rest)
		return buf_append_text(out, value);
	return buf_append(out, prefix, prefix_size) &&
	       buf_append_text(out, *rest == '/' ? "" : "/") && buf_append_text(out, rest);
}

static bool is_kept_from_client(
	const struct answer_head *head, const struct exposure *exposure, const char *name)
{
	const char *connection = answer_head_get(head, "Connection");
	if (IS_ONE_OF(name, of_a_hop) || IS_ONE_OF(name, kept_from_client) ||
		(connection && http_list_names(connection, name)))
		return true;
	if (exposure->kind == EXPOSED_BY_HOST)
		return false;
	if (IS_ONE_OF(name, of_an_origin) || strncasecmp(name, "Access-Control-", 15) == 0)
		return true;
	if (exposure->kind != EXPOSED_BY_TOKEN)
		return false;
	return strcasecmp(name, "Set-Cookie") == 0 || strcasecmp(name, "Referrer-Policy") == 0;
}

/* As it is to be sent; the library takes no tabs. */
static bool rewrite(struct buf *out, const struct http_request *request,
	const struct exposure *exposure, const struct answer_header *header)
{
	const char *prefix = http_request_raw_target(request);
	bool is_by_host = exposure->kind == EXPOSED_BY_HOST;
	bool is_good;
	if (strcasecmp(header->name, "Set-Cookie") == 0)
		is_good = forward_cookie(
			out, header->value, is_by_host ? NULL : prefix, exposure->prefix_size);
	else if (strcasecmp(header->name, "Location") == 0)
		is_good = forward_location(
			out, header->value, prefix, exposure->prefix_size, exposure->port);
	else
		is_good = buf_append_text(out, header->value);
	for (size_t i = 0; i < out->size; i++)
		if (out->bytes[i] == '\t')
			out->bytes[i] = ' ';
	return is_good;
}

void forward_answer(struct http_request *request, const struct answer_head *head,
	const struct exposure *exposure)
{
	for (unsigned i = 0; i < head->header_count; i++) {
		const struct answer_header *header = &head->headers[i];
		cleanup_buf struct buf value = buf_make(HEADER_LIMIT);
		if (is_kept_from_client(head, exposure, header->name) ||
			!rewrite(&value, request, exposure, header))
			continue;
		http_reply_header(request, header->name, buf_text(&value));
	}
	if (exposure->kind != EXPOSED_BY_HOST)
		http_reply_header(request, "Content-Security-Policy", sandboxed);
	if (exposure->kind == EXPOSED_BY_TOKEN)
		http_reply_header(request, "Referrer-Policy", "no-referrer");
}
