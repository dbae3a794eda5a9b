/* A request made from fuzzed bytes, for harnesses of what reads requests: as the HTTP layer would
 * have let it in. */
#ifndef FUZZ_REQUEST_H
#define FUZZ_REQUEST_H

#include "http/private.h"

#include <string.h>

#define FUZZ_HEADERS 32

struct fuzz_request {
	struct http_server server;
	struct http_request request;
	struct http_header headers[FUZZ_HEADERS];
};

static inline bool fuzz_is_name(const char *text)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789!#$%&'*+-.^_`|~";
	return *text && strspn(text, allowed) == strlen(text);
}

static inline bool fuzz_is_value(const char *text)
{
	for (; *text; text++)
		if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
			return false;
	return true;
}

/* "name: value"; what the HTTP layer refuses is left out. */
static inline void fuzz_add_header(struct fuzz_request *made, char *line)
{
	struct http_request *request = &made->request;
	char *colon = strchr(line, ':');
	if (!colon || request->header_count == FUZZ_HEADERS)
		return;
	*colon = '\0';
	const char *value = colon + 1 + strspn(colon + 1, " ");
	if (fuzz_is_name(line) && fuzz_is_value(value))
		request->headers[request->header_count++] =
			(struct http_header){ .name = line, .value = value };
}

/* The first line is the target, each further one a header. False: it would have been refused. */
static inline bool fuzz_request_make(struct fuzz_request *made, char *text)
{
	struct http_request *request = &made->request;
	struct error err;
	*made = (struct fuzz_request){ .server.is_ending = true };
	list_init(&made->server.due);
	list_init(&request->due_link);
	request->server = &made->server;
	request->headers = made->headers;
	request->reply_tail = &request->reply_headers;
	request->method = "GET";
	request->is_gone = true; /* nothing is sent */
	strcpy(request->id, "0123456789abcdef");
	char *line = strsep(&text, "\n");
	if (!fuzz_is_value(line) || strpbrk(line, " \t") ||
		!target_parse(&request->target, &request->arena, line, &err))
		return false;
	request->raw_target = line;
	while ((line = strsep(&text, "\n")) != NULL)
		fuzz_add_header(made, line);
	return true;
}

static inline void fuzz_request_free(struct fuzz_request *made)
{
	list_remove(&made->request.due_link);
	arena_deinit(&made->request.arena);
}

#endif
