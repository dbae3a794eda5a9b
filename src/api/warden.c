/*
 * See warden.h. Answers are found by serial. An answer that nobody waits for any more may hold a
 * sandbox or a kernel: it is released again, so that nothing lives on unknown to us. Packets of a
 * wrong size end the channel; the keeper then brings a new one.
 */
#include "api/warden.h"

#include "api/api.h"
#include "api/events.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OUTGOING_LIMIT 16384
#define PACKETS_A_TURN 64
#define GREETING_MS 10000

struct outgoing {
	struct list link;
	size_t size;
	char bytes[];
};

static void on_ready(struct loop_source *source, uint32_t events);

/* What each packet from the warden must measure. */
static size_t packet_size(uint16_t op)
{
	switch (op) {
	case WARDEN_HELLO:
		return sizeof(struct warden_hello);
	case WARDEN_FAILED:
		return sizeof(struct warden_failed);
	case WARDEN_CLAIMED:
	case WARDEN_SANDBOX_ITEM:
		return sizeof(struct warden_claim);
	case WARDEN_KERNEL_STARTED:
	case WARDEN_KERNEL_ITEM:
		return sizeof(struct warden_kernel);
	case WARDEN_LIST_END:
		return sizeof(struct warden_plain);
	case WARDEN_PAUSED:
	case WARDEN_RESUMED:
		return sizeof(struct warden_release);
	case WARDEN_USAGE_ANSWER:
		return sizeof(struct warden_usage);
	case WARDEN_RUN_LATE:
		return sizeof(struct warden_run);
	case WARDEN_KERNEL_ENDED:
		return sizeof(struct warden_kernel_ended);
	case WARDEN_SANDBOX_ENDED:
		return sizeof(struct warden_sandbox_ended);
	}
	return 0;
}

void warden_init(struct warden *warden, struct api *api)
{
	*warden = (struct warden){ .api = api, .source.fd = -1 };
	list_init(&warden->requests);
	list_init(&warden->outgoing);
}

/* ---- sending ---- */

static void want_writing(struct warden *warden)
{
	loop_rewatch(&warden->source,
		EPOLLIN | (list_is_empty(&warden->outgoing) ? 0 : (uint32_t)EPOLLOUT));
}

static bool enqueue(struct warden *warden, const void *message, size_t size, struct error *err)
{
	struct outgoing *packet = NULL;
	if (warden->outgoing_count < OUTGOING_LIMIT)
		packet = malloc(sizeof(*packet) + size);
	if (!packet)
		return error_set(err, ERROR_HOST_FULL, "too many requests wait for the warden");
	packet->size = size;
	memcpy(packet->bytes, message, size);
	list_append(&warden->outgoing, &packet->link);
	warden->outgoing_count++;
	want_writing(warden);
	return true;
}

static bool send_now(struct warden *warden, const void *message, size_t size, struct error *err)
{
	struct error failure = { 0 };
	if (!warden->source.loop)
		return error_set(err, ERROR_HOST_FULL, "the warden is being started");
	if (!list_is_empty(&warden->outgoing))
		return enqueue(warden, message, size, err);
	if (wire_send(warden->source.fd, message, size, NULL, 0, &failure))
		return true;
	if (failure.os_error == EAGAIN)
		return enqueue(warden, message, size, err);
	return error_set(err, ERROR_HOST_FULL, "the warden cannot be reached");
}

static void drop_outgoing(struct warden *warden, struct outgoing *packet)
{
	list_remove(&packet->link);
	warden->outgoing_count--;
	free(packet);
}

static void send_waiting(struct warden *warden)
{
	while (!list_is_empty(&warden->outgoing)) {
		struct error failure = { 0 };
		struct outgoing *packet = LIST_FIRST(&warden->outgoing, struct outgoing, link);
		if (!wire_send(warden->source.fd, packet->bytes, packet->size, NULL, 0, &failure) &&
			failure.os_error == EAGAIN)
			break;
		drop_outgoing(warden, packet);
	}
	want_writing(warden);
}

