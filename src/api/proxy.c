/*
 * See proxy.h. Stages: init is asked for a connection; the request is written while the answer's
 * head is read; the answer is passed back.
 *
 * An answer cannot be sent before the request's body is in (http/server.h), and what of a body is
 * left when an answer was begun is dropped. So a head that comes early waits until the body is
 * through. If the server takes nothing of the body for a moment, or hangs up, it has no use for the
 * rest.
 *
 * One connection a request: kept ones would save 0.1 ms and need to know which server still
 * listens.
 */
#include "api/proxy.h"

#include "api/answer.h"
#include "api/inside.h"
#include "api/tunnel.h"
#include "base/fd.h"
#include "http/answer_body.h"
#include "http/ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define DESCRIPTORS 2
#define OUT_LIMIT ((size_t)64 << 10)
#define HEAD_ROOM ((size_t)96 << 10) /* of a request; what came in is at most 32 KiB */
#define CHUNK_OVERHEAD ((size_t)24)
#define READ_SIZE ((size_t)16 << 10)
#define READS_A_TURN 8
#define CONNECT_MS 10000
#define HEAD_MS 300000
#define BODY_MS 2000
#define MOST_INTERIMS 8

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

static void on_server(struct loop_source *source, uint32_t events);

bool proxy_is_upgrade(const struct http_request *request)
{
	return strcmp(http_request_method(request), "GET") == 0 &&
	       http_request_content_length(request) == 0 &&
	       http_request_names(request, "Connection", "upgrade") &&
	       http_request_names(request, "Upgrade", "websocket");
}

/* ---- ends ---- */

static void close_source(struct loop_source *source)
{
	loop_forget(source);
	fd_close(&source->fd);
}

static void proxy_free(struct proxy *proxy)
{
	proxied_leave(&proxy->guest);
	loop_timer_stop(&proxy->patience);
	close_source(&proxy->answer);
	close_source(&proxy->server);
	ring_deinit(&proxy->out);
	buf_deinit(&proxy->in);
	buf_deinit(&proxy->held);
	proxy->call->state = NULL;
	proxy->call->on_gone = NULL;
	proxy->call->on_body_end = NULL;
	api_return_descriptors(proxy->api, DESCRIPTORS);
	free(proxy);
}

static void fail(struct proxy *proxy, const struct error *err)
{
	struct call *call = proxy->call;
	bool is_answering = proxy->stage == ANSWERING;
	proxy_free(proxy);
	if (is_answering) /* the status is out: all that is left is to cut the connection */
		http_stream_abort(call->request);
	else
		answer_error(call, err);
}

static void fail_with(struct proxy *proxy, enum error_code code, const char *text)
{
	struct error err = { 0 };
	error_set(&err, code, "%s", text);
	fail(proxy, &err);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	fail(CONTAINER_OF(guest, struct proxy, guest), why);
}

static void on_gone(struct call *call)
{
	struct proxy *proxy = call->state;
	bool is_answering = proxy->stage == ANSWERING;
	proxy_free(proxy);
	call->is_answered = true;
	if (is_answering)
		http_stream_end(call->request);
	else
		answer_empty(call, 499);
}

static void finish(struct proxy *proxy)
{
	struct call *call = proxy->call;
	proxy_free(proxy);
	http_stream_end(call->request);
}

/* ---- patience ---- */

static void begin_answer(struct proxy *proxy);

static void on_patience(struct loop_timer *timer)
{
	struct proxy *proxy = CONTAINER_OF(timer, struct proxy, patience);
	if (proxy->stage == HOLDING) {
		proxy->is_upload_dead = true;
		return begin_answer(proxy);
	}
	if (proxy->is_connected)
		return fail_with(
			proxy, ERROR_UPSTREAM, "the server inside did not answer in 300 s");
	fail_with(proxy, ERROR_UPSTREAM, "the server inside took no connection in 10 s");
}

static void expect(struct proxy *proxy)
{
	int64_t ms = proxy->stage == HOLDING ? BODY_MS : proxy->is_connected ? HEAD_MS : CONNECT_MS;
	if (proxy->stage == ANSWERING)
		loop_timer_stop(&proxy->patience);
	else
		loop_timer_start(&proxy->api->loop, &proxy->patience, ms, on_patience);
}

/* Ends soon, outside of whatever is going on. */
static void give_up(struct proxy *proxy)
{
	proxy->is_connected = true;
	loop_timer_start(&proxy->api->loop, &proxy->patience, 0, on_patience);
}

/* ---- the socket ---- */

