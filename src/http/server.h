/*
 * HTTP/1.1 requests and answers on libmicrohttpd, in the caller's event loop. Knows no resource.
 *
 * Life of a request: `on_head` when the head is there (authorise, route; may answer at once), then
 * the body, collected or streamed, then `on_request` once when the body is whole. The owner answers
 * then or later, from any handler of the loop: with http_reply (head and body in one write), or
 * with http_stream_start, http_stream_write ..., http_stream_end. Each request is answered exactly
 * once. When the client hangs up before that, `on_gone` of the request is called once; the owner
 * still has to finish the request with http_reply or http_stream_end (which then send nothing).
 * Only a request that ends before on_request, unanswered and with no on_gone set, needs no finish:
 * nobody works on it. A request's memory (http_request_alloc, body, header texts) lives until
 * `on_done`, which comes after the answer was sent or the connection died: the last moment to touch
 * the request. It is never called from within a function of this header, http_server_free apart.
 *
 * A client that shuts down its sending side counts as gone, unless its answer is ready by then. One
 * that ends properly while a body is stalled by us is noticed only when the body goes on: its end
 * waits behind the bytes that nobody takes.
 *
 * Bounds: head 32 KiB (431), collected body `body_limit` (413), connections (further ones wait in
 * the kernel's queue; from 7/8 of them on those idle for longest are closed), a
 * stream's unsent bytes `stream_limit`, all collected bodies `held_limit` (503), where small ones
 * (256 KiB) always pass; an idle connection, or a reader that stopped reading, is kept for 300 s, a
 * head or a stalled body for 30 s. While the owner works on the answer, or a stream has nothing to
 * send, no time is counted.
 *
 * An answer given before the body is whole waits until the rest was read and dropped, so that every
 * client sees it. It goes out at once, and the connection is closed, where the client waits for
 * "100 Continue" or announced more than 16 MiB; the connection is cut where more than that comes
 * unannounced (1 GiB of a streamed body).
 *
 * What is refused here (400, 413, 431) is answered in the API's form for errors, but for what the
 * library itself refuses to parse, and never reaches the owner, 413 apart.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/error.h"
#include "loop/loop.h"

#include <stddef.h>
#include <stdint.h>

struct http_server;
struct http_request;

typedef void (*http_event)(struct http_request *request);

struct http_config {
	struct loop *loop;      /* not owned */
	int listen_fd;          /* not owned; a listening TCP socket */
	size_t body_limit;      /* bytes of a collected body */
	size_t stream_limit;    /* unsent bytes a stream may hold */
	uint64_t held_limit;    /* bytes of all collected bodies, and of all answers (http_hold); 0:
				   any */
	unsigned connections;   /* at most, at once */
	unsigned idle_seconds;  /* 0: 300 */
	unsigned stall_seconds; /* 0: 30 */
	http_event on_head;     /* required */
	http_event on_request;  /* required; not called for requests answered in on_head */
	http_event on_done;     /* may be NULL */
	void *owner;            /* for http_request_server_owner */
};

struct http_server *http_server_new(const struct http_config *config, struct error *err);
/* Ends all connections. Requests not answered yet get on_gone, then on_done. Not to be called from
 * a handler of a request. */
struct http_server *http_server_free(struct http_server *server);
CLEANUP_FUNCTION(struct http_server *, http_server_free);

/* ---- what was asked ---- */
const char *http_request_method(const struct http_request *request); /* "GET" */
/* Percent-encoding undone exactly once, query cut off. A path with a NUL (%00) or broken encoding
 * is answered with 400 before on_head. */
const char *http_request_path(const struct http_request *request);
/* Segments of the path between slashes, decoded each on its own ('%2F' stays inside its segment);
 * NULL beyond the last. "/" has none, "/a/" has "a" and "". Dot segments are not resolved. */
const char *http_request_segment(const struct http_request *request, unsigned index);
unsigned http_request_segments(const struct http_request *request);
/* Decoded ('+' is a space); the first of that name; NULL if absent. ret_size may be NULL; a value
 * may hold NULs, which ret_size shows. */
const char *http_request_query(
	const struct http_request *request, const char *name, size_t *ret_size);
