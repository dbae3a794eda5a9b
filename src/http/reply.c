/*
 * Answers. A whole one is handed to the library as one buffer, which it sends with the head in one
 * write. A stream goes through a ring of ours: the library fetches from it when the socket has
 * room, and is suspended while there is nothing to fetch.
 */
#include "http/private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define STREAM_BLOCK ((size_t)128 << 10) /* of a sized stream, a write */

void http_reply_header(struct http_request *request, const char *name, const char *value)
{
	assert(!request->is_answered);
	assert(!strpbrk(name, "\r\n:") && !strpbrk(value, "\r\n"));
	struct http_reply_header *header = arena_alloc(&request->arena, sizeof(*header));
	if (!header)
		return;
	header->name = arena_copy(&request->arena, name, strlen(name));
	header->value = arena_copy(&request->arena, value, strlen(value));
	if (!header->name || !header->value)
		return;
	*request->reply_tail = header;
	request->reply_tail = &header->next;
}

void reply_add_headers(struct http_request *request, const char *type)
{
	if (type)
		MHD_add_response_header(request->response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(request->response, "X-Request-Id", request->id);
	for (struct http_reply_header *header = request->reply_headers; header;
		header = header->next)
		MHD_add_response_header(request->response, header->name, header->value);
}

void reply_proceed(struct http_request *request)
{
	if (request->connection)
		request_wake(request);
	else if (request->is_finished)
		request_set_due(request);
}

bool http_hold(struct http_request *request, size_t size)
{
	struct http_server *server = request->server;
	if (server->config.held_limit > 0 && size > HTTP_FREELY_HELD &&
		server->answers + size > server->config.held_limit)
		return false;
	request->held_answer += size;
	server->answers += size;
	return true;
}

void http_reply(struct http_request *request, unsigned status, const char *type, const void *bytes,
	size_t size)
{
	assert(!request->is_answered);
	request->is_answered = request->is_finished = true;
	request->status = status;
	if (!request->is_gone) {
		request->response = MHD_create_response_from_buffer(
			size, (void *)(uintptr_t)(size ? bytes : ""), MHD_RESPMEM_MUST_COPY);
		if (request->response)
			reply_add_headers(request, type);
	}
	reply_proceed(request);
}

void reply_error(struct http_request *request, unsigned status, const struct error *err)
{
	char text[512]; /* the messages are our own: nothing in them needs escaping */
	int size = snprintf(text, sizeof(text),
		"{\"error\": \"%s\", \"code\": \"%s\", \"request_id\": \"%s\"}", err->message,
		error_word(err->code), request->id);
	http_reply(request, status, "application/json", text, (size_t)size);
}

enum MHD_Result reply_queue(struct http_request *request)
{
	if (!request->response)
		return MHD_NO; /* out of memory */
	connection_set_deadline(request->connection, 0);
	enum MHD_Result result =
		MHD_queue_response(request->connection->mhd, request->status, request->response);
	MHD_destroy_response(request->response);
	request->response = NULL;
	return result;
}

/* ---- streams ---- */

static void tell_drained(struct http_request *request)
{
	if (!request->is_full || request->ring.size > request->stream_limit / 2)
		return;
	request->is_full = false;
	if (request->on_drain && !request->is_finished)
		request->on_drain(request);
}

static bool is_cut_short(const struct http_request *request)
{
	return request->is_finished && request->ring.size == 0 && request->stream_left > 0;
}

/* The library asks for bytes to send. */
static ssize_t on_fetch(void *cls, uint64_t position, char *bytes, size_t size)
{
	struct http_request *request = cls;
	request->server->calls++;
	if (request->is_gone || request->is_aborted || is_cut_short(request))
		return MHD_CONTENT_READER_END_WITH_ERROR;
	size_t taken = ring_take(&request->ring, bytes, size);
	tell_drained(request);
	if (taken > 0)
		return (ssize_t)taken;
	if (request->is_finished)
		return MHD_CONTENT_READER_END_OF_STREAM;
	request_suspend(request);
	if (request->connection->is_hung_up)
		request_lose(request);
	return 0;
}

/* The library would end the body of an unknown size also where there is none, and what comes behind
 * could not be told from it: such an answer is not in chunks, and ends its connection. */
static void leave_body_out(struct http_request *request)
{
	if (!request->is_sized && strcmp(http_request_method(request), "HEAD") == 0)
		MHD_set_response_options(
			request->response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
}

void http_stream_start(
	struct http_request *request, unsigned status, const char *type, int64_t size)
{
	assert(!request->is_answered);
	request->is_answered = request->is_stream = true;
	request->is_sized = size >= 0;
	request->stream_left = request->is_sized ? (uint64_t)size : 0;
	request->status = status;
	if (!request->is_gone) {
		request->response = MHD_create_response_from_callback(
			request->is_sized ? (uint64_t)size : MHD_SIZE_UNKNOWN, STREAM_BLOCK,
			on_fetch, request, NULL);
		if (request->response) {
			reply_add_headers(request, type);
			leave_body_out(request);
		}
	}
	reply_proceed(request);
}

/* Nothing that is written now will be sent. */
static bool is_deaf(const struct http_request *request)
{
	return request->is_gone || request->is_aborted || !request->connection;
}

bool http_stream_write(struct http_request *request, const void *bytes, size_t size)
{
	assert(request->is_stream && !request->is_finished);
	if (is_deaf(request))
		return true;
	if (request->is_sized)
		size = (size_t)MIN((uint64_t)size, request->stream_left);
	size_t limit = request->stream_limit;
	if (request->ring.size > 0 &&
		(request->ring.size >= limit || size > limit - request->ring.size)) {
		request->is_full = true;
		return false;
	}
	if (!ring_put(&request->ring, bytes, size))
		request->is_aborted = true; /* out of memory */
	else if (request->is_sized)
		request->stream_left -= size;
	reply_proceed(request);
	return true;
}

void http_stream_set_limit(struct http_request *request, size_t limit)
{
	request->stream_limit = limit;
}

size_t http_stream_pending(const struct http_request *request)
{
	return request->ring.size;
}

void http_stream_on_drain(struct http_request *request, http_event on_drain)
{
	request->on_drain = on_drain;
}

void http_stream_end(struct http_request *request)
{
	assert(request->is_stream && !request->is_finished);
	request->is_finished = true;
	reply_proceed(request);
}

void http_stream_abort(struct http_request *request)
{
	assert(request->is_stream && !request->is_finished);
	request->is_finished = request->is_aborted = true;
	reply_proceed(request);
}