static void fill_header(struct warden *warden, void *message, uint16_t op)
{
	if (++warden->last_serial == 0)
		warden->last_serial = 1;
	struct wire_header header = { op, WARDEN_VERSION, warden->last_serial };
	memcpy(message, &header, sizeof(header));
}

void warden_tell(struct warden *warden, uint16_t op, void *message, size_t size)
{
	struct error err = { 0 };
	fill_header(warden, message, op);
	if (warden->source.loop && !send_now(warden, message, size, &err))
		log_error("warden.send", NULL, &err);
}

/* ---- requests that wait ---- */

/* What is logged on the way names the client's request that led to the question. */
static void answer(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	char id[REQUEST_ID_SIZE]; /* the asker may be gone afterwards */
	const char *before = log_request();
	memcpy(id, request->for_request, sizeof(id));
	if (*id)
		log_set_request(id);
	request->on_answer(request, packet, err);
	log_set_request(before);
}

void warden_cancel(struct warden_request *request)
{
	if (!request->warden)
		return;
	request->warden = NULL;
	list_remove(&request->link);
	loop_timer_stop(&request->limit);
}

static void fail_request(struct warden_request *request, enum error_code code, const char *why)
{
	struct error err;
	error_set(&err, code, "%s", why);
	warden_cancel(request);
	answer(request, NULL, &err);
}

static void on_limit(struct loop_timer *timer)
{
	struct warden_request *request = CONTAINER_OF(timer, struct warden_request, limit);
	fail_request(request, ERROR_INTERNAL, "the warden did not answer in time");
}

bool warden_ask(struct warden *warden, struct warden_request *request, uint16_t op, void *message,
	size_t size, int64_t timeout_ms, warden_on_answer on_answer, struct error *err)
{
	fill_header(warden, message, op);
	if (!send_now(warden, message, size, err))
		return false;
	*request = (struct warden_request){
		.warden = warden, .serial = warden->last_serial, .on_answer = on_answer
	};
	snprintf(request->for_request, sizeof(request->for_request), "%s",
		log_request() ? log_request() : "");
	list_append(&warden->requests, &request->link);
	if (timeout_ms > 0)
		loop_timer_start(&warden->api->loop, &request->limit, timeout_ms, on_limit);
	return true;
}

static struct warden_request *find_request(struct warden *warden, uint32_t serial)
{
	LIST_EACH(&warden->requests, struct warden_request, link, request) {
		if (request->serial == serial)
			return request;
	}
	return NULL;
}

/* ---- receiving ---- */

static void answer_failed(struct warden_request *request, struct wire_packet *packet)
{
	struct warden_failed *failed = (void *)packet->bytes;
	struct error err;
	failed->message[sizeof(failed->message) - 1] = '\0';
	failed->hint[sizeof(failed->hint) - 1] = '\0';
	bool is_known = failed->code > ERROR_NONE && failed->code < ERROR_COUNT;
	error_set(&err, is_known ? (enum error_code)failed->code : ERROR_INTERNAL, "%s",
		failed->message);
	if (failed->hint[0])
		error_hint(&err, "%s", failed->hint);
	answer(request, NULL, &err);
}

static void handle_answer(struct warden *warden, struct wire_packet *packet)
{
	struct warden_request *request = find_request(warden, packet->header.serial);
	uint16_t op = packet->header.op;
	if (!request)
		return events_on_stray(warden->api, packet);
	if (op == WARDEN_SANDBOX_ITEM || op == WARDEN_KERNEL_ITEM)
		return answer(request, packet, NULL); /* more follow */
	warden_cancel(request);
	if (op == WARDEN_FAILED)
		answer_failed(request, packet);
	else
		answer(request, packet, NULL);
}

