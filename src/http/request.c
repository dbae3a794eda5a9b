/*
 * A request from its first line to its end: the library's handler, bodies, hang-ups.
 *
 * The library calls request_on_access() once for the head, then for each piece of the body, then
 * when it is whole. An answer may only be queued in the first or the last of these; queued in the
 * first it closes the connection. So an early answer waits while the body is read and dropped,
 * which also is what lets every client see it; only where that would take too long, or the client
 * waits for a "100 Continue", the first is used.
 *
 * While the owner is at work the connection is suspended: the library does not look at it, and
 * does not count its idle time.
 */
#include "http/private.h"

#include <assert.h>
#include <string.h>

struct http_request *request_new(struct http_connection *connection, const char *raw_target)
{
	struct http_request *request = calloc(1, sizeof(*request));
	if (!request)
		return NULL;
	request->server = connection->server;
	request->connection = connection;
	request->body = buf_make(connection->server->config.body_limit);
	request->stream_limit = connection->server->config.stream_limit;
	request->reply_tail = &request->reply_headers;
	list_init(&request->due_link);
	list_append(&request->server->requests, &request->link);
	request->raw_target = arena_copy(&request->arena, raw_target, strlen(raw_target));
	if (!request->raw_target) {
		request_free(request);
		return NULL;
	}
	return request;
}

void request_free(struct http_request *request)
{
	upgrade_fail(request);
	if (request->is_shown && request->server->config.on_done)
		request->server->config.on_done(request);
	list_remove(&request->link);
	list_remove(&request->due_link);
	request->server->bodies -= request->held_body;
	request->server->answers -= request->held_answer;
	if (request->response)
		MHD_destroy_response(request->response);
	buf_deinit(&request->body);
	ring_deinit(&request->ring);
	arena_deinit(&request->arena);
	free(request);
}

/* ---- waiting and ending ---- */

void request_suspend(struct http_request *request)
{
	assert(!request->is_suspended);
	request->is_suspended = true;
	connection_set_deadline(request->connection, 0);
	MHD_suspend_connection(request->connection->mhd);
}

void request_wake(struct http_request *request)
{
	if (!request->is_suspended)
		return;
	request->is_suspended = false;
	MHD_resume_connection(request->connection->mhd);
	server_wake(request->server);
}

void request_set_due(struct http_request *request)
{
	list_remove(&request->due_link);
	list_append(&request->server->due, &request->due_link);
	server_wake(request->server);
}

static void tell_gone(struct http_request *request)
{
	if (request->is_finished || request->is_gone_told || !request->on_gone)
		return;
	request->is_gone_told = true;
	request->on_gone(request);
}

/* Whether the owner may still hold the request: it was handed over whole, or said that it wants
 * to know of its end. */
static bool is_held(const struct http_request *request)
{
	return !request->is_finished &&
	       (request->is_requested || request->is_answered || request->on_gone);
}

/* While the owner is at work its connection stays, so that abandoned work counts in the limit. */
void request_lose(struct http_request *request)
{
	if (request->is_gone)
		return;
	request->is_gone = true;
	ring_deinit(&request->ring);
	tell_gone(request);
	if (!is_held(request))
		request_wake(request);
}

void request_settle(struct http_request *request)
{
	if (request->is_gone)
		tell_gone(request);
	if (!request->connection && (!is_held(request) || request->server->is_ending))
		request_free(request);
}

void request_on_completed(struct http_request *request, bool is_complete)
{
	request->connection = NULL;
	request->is_suspended = false;
	ring_deinit(&request->ring);
	if (!is_complete || !request->is_finished) /* finished is not what has no body: HEAD */
		request_lose(request);
	if (!request->is_finished && request->is_full && request->on_drain)
		request->on_drain(request);
	request_settle(request);
}

/* ---- the head ---- */

static void refuse(struct http_request *request, unsigned status, const char *text)
{
	struct error err = { 0 };
	error_set(&err,
		status == 400   ? ERROR_INVALID
		: status == 503 ? ERROR_HOST_BUSY
				: ERROR_TOO_LARGE,
		"%s", text);
	reply_error(request, status, &err);
}

static size_t head_size(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
}

/* Whether it would take too long, or for ever, to read the body before the answer. */
static bool is_body_skipped(const struct http_request *request)
{
	if (request->content_length == 0)
		return false;
	return request->is_expecting || request->content_length > (int64_t)HTTP_DRAIN_LIMIT;
}

static void show_head(struct http_request *request)
{
	const struct http_config *config = &request->server->config;
	request->is_shown = true;
	config->on_head(request);
	if (!request->is_answered && !request->on_body &&
		request->content_length > (int64_t)config->body_limit)
		refuse(request, 413, "the body is too large");
}

