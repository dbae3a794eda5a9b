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
#include "api/answer.h"
#include "api/inside.h"
#include "api/proxy_private.h"
#include "api/tunnel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 2
#define HEAD_ROOM ((size_t)96 << 10) /* of a request; what came in is at most 32 KiB */
#define READS_A_TURN 8
#define CONNECT_MS 10000
#define HEAD_MS 300000
#define BODY_MS 2000

static void on_server(struct loop_source *source, uint32_t events);

bool proxy_is_upgrade(const struct http_request *request)
{
	return strcmp(http_request_method(request), "GET") == 0 &&
	       http_request_content_length(request) == 0 &&
	       http_request_names(request, "Connection", "upgrade") &&
	       http_request_names(request, "Upgrade", "websocket");
}

/* ---- ends ---- */

void proxy_free(struct proxy *proxy)
{
	proxied_leave(&proxy->guest);
	loop_timer_stop(&proxy->patience);
	loop_close(&proxy->answer);
	loop_close(&proxy->server);
	ring_deinit(&proxy->out);
	buf_deinit(&proxy->in);
	buf_deinit(&proxy->held);
	proxy->call->state = NULL;
	proxy->call->on_gone = NULL;
	proxy->call->on_body_end = NULL;
	api_return_descriptors(proxy->api, DESCRIPTORS);
	free(proxy);
}

void proxy_fail(struct proxy *proxy, const struct error *err)
{
	struct call *call = proxy->call;
	bool is_answering = proxy->stage == ANSWERING;
	proxy_free(proxy);
	if (is_answering) /* the status is out: all that is left is to cut the connection */
		http_stream_abort(call->request);
	else
		answer_error(call, err);
}

void proxy_fail_with(struct proxy *proxy, enum error_code code, const char *text)
{
	struct error err = { 0 };
	error_set(&err, code, "%s", text);
	proxy_fail(proxy, &err);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	proxy_fail(CONTAINER_OF(guest, struct proxy, guest), why);
}

/* The server stands still, so it is waited for no longer. */
static void on_pause(struct guest *guest, int64_t lasted_us)
{
	struct proxy *proxy = CONTAINER_OF(guest, struct proxy, guest);
	if (lasted_us < 0)
		loop_timer_halt(&proxy->patience);
	else
		loop_timer_go_on(&proxy->api->loop, &proxy->patience);
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
		answer_gone(call);
}

/* ---- patience ---- */

static void on_patience(struct loop_timer *timer)
{
	struct proxy *proxy = CONTAINER_OF(timer, struct proxy, patience);
	if (proxy->stage == HOLDING) {
		proxy->is_upload_dead = true;
		return proxy_begin_answer(proxy);
	}
	if (proxy->is_connected)
		return proxy_fail_with(
			proxy, ERROR_UPSTREAM, "the server inside did not answer in 300 s");
	proxy_fail_with(proxy, ERROR_UPSTREAM, "the server inside took no connection in 10 s");
}

void proxy_expect(struct proxy *proxy)
{
	int64_t ms = proxy->stage == HOLDING ? BODY_MS : proxy->is_connected ? HEAD_MS : CONNECT_MS;
	if (proxy->stage == ANSWERING)
		loop_timer_stop(&proxy->patience);
	else
		loop_timer_start(&proxy->api->loop, &proxy->patience, ms, on_patience);
	if (sandbox_is_paused(proxy->guest.sandbox))
		loop_timer_halt(&proxy->patience);
}

void proxy_give_up(struct proxy *proxy)
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

void proxy_watch(struct proxy *proxy)
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
	proxy_give_up(proxy);
}

/* ---- reading ---- */

enum reading { READ_SOME, READ_NOTHING, READ_END };

static enum reading read_once(struct proxy *proxy)
{
	char *room = buf_reserve(&proxy->in, READ_SIZE);
	if (!room)
		return READ_END;
	ssize_t n = TEMP_FAILURE_RETRY(recv(proxy->server.fd, room, READ_SIZE, MSG_DONTWAIT));
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
			return proxy_on_server_end(proxy);
		if (reading == READ_NOTHING)
			return proxy_watch(proxy);
		proxy_take_answer(proxy);
		if (call->state != proxy)
			return; /* it has ended */
	}
	proxy_watch(proxy);
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
		proxy_fail_with(
			proxy, ERROR_PORT_CLOSED, "nothing in the sandbox listens on that port");
		return false;
	}
	proxy->is_connected = true;
	proxy_expect(proxy);
	return true;
}

static void on_server(struct loop_source *source, uint32_t events)
{
	struct proxy *proxy = CONTAINER_OF(source, struct proxy, server);
	if (!check_connection(proxy))
		return;
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		proxy_write_some(proxy);
	if (proxy->stage == HOLDING && proxy_is_through(proxy))
		return proxy_begin_answer(proxy);
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		return read_some(proxy);
	proxy_watch(proxy);
}

/* ---- the beginning ---- */

static void on_answer(struct loop_source *source, uint32_t events)
{
	struct proxy *proxy = CONTAINER_OF(source, struct proxy, answer);
	struct inside_gift gift;
	if (!inside_receive(source->fd, INSIDE_GIFT_TCP, &gift))
		return;
	loop_close(source);
	if (gift.fd < 0 && gift.os_error != ECONNREFUSED)
		return proxy_fail_with(
			proxy, ERROR_UPSTREAM, "the sandbox could not make a connection");
	if (gift.fd < 0)
		return proxy_fail_with(
			proxy, ERROR_PORT_CLOSED, "nothing in the sandbox listens on that port");
	proxy->server.fd = gift.fd;
	proxy->stage = ASKING;
	proxy_watch(proxy);
}

static bool ask(struct proxy *proxy, struct sandbox *sandbox, struct error *err)
{
	struct inside_request request = { .op = INSIDE_CONNECT, .port = proxy->exposure.port };
	return inside_ask_watched(sandbox, &request, &proxy->answer, on_answer, err);
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
		return proxy_fail(proxy, &err);
	proxy->guest.on_pause = on_pause;
	call->state = proxy;
	call->on_gone = on_gone;
	proxy_stream_body(proxy);
	proxy_expect(proxy);
}
