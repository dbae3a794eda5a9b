/*
 * One request on its way through the api. It is made in on_head, dies in on_done, and is answered
 * exactly once, with the functions of answer.h or as a stream. Whoever works on it longer than its
 * handler runs puts itself into `state` and sets on_gone.
 */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/api.h"
#include "base/buf.h"

struct call;
struct route;
typedef void (*call_handler)(struct call *call);

struct call {
	struct api *api;              /* not owned */
	struct http_request *request; /* not owned; owns this */
	const struct route *route;
	const char *owner;                   /* who asks; NULL on routes without a key */
	const char *sandbox_id, *session_id; /* as in the path, or NULL */
	struct sandbox *sandbox;  /* that of the path; only good while the handler runs */
	void *state;              /* not owned: who works on it */
	call_handler on_gone;     /* the client hung up; it still has to be answered (unseen) */
	call_handler on_body_end; /* the body of a ROUTE_RAW request is whole */
	bool is_answered;
	bool is_padded;  /* 200 and white space have been sent, the body follows */
	struct buf rest; /* owned: what of a padded answer is not sent yet */
	size_t rest_sent;
};

#endif
