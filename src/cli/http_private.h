/* What the two ways of calling (http.c, http_many.c) share, and the client of WebSockets. */
#ifndef CLI_HTTP_PRIVATE_H
#define CLI_HTTP_PRIVATE_H

#include "cli/http.h"

#include <curl/curl.h>

#define HTTP_CONNECT_LIMIT_MS 5000L

struct http_client {
	struct target target;
	CURLM *multi;               /* owned */
	CURL *easy;                 /* owned */
	struct curl_slist *headers; /* owned */
};

struct http_body {
	const struct http_call *call;
	CURL *easy;
	struct buf buf;   /* owned: what was collected */
	int64_t heard_ms; /* when something of it came, or when it began */
};

struct http_body http_body_make(const struct http_call *call, CURL *easy);
/* The whole address of a path, into the buffer. */
bool http_address(
	const struct target *target, const char *path, struct buf *url, struct error *err);
/* What every request needs, however it is made. */
void http_prepare_common(CURL *easy, const char *url);
/* A request without a body of its own kind. */
void http_prepare(const struct http_client *client, CURL *easy, const char *url, const char *text,
	struct http_body *body);
json_t *http_body_json(const struct http_body *body);

#endif