static uint32_t wanted_events(const struct proxy *proxy)
{
	uint32_t events = 0;
	bool reads = proxy->stage == ASKING || (proxy->stage == ANSWERING && proxy->held.size == 0);
	if (reads && !proxy->is_server_done)
		events |= EPOLLIN;
	if (!proxy->is_connected || (proxy->out.size > 0 && !proxy->is_upload_dead))
		events |= EPOLLOUT;
	return events;
}

static void watch(struct proxy *proxy)
{
	int fd = proxy->server.fd;
	uint32_t events = wanted_events(proxy);
	if (fd < 0)
		return;
	if (events == 0)
		return loop_forget(&proxy->server);
	if (proxy->server.loop)
		return loop_rewatch(&proxy->server, events);
	if (loop_watch(&proxy->api->loop, &proxy->server, fd, events, on_server, NULL))
		return;
	proxy->server.fd = fd;
	give_up(proxy);
}

/* ---- the request's body ---- */

/* The server takes no more of it. */
static void drop_upload(struct proxy *proxy)
{
	proxy->is_upload_dead = true;
	ring_deinit(&proxy->out);
	http_request_resume_body(proxy->call->request);
}

static void write_some(struct proxy *proxy)
{
	const char *bytes;
	size_t size;
	bool has_written = false;
	while (!proxy->is_upload_dead && (size = ring_peek(&proxy->out, &bytes)) > 0) {
		ssize_t n = send(proxy->server.fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			drop_upload(proxy);
		if (n < 0)
			break;
		ring_drop(&proxy->out, (size_t)n);
		has_written = true;
	}
	if (!has_written)
		return;
	expect(proxy);
	if (proxy->out.size < OUT_LIMIT / 2)
		http_request_resume_body(proxy->call->request);
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
		watch(proxy);
	else
		give_up(proxy);
	return size;
}

static void on_body_end(struct call *call)
{
	struct proxy *proxy = call->state;
	proxy->is_body_done = true;
	if (http_request_content_length(call->request) < 0 && !proxy->is_upload_dead &&
		!ring_put(&proxy->out, "0\r\n\r\n", 5))
		return give_up(proxy);
	if (proxy->stage == HOLDING)
		return begin_answer(proxy);
	watch(proxy);
}

/* ---- the answer's body ---- */

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
		return fail(proxy, NULL);
	if (proxy->held.size > 0)
		return watch(proxy);
	if (proxy->body.state == ANSWER_BODY_DONE)
		return finish(proxy);
	if (!proxy->is_server_done)
		return watch(proxy);
	if (answer_body_is_whole(&proxy->body))
		finish(proxy);
	else
		fail(proxy, NULL);
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

static void begin_answer(struct proxy *proxy)
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
		return fail(proxy, &err);
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
		return fail_with(proxy, ERROR_UPSTREAM,
			"the server inside changed to a protocol that nobody asked for");
	}
	proxy->stage = HOLDING;
	if (proxy->is_body_done || proxy->is_upload_dead)
		return begin_answer(proxy);
	expect(proxy);
	watch(proxy);
}

/* Looks for heads in what has come: interim ones are dropped. May end it all. */
static void read_head(struct proxy *proxy)
{
	struct error err = { 0 };
	for (;;) {
		if (!answer_head_find(proxy->in.bytes, proxy->in.size, &proxy->head_scanned,
			    &proxy->head_size, &err))
			return fail(proxy, &err);
		if (proxy->head_size == 0)
			return;
		if (!answer_head_parse(proxy->head, proxy->in.bytes, proxy->head_size, &err))
			return fail(proxy, &err);
		if (proxy->head->status >= 200 || proxy->head->status == 101)
			return take_head(proxy);
		if (++proxy->interims > MOST_INTERIMS)
			return fail_with(proxy, ERROR_UPSTREAM,
				"the server inside gives interim answers only");
		buf_consume(&proxy->in, proxy->head_size);
		proxy->head_scanned = 0;
		if (proxy->in.size == 0)
			return;
	}
}

/* ---- reading ---- */

static void on_server_end(struct proxy *proxy)
{
	proxy->is_server_done = true;
	if (proxy->stage == ANSWERING)
		return deliver(proxy);
	fail_with(proxy, ERROR_UPSTREAM, "the server inside hung up before it answered");
}

enum reading { READ_SOME, READ_NOTHING, READ_END };

