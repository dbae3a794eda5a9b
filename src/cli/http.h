/*
 * Calls to a daemon, one at a time over one kept connection, or many short ones side by side. Each
 * can be stopped by a descriptor that becomes readable (a signalfd), so that Ctrl-C is heard at
 * once and at no bad moment.
 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "cli/target.h"

#include "base/buf.h"

#include <jansson.h>
#include <stdint.h>

struct curl_mime;
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
	/* Gives the next bytes of a body that is no JSON: their number, 0 at the end, HTTP_NO_BYTES
	 * when there are none because something failed. NULL: `body` counts. */
	size_t (*on_read)(void *on_read_data, char *bytes, size_t size);
	void *on_read_data;
	int64_t read_size;      /* of such a body; -1: not known */
	struct curl_mime *form; /* a body of parts, not owned; NULL: none */
	const char *last_id;    /* of the event behind which a stream goes on; NULL: none */
	long silence_s;         /* a stream that is silent for that long is broken; 0: no matter */
};

#define HTTP_NO_BYTES ((size_t)-1)

struct http_answer {
	long status;     /* 0 when stopped */
	bool is_stopped; /* by stop_fd */
	bool is_broken;  /* it began with 200 and did not come to its end: a stream's caller may go
			    on */
	json_t *json;    /* owned; NULL when the body is empty or no JSON */
};

/* One of many. */
struct http_get {
	const char *path; /* not owned */
	long status;      /* 0: no answer */
	json_t *json;     /* owned by the caller; NULL when there is none */
};

struct http_client *http_client_new(const struct target *target, struct error *err);
struct http_client *http_client_free(struct http_client *client);
CLEANUP_FUNCTION(struct http_client *, http_client_free);

/* False only when no answer came, or not all of it. An answer of 4xx or 5xx is for the caller:
 * http_answer_error. */
bool http_call(struct http_client *client, const struct http_call *call,
	struct http_answer *ret_answer, struct error *err);
/* Several at once over a few connections. False and err when libcurl takes none; what became of
 * each stands in it. */
bool http_get_many(
	struct http_client *client, struct http_get *gets, size_t count, struct error *err);
void http_answer_deinit(struct http_answer *answer);
/* Fills err from an answer that is a refusal: the server's own code, text and hint. Returns
 * false. */
bool http_answer_error(const struct http_answer *answer, struct error *err);

/* Appends "name=VALUE" with all but plain letters escaped; false without room. */
bool http_query(struct buf *path, const char *name, const char *value);

/* One short call: does a daemon answer there, and does it take the key? */
bool http_check_alive(const struct target *target, struct error *err);

#endif