static bool handle_packet(struct warden *warden, struct wire_packet *packet, struct error *err)
{
	size_t size = packet_size(packet->header.op);
	if (packet->header.version != WARDEN_VERSION)
		return error_set(err, ERROR_PROTOCOL, "the warden speaks version %u, this api %u",
			packet->header.version, WARDEN_VERSION);
	if (size == 0 || size != packet->size)
		return error_set(err, ERROR_PROTOCOL, "the warden sent operation %u with %zu bytes",
			packet->header.op, packet->size);
	if (packet->header.serial != 0)
		handle_answer(warden, packet);
	else
		events_on_event(warden->api, packet);
	return true;
}

static void close_channel(struct warden *warden)
{
	loop_close(&warden->source);
	warden->is_ready = false;
	LIST_EACH(&warden->outgoing, struct outgoing, link, packet) {
		drop_outgoing(warden, packet);
	}
}

static void disconnect(struct warden *warden, const struct error *why)
{
	if (!warden->source.loop)
		return;
	log_error("warden.gone", NULL, why);
	close_channel(warden);
	while (!list_is_empty(&warden->requests))
		fail_request(LIST_FIRST(&warden->requests, struct warden_request, link),
			ERROR_HOST_FULL, "the warden was restarted");
	events_on_warden_gone(warden->api);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
	struct warden *warden = CONTAINER_OF(source, struct warden, source);
	if (events & EPOLLOUT)
		send_waiting(warden);
	for (unsigned n = 0; n < PACKETS_A_TURN; n++) {
		struct error err = { 0 };
		struct wire_packet packet;
		enum wire_result result = wire_receive(source->fd, &packet, &err);
		if (result == WIRE_NOTHING)
			return;
		if (result == WIRE_CLOSED)
			error_set(&err, ERROR_INTERNAL, "the warden hung up");
		bool is_good = result == WIRE_GOT && handle_packet(warden, &packet, &err);
		if (result == WIRE_GOT)
			wire_packet_deinit(&packet);
		if (!is_good)
			return disconnect(warden, &err);
		if (!source->loop)
			return;
	}
}

/* ---- the channel ---- */

static void on_listed(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct api *api = CONTAINER_OF(request, struct warden, listing)->api;
	if (!packet)
		return log_error("warden.list", NULL, err);
	if (packet->header.op == WARDEN_SANDBOX_ITEM)
		return events_on_sandbox_item(api, packet);
	if (packet->header.op == WARDEN_KERNEL_ITEM)
		return events_on_kernel_item(api, packet);
	api->warden.is_ready = true;
	events_on_list_end(api);
}

static void on_greeted(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct warden *warden = CONTAINER_OF(request, struct warden, hello);
	struct warden_plain list = { 0 };
	struct error failure = { 0 };
	if (!packet)
		return log_error("warden.hello", NULL, err);
	if (!warden_ask(warden, &warden->listing, WARDEN_LIST, &list, sizeof(list), GREETING_MS,
		    on_listed, &failure))
		log_error("warden.list", NULL, &failure);
}

void warden_connect(struct warden *warden, int fd)
{
	struct error err = { 0 };
	struct warden_hello hello = { 0 };
	if (warden->source.loop) {
		error_set(&err, ERROR_INTERNAL, "a new warden takes over");
		disconnect(warden, &err);
	}
	if (!fd_set_nonblocking(fd, true) ||
		!loop_watch(&warden->api->loop, &warden->source, fd, EPOLLIN, on_ready, &err)) {
		close(fd);
		return log_error("warden.connect", NULL, &err);
	}
	if (!warden_ask(warden, &warden->hello, WARDEN_HELLO, &hello, sizeof(hello), GREETING_MS,
		    on_greeted, &err))
		log_error("warden.hello", NULL, &err);
}

void warden_deinit(struct warden *warden)
{
	close_channel(warden);
	LIST_EACH(&warden->requests, struct warden_request, link, request) {
		warden_cancel(request);
	}
}
