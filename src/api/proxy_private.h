/*
 * For the files of the proxy only: proxy.c (life, patience, the socket), proxy_upload.c (the
 * request's body), proxy_answer.c (head and body of the answer).
 */
#ifndef API_PROXY_PRIVATE_H
#define API_PROXY_PRIVATE_H

#include "api/proxy.h"
#include "http/answer_body.h"
#include "http/ring.h"

#define READ_SIZE ((size_t)16 << 10)

enum stage { CONNECTING, ASKING, HOLDING /* a head, while the body goes on */, ANSWERING };

struct proxy {
	struct call *call; /* not owned */
	struct api *api;
	struct guest guest;
	struct exposure exposure;
	struct loop_source answer; /* init's; its descriptor is owned */
	struct loop_source server; /* its descriptor is owned */
	struct loop_timer patience;
	enum stage stage;
	struct ring out; /* what the server has not taken yet */
	struct buf in;   /* owned: of the answer, not looked at yet */
	struct buf held; /* owned: of its body, what the client did not take */
	size_t head_scanned, head_size;
	struct answer_head *head; /* the request's memory */
	struct answer_body body;
	unsigned interims;
	bool is_connected, is_body_done, is_upload_dead, is_server_done;
};

/* proxy.c */
void proxy_free(struct proxy *proxy);
/* Answers with the error, or cuts what is being answered; frees. */
void proxy_fail(struct proxy *proxy, const struct error *err);
void proxy_fail_with(struct proxy *proxy, enum error_code code, const char *text);
/* The stage's patience begins anew. */
void proxy_expect(struct proxy *proxy);
/* Ends soon, outside of whatever is going on. */
void proxy_give_up(struct proxy *proxy);
/* Watches the server's socket for what is wanted now. */
void proxy_watch(struct proxy *proxy);

/* proxy_upload.c */
/* Nothing of the request is left to be written, or the server wants none of it. */
bool proxy_is_through(const struct proxy *proxy);
/* Has the request's body brought, and its end told. */
void proxy_stream_body(struct proxy *proxy);
void proxy_write_some(struct proxy *proxy);

/* proxy_answer.c; each may end it all. */
/* Something has come. */
void proxy_take_answer(struct proxy *proxy);
/* The head is there, and nothing has to be waited for. */
void proxy_begin_answer(struct proxy *proxy);
/* Nothing more will come. */
void proxy_on_server_end(struct proxy *proxy);

#endif