/* Case-insensitive; NULL if absent. */
const char *http_request_header(const struct http_request *request, const char *name);
/* Times the header occurs: duplicates of Authorization or Host are refused by the owner. */
unsigned http_request_header_count(const struct http_request *request, const char *name);
/* The headers in order, as sent; false beyond the last. */
bool http_request_header_at(const struct http_request *request, unsigned index,
	const char **ret_name, const char **ret_value);
/* Whether a header that is a list names it; case-insensitive, all headers of that name count. */
bool http_request_names(const struct http_request *request, const char *header, const char *token);
bool http_list_names(const char *list, const char *token);
/* The target as it was sent: no white space, no control characters. */
const char *http_request_raw_target(const struct http_request *request);
/* From Content-Length; -1 when chunked, 0 when there is no body. */
int64_t http_request_content_length(const struct http_request *request);
/* The collected body, NUL-terminated; empty: "" and 0. */
const char *http_request_body(const struct http_request *request, size_t *ret_size);
/* "X-Request-Id" as sent when it is sane ([A-Za-z0-9._-], up to 64), else 16 hex digits of ours. It
 * is put on every answer. */
const char *http_request_id(const struct http_request *request);

/* ---- the owner's own ---- */
void *http_request_server_owner(const struct http_request *request);
void http_request_set_data(struct http_request *request, void *data);
void *http_request_data(const struct http_request *request);
/* Zeroed memory that dies with the request; NULL when out of memory. */
void *http_request_alloc(struct http_request *request, size_t size);
/* Called once if the client hangs up before http_reply or http_stream_end; soon if it has already.
 */
void http_request_on_gone(struct http_request *request, http_event on_gone);

/* ---- a streamed body: to be asked for in on_head ---- */
/* Takes some or all of the bytes and returns how many; taking none stalls the body until
 * http_request_resume_body. on_request is called when all was taken. */
typedef size_t (*http_on_body)(struct http_request *request, const char *bytes, size_t size);
void http_request_stream_body(struct http_request *request, http_on_body on_body);
void http_request_resume_body(struct http_request *request);

/* ---- the answer ---- */
/* To be called before http_reply or http_stream_start. CR and LF are refused by assertion. */
void http_reply_header(struct http_request *request, const char *name, const char *value);
/* Copies bytes. type may be NULL for an empty body. */
void http_reply(struct http_request *request, unsigned status, const char *type, const void *bytes,
	size_t size);
/* Counts memory that the answer takes until the request is done. False, and nothing is counted:
 * with it all together would have more than `held_limit`. Small ones always pass. */
bool http_hold(struct http_request *request, size_t size);
/* size -1: chunked. Otherwise exactly that many bytes must follow: more are dropped, fewer cut the
 * connection. The head goes out at once. */
void http_stream_start(
	struct http_request *request, unsigned status, const char *type, int64_t size);
/* Copies bytes; false (nothing taken) when stream_limit would be passed; but any size is taken
 * while nothing is unsent. What is written goes out when the loop next turns, as one chunk. Always
 * true (and dropped) once the client is gone, or where nothing is to be sent: HEAD. */
bool http_stream_write(struct http_request *request, const void *bytes, size_t size);
/* In place of `stream_limit`, for this one. */
void http_stream_set_limit(struct http_request *request, size_t limit);
size_t http_stream_pending(const struct http_request *request); /* unsent bytes */
/* Called each time the unsent bytes fall below half the limit after a refused write. */
void http_stream_on_drain(struct http_request *request, http_event on_drain);
void http_stream_end(struct http_request *request);
/* Ends a sized or chunked stream that cannot be completed: the connection is cut. */
void http_stream_abort(struct http_request *request);

/* ---- another protocol on the same connection ---- */
/* The socket is the receiver's from here on: non-blocking, no delay; -1: the client was gone
 * before. `bytes` came behind the head. */
typedef void (*http_on_upgrade)(void *context, int fd, const char *bytes, size_t size);
/* Answers 101, with `protocol` as Upgrade and the headers set before. The request is finished by
 * it; on_upgrade comes exactly once, when the answer is out, or before on_done. Bodies have no
 * place in such a request. What is handed over counts no more among the connections. */
void http_upgrade(struct http_request *request, const char *protocol, http_on_upgrade on_upgrade,
	void *context);

#endif
