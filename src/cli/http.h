/*
 * Calls to a daemon, one at a time, over one kept connection. Each can be stopped by a descriptor
 * that becomes readable (a signalfd), so that Ctrl-C is heard at once and at no bad moment.
 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "cli/target.h"

#include <jansson.h>

struct http_client;

struct http_call {
	const char *method;          /* "POST" */
	const char *path;            /* below /v1, beginning with a slash */
	json_t *body;                /* not owned; NULL for none */
	int stop_fd;                 /* -1: cannot be stopped */
	long limit_s;                /* 0: none */
	void (*on_tick)(void *data); /* about once a second while waiting; may be NULL */
	void *data;
	/* Takes the body of a 200 as it comes; false ends the call. NULL: it is collected. */
	bool (*on_bytes)(void *on_bytes_data, const char *bytes, size_t size);
	void *on_bytes_data;
};

struct http_answer {
	long status;     /* 0 when stopped */
	bool is_stopped; /* by stop_fd */
	json_t *json;    /* owned; NULL when the body is empty or no JSON */
};

struct http_client *http_client_new(const struct target *target, struct error *err);
struct http_client *http_client_free(struct http_client *client);
CLEANUP_FUNCTION(struct http_client *, http_client_free);

/* False only when no answer came. An answer of 4xx or 5xx is for the caller: http_answer_error. */
bool http_call(struct http_client *client, const struct http_call *call,
	struct http_answer *ret_answer, struct error *err);
void http_answer_deinit(struct http_answer *answer);
/* Fills err from an answer that is a refusal: the server's own text and hint. Returns false. */
bool http_answer_error(const struct http_answer *answer, struct error *err);

/* One short call: does a daemon answer there, and does it take the key? */
bool http_check_alive(const struct target *target, struct error *err);

#endif