static enum reading read_once(struct proxy *proxy)
{
	char *room = buf_reserve(&proxy->in, READ_SIZE);
	ssize_t n;
	if (!room)
		return READ_END;
	do
		n = recv(proxy->server.fd, room, READ_SIZE, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return READ_NOTHING;
	if (n <= 0)
		return READ_END;
	proxy->in.size += (size_t)n;
	return READ_SOME;
}

static void read_some(struct proxy *proxy)
{
	struct call *call = proxy->call;
	for (unsigned n = 0; n < READS_A_TURN && wanted_events(proxy) & EPOLLIN; n++) {
		enum reading reading = read_once(proxy);
		if (reading == READ_END)
			return on_server_end(proxy);
		if (reading == READ_NOTHING)
			return watch(proxy);
		if (proxy->stage == ASKING)
			read_head(proxy);
		else
			deliver(proxy);
		if (call->state != proxy)
			return; /* it has ended */
	}
	watch(proxy);
}

/* False: it has ended. */
static bool check_connection(struct proxy *proxy)
{
	int os_error = 0;
	socklen_t size = sizeof(os_error);
	if (proxy->is_connected)
		return true;
	getsockopt(proxy->server.fd, SOL_SOCKET, SO_ERROR, &os_error, &size);
	if (os_error) {
		fail_with(proxy, ERROR_PORT_CLOSED, "nothing in the sandbox listens on that port");
		return false;
	}
	proxy->is_connected = true;
	expect(proxy);
	return true;
}

static void on_server(struct loop_source *source, uint32_t events)
{
	struct proxy *proxy = CONTAINER_OF(source, struct proxy, server);
	if (!check_connection(proxy))
		return;
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		write_some(proxy);
	if (proxy->stage == HOLDING && proxy->is_upload_dead)
		return begin_answer(proxy);
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		return read_some(proxy);
	watch(proxy);
}

/* ---- the beginning ---- */

static void on_answer(struct loop_source *source, uint32_t events)
{
	struct proxy *proxy = CONTAINER_OF(source, struct proxy, answer);
	struct inside_gift gift;
	if (!inside_receive(source->fd, INSIDE_GIFT_TCP, &gift))
		return;
	close_source(source);
	if (gift.fd < 0 && gift.os_error != ECONNREFUSED)
		return fail_with(proxy, ERROR_UPSTREAM, "the sandbox could not make a connection");
	if (gift.fd < 0)
		return fail_with(
			proxy, ERROR_PORT_CLOSED, "nothing in the sandbox listens on that port");
	proxy->server.fd = gift.fd;
	proxy->stage = ASKING;
	watch(proxy);
}

static bool ask(struct proxy *proxy, struct sandbox *sandbox, struct error *err)
{
	struct inside_request request = { .op = INSIDE_CONNECT, .port = proxy->exposure.port };
	int pair[2];
	if (!inside_pair(SOCK_SEQPACKET, pair, err))
		return false;
	bool is_asked =
		inside_ask(sandbox, &request, &pair[1], 1, err) &&
		loop_watch(&proxy->api->loop, &proxy->answer, pair[0], EPOLLIN, on_answer, err);
	proxy->answer.fd = pair[0];
	close(pair[1]);
	return is_asked;
}

static bool put_head(struct proxy *proxy, struct error *err)
{
	cleanup_buf struct buf head = buf_make(HEAD_ROOM);
	proxy->head = http_request_alloc(proxy->call->request, sizeof(*proxy->head));
	if (!proxy->head || !forward_request(&head, proxy->call->request, &proxy->exposure) ||
		!ring_put(&proxy->out, head.bytes, head.size))
		return error_no_memory(err), false;
	return true;
}

static struct proxy *proxy_new(
	struct call *call, const struct exposure *exposure, struct error *err)
{
	if (!api_take_descriptors(call->api, DESCRIPTORS, err))
		return NULL;
	struct proxy *proxy = calloc(1, sizeof(*proxy));
	if (!proxy) {
		api_return_descriptors(call->api, DESCRIPTORS);
		return error_no_memory(err);
	}
	*proxy = (struct proxy){ .call = call,
		.api = call->api,
		.exposure = *exposure,
		.answer.fd = -1,
		.server.fd = -1,
		.in = buf_make(ANSWER_HEAD_LIMIT + READ_SIZE),
		.held = buf_make(2 * READ_SIZE + ANSWER_HEAD_LIMIT),
		.is_body_done = http_request_content_length(call->request) == 0 };
	return proxy;
}

void proxy_start(struct call *call, struct sandbox *sandbox, const struct exposure *exposure)
{
	struct error err = { 0 };
	struct proxy *proxy = proxy_new(call, exposure, &err);
	if (!proxy)
		return answer_error(call, &err);
	if (!proxied_enter(&proxy->guest, sandbox, on_sandbox_end, &err) ||
		!put_head(proxy, &err) || !ask(proxy, sandbox, &err))
		return fail(proxy, &err);
	call->state = proxy;
	call->on_gone = on_gone;
	call->on_body_end = on_body_end;
	if (!proxy->is_body_done)
		http_request_stream_body(call->request, on_body);
	expect(proxy);
}
