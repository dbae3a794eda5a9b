/*
 * What of a request goes to a server inside a sandbox, and what of its answer comes out: the
 * target, the headers and their rewriting. docs/api.md, "Ports", has the rules; this is where they
 * are applied.
 */
#ifndef API_FORWARD_H
#define API_FORWARD_H

#include "api/auth.h"
#include "base/buf.h"
#include "http/answer_head.h"
#include "http/server.h"

/* How a server inside is seen from outside. By path and by token it shares the API's own origin, so
 * it gets no cookie and no say about that origin; by host it has an origin of its own. */
enum exposure_kind { EXPOSED_BY_PATH, EXPOSED_BY_TOKEN, EXPOSED_BY_HOST };

struct exposure {
	enum exposure_kind kind;
	uint16_t port;
	size_t prefix_size; /* bytes of the raw target that stand for the server's root; 0 by host
			     */
	const char *parameter;   /* of the query: holds a secret of ours and stays here; or NULL */
	const struct keys *keys; /* ours: they stay here, wherever they stand; NULL: none */
	bool is_upgrade;         /* to a WebSocket */
	bool is_from_browser;    /* its cookies are not meant for us */
};

/* Line, headers and empty line. False: out of memory. */
bool forward_request(
	struct buf *out, const struct http_request *request, const struct exposure *exposure);
/* The headers of the answer, but for its type, with http_reply_header. */
void forward_answer(struct http_request *request, const struct answer_head *head,
	const struct exposure *exposure);

/* "https" where a proxy in front of us says that the client came by it. */
const char *forward_scheme(const struct http_request *request);
/* The server's target: without the prefix, and without the parameter. */
bool forward_target(struct buf *out, const char *raw, const struct exposure *exposure);
/* Without Domain; with `path` (may be NULL) in place of its own. */
bool forward_cookie(struct buf *out, const char *value, const char *path, size_t path_size);
/* Links to the server's own root lead through the prefix. */
bool forward_location(
	struct buf *out, const char *value, const char *prefix, size_t prefix_size, uint16_t port);
/* Without the cookie of that name. */
bool forward_cookies(struct buf *out, const char *value, const char *without);

#define PREVIEW_COOKIE "sandglass_preview"
#define PREVIEW_HEADER "X-Preview-Token"
#define PREVIEW_PARAMETER "preview_token"

#endif