static enum MHD_Result on_head(
	struct http_request *request, const char *url, const char *method, const char *version)
{
	struct error err = { 0 };
	struct MHD_Connection *mhd = request->connection->mhd;
	request->has_head = true;
	connection_set_busy(request->connection);
	if (!head_read(request, mhd, url, method, version, &err)) {
		reply_error(request, 400, &err);
		return reply_queue(request);
	}
	if (head_size(mhd) > HTTP_HEAD_LIMIT) {
		refuse(request, 431, "the head of the request is too large");
		return reply_queue(request);
	}
	connection_set_deadline(request->connection, HTTP_STALL_SECONDS);
	if (!target_parse(&request->target, &request->arena, request->raw_target, &err))
		reply_error(request, 400, &err);
	else
		show_head(request);
	if (request->is_answered && is_body_skipped(request))
		return reply_queue(request);
	return MHD_YES;
}

/* ---- the body ---- */

static enum MHD_Result drop_body(struct http_request *request, size_t *size)
{
	request->drained += *size;
	*size = 0;
	uint64_t limit = request->on_body ? HTTP_STREAM_DRAIN_LIMIT : HTTP_DRAIN_LIMIT;
	return request->drained <= limit ? MHD_YES : MHD_NO;
}

/* Whether all bodies together may have so much more. */
static bool is_body_affordable(const struct http_request *request, size_t size)
{
	const struct http_server *server = request->server;
	return server->config.held_limit == 0 || request->held_body + size <= HTTP_FREELY_HELD ||
	       server->bodies + size <= server->config.held_limit;
}

static enum MHD_Result collect_body(struct http_request *request, const char *bytes, size_t *size)
{
	if (!is_body_affordable(request, *size)) {
		buf_deinit(&request->body);
		refuse(request, 503, "too many large bodies are under way");
		return drop_body(request, size);
	}
	if (request->body.size == 0 && request->content_length > 0)
		buf_reserve(&request->body, (size_t)request->content_length);
	if (!buf_append(&request->body, bytes, *size)) {
		buf_deinit(&request->body);
		refuse(request, 413, "the body is too large");
		return drop_body(request, size);
	}
	request->held_body += *size;
	request->server->bodies += *size;
	*size = 0;
	return MHD_YES;
}

static enum MHD_Result stream_body(struct http_request *request, const char *bytes, size_t *size)
{
	while (*size > 0 && !request->is_answered) {
		request->is_body_stalled = true; /* a resume inside on_body takes it back */
		size_t taken = request->on_body(request, bytes, *size);
		assert(taken <= *size);
		if (taken == 0 && request->is_body_stalled && !request->is_answered) {
			request_suspend(request);
			return MHD_YES;
		}
		request->is_body_stalled = false;
		bytes += taken;
		*size -= taken;
	}
	return *size > 0 ? drop_body(request, size) : MHD_YES;
}

static enum MHD_Result take_body(struct http_request *request, const char *bytes, size_t *size)
{
	connection_set_deadline(request->connection, HTTP_STALL_SECONDS);
	if (request->is_answered)
		return drop_body(request, size);
	if (request->on_body)
		return stream_body(request, bytes, size);
	return collect_body(request, bytes, size);
}

/* ---- the whole request ---- */

static enum MHD_Result on_whole(struct http_request *request)
{
	connection_set_deadline(request->connection, 0);
	if (!request->is_answered && !request->is_requested) {
		request->is_requested = true;
		buf_text(&request->body); /* for its NUL */
		request->server->config.on_request(request);
	}
	if (request->is_answered)
		return reply_queue(request);
	request_suspend(request);
	if (request->connection->is_hung_up)
		request_lose(request);
	return MHD_YES;
}

enum MHD_Result request_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *bytes, size_t *size, void **context)
{
	struct http_server *server = cls;
	struct http_request *request = *context;
	server->calls++;
	if (!request || request->is_gone)
		return MHD_NO; /* out of memory when it began; or nobody is there: close */
	if (!request->has_head)
		return on_head(request, url, method, version);
	return *size > 0 ? take_body(request, bytes, size) : on_whole(request);
}

void http_request_stream_body(struct http_request *request, http_on_body on_body)
{
	assert(!request->is_requested && request->body.size == 0);
	request->on_body = on_body;
}

void http_request_resume_body(struct http_request *request)
{
	if (!request->is_body_stalled)
		return;
	request->is_body_stalled = false;
	if (request->connection)
		request_wake(request);
}

void http_request_on_gone(struct http_request *request, http_event on_gone)
{
	request->on_gone = on_gone;
	if (request->is_gone && !request->is_gone_told)
		request_set_due(request);
}
