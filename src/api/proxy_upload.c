/*
 * The body of a proxied request, on its way in: at most OUT_LIMIT of it wait for the server; beyond
 * that the client's sending is stalled.
 */
#include "api/proxy_private.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_LIMIT ((size_t)64 << 10)
#define CHUNK_OVERHEAD ((size_t)24)

/* The server takes no more of it. */
static void drop_upload(struct proxy *proxy)
{
	proxy->is_upload_dead = true;
	ring_deinit(&proxy->out);
	http_request_resume_body(proxy->call->request);
}

void proxy_write_some(struct proxy *proxy)
{
	const char *bytes;
	size_t size;
	bool has_written = false;
	while (!proxy->is_upload_dead && (size = ring_peek(&proxy->out, &bytes)) > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(
			send(proxy->server.fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL));
		if (n < 0 && errno != EAGAIN)
			drop_upload(proxy);
		if (n < 0)
			break;
		ring_drop(&proxy->out, (size_t)n);
		has_written = true;
	}
	if (!has_written)
		return;
	proxy_expect(proxy);
	if (proxy->out.size < OUT_LIMIT / 2)
		http_request_resume_body(proxy->call->request);
}

bool proxy_is_through(const struct proxy *proxy)
{
	return proxy->is_upload_dead || (proxy->is_body_done && proxy->out.size == 0);
}

static bool put_chunk(struct proxy *proxy, const char *bytes, size_t size)
{
	char head[CHUNK_OVERHEAD];
	int head_size = snprintf(head, sizeof(head), "%zx\r\n", size);
	return ring_put(&proxy->out, head, (size_t)head_size) &&
	       ring_put(&proxy->out, bytes, size) && ring_put(&proxy->out, "\r\n", 2);
}

static size_t on_body(struct http_request *request, const char *bytes, size_t size)
{
	struct call *call = http_request_data(request);
	struct proxy *proxy = call->state;
	if (!proxy || proxy->is_upload_dead)
		return size;
	if (proxy->out.size + CHUNK_OVERHEAD >= OUT_LIMIT)
		return 0;
	size = MIN(size, OUT_LIMIT - CHUNK_OVERHEAD - proxy->out.size);
	bool is_put = http_request_content_length(request) < 0 ? put_chunk(proxy, bytes, size)
							       : ring_put(&proxy->out, bytes, size);
	if (is_put)
		proxy_watch(proxy);
	else
		proxy_give_up(proxy);
	return size;
}

static void on_body_end(struct call *call)
{
	struct proxy *proxy = call->state;
	proxy->is_body_done = true;
	if (http_request_content_length(call->request) < 0 && !proxy->is_upload_dead &&
		!ring_put(&proxy->out, "0\r\n\r\n", 5))
		return proxy_give_up(proxy);
	if (proxy->stage == HOLDING && proxy_is_through(proxy))
		return proxy_begin_answer(proxy);
	proxy_watch(proxy);
}

void proxy_stream_body(struct proxy *proxy)
{
	proxy->call->on_body_end = on_body_end;
	if (!proxy->is_body_done)
		http_request_stream_body(proxy->call->request, on_body);
}
