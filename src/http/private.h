/*
 * What the files of this folder share: a server, its connections, their requests.
 *
 * Three lives are entangled here. A connection lives as long as its socket; libmicrohttpd frees it.
 * A request begins with its request line and is freed when both sides are done with it: the library
 * (`connection` is NULL from then on) and the owner (`is_finished`). A client that dies while the
 * owner is at work leaves a request without a connection behind.
 *
 * The library calls us from MHD_run only, and MHD_run is called from the loop only (server_run), so
 * whatever the owner does in a handler takes effect when the library runs next: it is woken at
 * once.
 */
#ifndef HTTP_PRIVATE_H
#define HTTP_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "http/arena.h"
#include "http/ring.h"
#include "http/server.h"
#include "http/target.h"

#include <microhttpd.h>

#define HTTP_HEAD_LIMIT ((size_t)32 << 10)
/* The library keeps head, reply head and a chunk in one piece of memory a connection. Twice the
 * head: so a head that is somewhat too large is still read whole, and its sender sees the answer.
 */
#define HTTP_CONNECTION_MEMORY (2 * HTTP_HEAD_LIMIT)
#define HTTP_DRAIN_LIMIT ((uint64_t)16 << 20)
#define HTTP_STREAM_DRAIN_LIMIT ((uint64_t)1 << 30) /* bodies that were let in */
#define HTTP_FREELY_HELD ((size_t)256 << 10) /* bytes of a body, of an answer: never refused */
#define HTTP_ID_LIMIT 64
#define HTTP_IDLE_SECONDS 300
#define HTTP_STALL_SECONDS 30

struct http_server {
	struct http_config config;
	struct MHD_Daemon *daemon;  /* owned */
	struct loop_source library; /* the library's own epoll */
	struct loop_timer timer;    /* when the library wants to run next */
	struct list requests;       /* all, by their link */
	struct list due;            /* by due_link: seen to when the library is out of the way */
	uint64_t bodies, answers;   /* bytes that are held, as `held_limit` counts them */
	unsigned calls;             /* of our functions by the library: whether it gets on */
	bool is_running, is_woken, is_ending;
};

struct http_connection {
	struct http_server *server;   /* not owned */
	struct MHD_Connection *mhd;   /* not owned */
	struct http_request *request; /* the one being served, or NULL */
	struct loop_source
		source;          /* hang-up and first bytes; the library watches the same socket */
	struct loop_timer stall; /* runs while a head or more of a body is due */
	int64_t answered_ms;
	bool is_hung_up;
};

struct http_header {
	const char *name, *value;
};

struct http_reply_header {
	struct http_reply_header *next;
	const char *name, *value;
};

struct http_request {
	struct http_server *server;         /* not owned */
	struct http_connection *connection; /* NULL once the library is done with it */
	struct list link, due_link;
	struct arena arena;

	const char *raw_target, *method;
	struct target target;
	struct http_header *headers;
	unsigned header_count;
	int64_t content_length;
	char id[HTTP_ID_LIMIT + 1];
	struct buf body;
	http_on_body on_body; /* NULL: the body is collected */
	uint64_t drained;     /* bytes of body that came after the answer */

	void *data;
	http_event on_gone, on_drain;

	struct http_reply_header *reply_headers, **reply_tail;
	struct MHD_Response *response; /* owned, until it is handed to the library */
	unsigned status;
	struct ring ring;
	size_t stream_limit;
	size_t held_body, held_answer; /* what of the server's counts is its */
	uint64_t stream_left;       /* bytes of a sized stream that the owner has still to write */
	http_on_upgrade on_upgrade; /* NULL once it was told */
	void *upgrade_context;

	bool has_head;     /* the library has read it whole */
	bool is_expecting; /* "Expect: 100-continue" */
	bool is_shown;     /* on_head was called, so on_done will be */
	bool is_requested; /* on_request was called */
	bool is_answered;  /* http_reply or http_stream_start */
	bool is_finished;  /* the owner will say no more */
	bool is_stream, is_sized, is_aborted;
	bool is_full;      /* a write was refused: on_drain is due */
	bool is_suspended; /* the library waits for request_wake() */
	bool is_body_stalled;
	bool is_gone, is_gone_told;
};

/* server.c */
void server_wake(struct http_server *server);
/* Gives the connection that long to go on; 0: as long as it takes. */
void connection_set_deadline(struct http_connection *connection, unsigned seconds);

/* request.c */
struct http_request *request_new(struct http_connection *connection, const char *raw_target);
/* The library's handler: called for the head, for pieces of the body, and when it is whole. */
enum MHD_Result request_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *bytes, size_t *size, void **context);
void request_suspend(struct http_request *request);
void request_wake(struct http_request *request);
/* The client is not there any more. */
void request_lose(struct http_request *request);
/* The library is done with it. May free it. */
void request_on_completed(struct http_request *request, bool is_complete);
/* Has request_settle() called when the library is out of the way. */
void request_set_due(struct http_request *request);
/* Tells what is to be told, and frees the request if nobody needs it. */
void request_settle(struct http_request *request);
void request_free(struct http_request *request);

/* head.c */
/* Copies the headers and checks what the library is lax about. False with err: 400 and close. */
bool head_read(struct http_request *request, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, struct error *err);

/* upgrade.c */
/* Tells who waits for the socket that there will be none, if it was not told otherwise. */
void upgrade_fail(struct http_request *request);

/* reply.c */
/* Adds the headers set by the owner, the id, and the type. */
void reply_add_headers(struct http_request *request, const char *type);
/* Whatever waited for the answer goes on. */
void reply_proceed(struct http_request *request);
/* Answers in the API's form for errors. */
void reply_error(struct http_request *request, unsigned status, const struct error *err);
/* Hands the answer to the library. */
enum MHD_Result reply_queue(struct http_request *request);

#endif
