/* The answer to a proxied request, on its way out. What the client does not take stops the reading.
 */
#include "api/proxy_private.h"
#include "api/tunnel.h"

#include <string.h>

#define MOST_INTERIMS 8

/* ---- the answer's body ---- */

static void finish(struct proxy *proxy)
{
	struct call *call = proxy->call;
	proxy_free(proxy);
	http_stream_end(call->request);
}

/* Takes apart what has come, until the client takes no more. False: malformed. */
static bool decode(struct proxy *proxy)
{
	size_t at = 0, used = 0, size = 0;
	const char *bytes = NULL;
	while (at < proxy->in.size && proxy->held.size == 0 &&
		proxy->body.state != ANSWER_BODY_DONE) {
		if (!answer_body_next(&proxy->body, proxy->in.bytes + at, proxy->in.size - at,
			    &used, &bytes, &size))
			return false;
		at += used;
		if (size > 0 && !http_stream_write(proxy->call->request, bytes, size) &&
			!buf_append(&proxy->held, bytes, size))
			return false;
	}
	buf_consume(&proxy->in, at);
	return true;
}

/* Passes on what can be; may end it all. */
static void deliver(struct proxy *proxy)
{
	if (!decode(proxy))
		return proxy_fail(proxy, NULL);
	if (proxy->held.size > 0)
		return proxy_watch(proxy);
	if (proxy->body.state == ANSWER_BODY_DONE)
		return finish(proxy);
	if (!proxy->is_server_done)
		return proxy_watch(proxy);
	if (answer_body_is_whole(&proxy->body))
		finish(proxy);
	else
		proxy_fail(proxy, NULL);
}

static void on_drain(struct http_request *request)
{
	struct call *call = http_request_data(request);
	struct proxy *proxy = call->state;
	if (!proxy || !http_stream_write(request, proxy->held.bytes, proxy->held.size))
		return;
	proxy->held.size = 0;
	deliver(proxy);
}

/* ---- the answer's head ---- */

static bool has_body(const struct proxy *proxy)
{
	unsigned status = proxy->head->status;
	return strcmp(http_request_method(proxy->call->request), "HEAD") != 0 && status != 204 &&
	       status != 304;
}

void proxy_begin_answer(struct proxy *proxy)
{
	struct call *call = proxy->call;
	const struct answer_head *head = proxy->head;
	const char *type = answer_head_get(head, "Content-Type");
	bool is_without_body = head->status == 204 || head->status == 304;
	loop_timer_stop(&proxy->patience);
	forward_answer(call->request, head, &proxy->exposure);
	call->is_answered = true;
	if (is_without_body) {
		http_reply(call->request, head->status, type, NULL, 0);
		return proxy_free(proxy);
	}
	proxy->stage = ANSWERING;
	http_stream_on_drain(call->request, on_drain);
	http_stream_start(call->request, head->status, type,
		head->framing == ANSWER_SIZED ? (int64_t)head->size : -1);
	answer_body_init(&proxy->body, head, has_body(proxy));
	buf_consume(&proxy->in, proxy->head_size);
	deliver(proxy);
}

static void become_tunnel(struct proxy *proxy)
{
	static const char *const passed[] = { "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol",
		"Sec-WebSocket-Extensions" };
	struct http_request *request = proxy->call->request;
	struct error err = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		const char *value = answer_head_get(proxy->head, passed[i]);
		if (value)
			http_reply_header(request, passed[i], value);
	}
	struct sandbox *sandbox = proxy->guest.sandbox;
	proxied_leave(&proxy->guest); /* its place is the tunnel's */
	struct tunnel *tunnel = tunnel_new(sandbox, proxy->server.fd,
		proxy->in.bytes + proxy->head_size, proxy->in.size - proxy->head_size, &err);
	if (!tunnel)
		return proxy_fail(proxy, &err);
	loop_forget(&proxy->server);
	proxy->server.fd = -1;
	proxy->call->is_answered = true;
	proxy_free(proxy);
	http_upgrade(request, "websocket", tunnel_on_upgrade, tunnel);
}

/* Of the final answer. */
static void take_head(struct proxy *proxy)
{
	if (proxy->head->status == 101) {
		const char *protocol = answer_head_get(proxy->head, "Upgrade");
		if (proxy->exposure.is_upgrade && protocol &&
			http_list_names(protocol, "websocket"))
			return become_tunnel(proxy);
		return proxy_fail_with(proxy, ERROR_UPSTREAM,
			"the server inside changed to a protocol that nobody asked for");
	}
	proxy->stage = HOLDING;
	if (proxy_is_through(proxy))
		return proxy_begin_answer(proxy);
	proxy_expect(proxy);
	proxy_watch(proxy);
}

/* Looks for heads in what has come: interim ones are dropped. May end it all. */
static void read_head(struct proxy *proxy)
{
	struct error err = { 0 };
	for (;;) {
		if (!answer_head_find(proxy->in.bytes, proxy->in.size, &proxy->head_scanned,
			    &proxy->head_size, &err))
			return proxy_fail(proxy, &err);
		if (proxy->head_size == 0)
			return;
		if (!answer_head_parse(proxy->head, proxy->in.bytes, proxy->head_size, &err))
			return proxy_fail(proxy, &err);
		if (proxy->head->status >= 200 || proxy->head->status == 101)
			return take_head(proxy);
		if (++proxy->interims > MOST_INTERIMS)
			return proxy_fail_with(proxy, ERROR_UPSTREAM,
				"the server inside gives interim answers only");
		buf_consume(&proxy->in, proxy->head_size);
		proxy->head_scanned = 0;
		if (proxy->in.size == 0)
			return;
	}
}

/* ---- as it comes ---- */

void proxy_take_answer(struct proxy *proxy)
{
	if (proxy->stage == ASKING)
		read_head(proxy);
	else
		deliver(proxy);
}

void proxy_on_server_end(struct proxy *proxy)
{
	proxy->is_server_done = true;
	if (proxy->stage == ANSWERING)
		return deliver(proxy);
	proxy_fail_with(proxy, ERROR_UPSTREAM, "the server inside hung up before it answered");
}
