/*
 * See websocket.h. wslay reads and writes frames; the socket, patience and bounds are ours.
 *
 * Nothing is freed or told while wslay is at work (its callbacks run inside it): what has to be is
 * noted and done when it is out of the way, in settle(). After the closing handshake our side is
 * shut down and what still comes is dropped for a moment: closing a socket with unread bytes would
 * make the system throw away what was just sent.
 */
#include "http/private.h"

#include "base/clock.h"
#include "http/websocket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wslay/wslay.h>

#define HOLD_MS 100
#define BEAT_MS 20000
#define SILENCE_MS 60000
#define CLOSE_MS 5000
#define READS_A_TURN 16
/* Answers to pings wait in the same queue; a peer that sends them and reads nothing is not read. */
#define MOST_QUEUED 2048
#define MOST_WAITING 1024   /* messages of ours: each costs more memory than its bytes */
#define MOST_FRAGMENTS 1024 /* of a message: each is kept apart until it is whole */

enum phase { WAITING, OPEN, CLOSING, LINGERING, OVER };

struct websocket {
	struct loop *loop;                   /* not owned */
	const struct websocket_owner *owner; /* NULL: nobody wants to hear of it any more */
	void *state;
	wslay_event_context_ptr frames; /* owned */
	struct loop_source source;      /* its descriptor is owned; -1 before the handover */
	struct loop_timer hold, beat, patience;
	struct buf early; /* owned: what came together with the head */
	size_t early_taken;
	enum phase phase;
	enum websocket_code code; /* of the closing frame, which is due when all else is sent */
	const char *reason;       /* not owned */
	bool is_held, is_paused, is_full, is_closing, is_close_queued, is_at_work, is_dead;
	unsigned reads, fragments;
	int64_t heard_ms, taken_ms;
};

/* ---- wslay's side ---- */

static ssize_t no_bytes(struct websocket *socket, int code)
{
	wslay_event_set_error(socket->frames, code);
	return -1;
}

static ssize_t take_early(struct websocket *socket, uint8_t *bytes, size_t size)
{
	size = MIN(size, socket->early.size - socket->early_taken);
	memcpy(bytes, socket->early.bytes + socket->early_taken, size);
	socket->early_taken += size;
	return (ssize_t)size;
}

static ssize_t on_read(
	wslay_event_context_ptr frames, uint8_t *bytes, size_t size, int flags, void *context)
{
	struct websocket *socket = context;
	if (socket->is_dead)
		return no_bytes(socket, WSLAY_ERR_CALLBACK_FAILURE);
	if (socket->is_paused || socket->reads++ >= READS_A_TURN ||
		wslay_event_get_queued_msg_count(frames) > MOST_QUEUED)
		return no_bytes(socket, WSLAY_ERR_WOULDBLOCK);
	if (socket->early_taken < socket->early.size)
		return take_early(socket, bytes, size);
	ssize_t n = TEMP_FAILURE_RETRY(recv(socket->source.fd, bytes, size, MSG_DONTWAIT));
	if (n < 0 && errno == EAGAIN)
		return no_bytes(socket, WSLAY_ERR_WOULDBLOCK);
	if (n <= 0) {
		socket->is_dead = true;
		return no_bytes(socket, WSLAY_ERR_CALLBACK_FAILURE);
	}
	socket->heard_ms = clock_monotonic_ms();
	return n;
}

static ssize_t on_write(
	wslay_event_context_ptr frames, const uint8_t *bytes, size_t size, int flags, void *context)
{
	struct websocket *socket = context;
	int more = flags & WSLAY_MSG_MORE ? MSG_MORE : 0;
	ssize_t n = TEMP_FAILURE_RETRY(
		send(socket->source.fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL | more));
	if (n < 0 && errno == EAGAIN)
		return no_bytes(socket, WSLAY_ERR_WOULDBLOCK);
	if (n < 0) {
		socket->is_dead = true;
		return no_bytes(socket, WSLAY_ERR_CALLBACK_FAILURE);
	}
	socket->taken_ms = clock_monotonic_ms();
	return n;
}

static void on_message(wslay_event_context_ptr frames,
	const struct wslay_event_on_msg_recv_arg *message, void *context)
{
	struct websocket *socket = context;
	bool is_text = message->opcode == WSLAY_TEXT_FRAME;
	socket->is_held = false;
	if (!is_text && message->opcode != WSLAY_BINARY_FRAME)
		return;
	if (socket->owner && !socket->is_closing)
		socket->owner->on_message(
			socket, is_text, (const char *)message->msg, message->msg_length);
}

static void on_frame(wslay_event_context_ptr frames,
	const struct wslay_event_on_frame_recv_start_arg *frame, void *context)
{
	struct websocket *socket = context;
	if (frame->opcode == WSLAY_TEXT_FRAME || frame->opcode == WSLAY_BINARY_FRAME)
		socket->fragments = 0;
	else if (frame->opcode == WSLAY_CONTINUATION_FRAME && ++socket->fragments > MOST_FRAGMENTS)
		socket->is_dead = true;
}

static const struct wslay_event_callbacks callbacks = {
	.recv_callback = on_read,
	.send_callback = on_write,
	.on_frame_recv_start_callback = on_frame,
	.on_msg_recv_callback = on_message,
};

/* ---- ends ---- */

static void destroy(struct websocket *socket)
{
	loop_timer_stop(&socket->hold);
	loop_timer_stop(&socket->beat);
	loop_timer_stop(&socket->patience);
	loop_close(&socket->source);
	buf_deinit(&socket->early);
	wslay_event_context_free(socket->frames);
	free(socket);
}

/* Tells the owner, who frees it; or frees it where there is none. */
static void end(struct websocket *socket)
{
	const struct websocket_owner *owner = socket->owner;
	socket->phase = OVER;
	loop_timer_stop(&socket->patience);
	loop_timer_stop(&socket->beat);
	loop_timer_stop(&socket->hold);
	loop_forget(&socket->source);
	if (owner)
		owner->on_end(socket);
	else
		destroy(socket);
}

void websocket_free(struct websocket *socket)
{
	if (!socket)
		return;
	socket->owner = NULL;
	if (!socket->is_at_work && socket->phase != WAITING)
		destroy(socket);
}

static void on_patience(struct loop_timer *timer)
{
	end(CONTAINER_OF(timer, struct websocket, patience));
}

static void expect(struct websocket *socket)
{
	loop_timer_start(socket->loop, &socket->patience, CLOSE_MS, on_patience);
}

/* All is said on both sides. */
static void linger(struct websocket *socket)
{
	socket->phase = LINGERING;
	loop_timer_stop(&socket->beat);
	shutdown(socket->source.fd, SHUT_WR);
	expect(socket);
	loop_rewatch(&socket->source, EPOLLIN);
}

static void drop_what_comes(struct websocket *socket)
{
	char bytes[4096];
	ssize_t n;
	for (unsigned i = 0; i < READS_A_TURN; i++) {
		n = recv(socket->source.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n <= 0)
			break;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		end(socket);
}

/* ---- turns ---- */

static void on_ready(struct loop_source *source, uint32_t events);

/* What it wants of its socket now. */
static void watch(struct websocket *socket)
{
	bool wants_read = !socket->is_paused && wslay_event_want_read(socket->frames) &&
			  wslay_event_get_queued_msg_count(socket->frames) <= MOST_QUEUED;
	bool wants_close = socket->is_closing && !socket->is_close_queued;
	bool wants_write =
		!socket->is_held && (wants_close || wslay_event_want_write(socket->frames));
	bool has_early = wants_read && socket->early_taken < socket->early.size;
	uint32_t events = 0;
	if (wants_read || socket->is_paused)
		events |= EPOLLRDHUP;
	if (wants_read)
		events |= EPOLLIN;
	if (wants_write || has_early)
		events |= EPOLLOUT;
	loop_rewatch(&socket->source, events);
}

/* Whether that part of what may be queued is. */
static bool is_loaded(const struct websocket *socket, unsigned divisor)
{
	return wslay_event_get_queued_msg_length(socket->frames) >= WEBSOCKET_QUEUE / divisor ||
	       wslay_event_get_queued_msg_count(socket->frames) >= MOST_WAITING / divisor;
}

static void tell_drained(struct websocket *socket)
{
	if (!socket->is_full || socket->is_closing || is_loaded(socket, 2))
		return;
	socket->is_full = false;
	if (socket->owner && socket->owner->on_drain)
		socket->owner->on_drain(socket);
}

static bool send_frames(struct websocket *socket)
{
	return socket->is_held || wslay_event_send(socket->frames) == 0;
}

/* wslay sends control frames ahead of messages, so the closing one waits here for its turn. */
static bool send_close(struct websocket *socket)
{
	if (!socket->is_closing || socket->is_close_queued ||
		wslay_event_get_queued_msg_count(socket->frames) > 0)
		return true;
	socket->is_close_queued = true;
	expect(socket);
	wslay_event_queue_close(socket->frames, (uint16_t)socket->code,
		(const uint8_t *)socket->reason, strlen(socket->reason));
	return send_frames(socket);
}

static void run_frames(struct websocket *socket)
{
	socket->is_at_work = true;
	socket->reads = 0;
	if (!socket->is_paused && wslay_event_recv(socket->frames) != 0)
		socket->is_closing = socket->is_close_queued =
			true; /* by wslay, after a bad frame */
	if (!socket->is_dead && !send_frames(socket))
		socket->is_dead = true;
	if (!socket->is_dead)
		tell_drained(socket);
	if (!socket->is_dead && !send_close(socket))
		socket->is_dead = true;
	socket->is_at_work = false;
}

/* Reads and writes what can be, then sees what is left to do. May free it. */
static void turn(struct websocket *socket)
{
	run_frames(socket);
	bool is_done =
		!wslay_event_want_read(socket->frames) && !wslay_event_want_write(socket->frames);
	if (!socket->owner || socket->is_dead)
		end(socket);
	else if (is_done)
		linger(socket);
	else
		watch(socket);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
	struct websocket *socket = CONTAINER_OF(source, struct websocket, source);
	if (socket->phase == LINGERING)
		return drop_what_comes(socket);
	/* A peer that shuts down without a closing frame is gone; while we do not read, this is all
	 * that is seen of it. */
	if (events & (EPOLLERR | EPOLLHUP) || (events & EPOLLRDHUP && socket->is_paused))
		return end(socket);
	turn(socket);
}

/* Runs it soon, outside of whatever is going on. */
static void stir(struct websocket *socket)
{
	if (!socket->is_at_work && socket->source.loop && socket->phase < LINGERING)
		watch(socket);
}

static void on_hold_over(struct loop_timer *timer)
{
	struct websocket *socket = CONTAINER_OF(timer, struct websocket, hold);
	socket->is_held = false;
	stir(socket);
}

static void on_beat(struct loop_timer *timer)
{
	struct websocket *socket = CONTAINER_OF(timer, struct websocket, beat);
	static const struct wslay_event_msg ping = { .opcode = WSLAY_PING };
	int64_t now_ms = clock_monotonic_ms();
	bool is_silent = !socket->is_paused && now_ms - socket->heard_ms > SILENCE_MS;
	bool is_stuck =
		wslay_event_want_write(socket->frames) && now_ms - socket->taken_ms > SILENCE_MS;
	if (is_silent || is_stuck)
		return end(socket);
	if (!wslay_event_want_write(socket->frames))
		socket->taken_ms = now_ms;
	wslay_event_queue_msg(socket->frames, &ping);
	loop_timer_start(socket->loop, timer, BEAT_MS, on_beat);
	stir(socket);
}

/* ---- the beginning ---- */

/* Inside the HTTP library: nothing is told from here, a timer does it. */
static void on_upgrade(void *context, int fd, const char *bytes, size_t size)
{
	struct websocket *socket = context;
	socket->phase = socket->is_closing ? CLOSING : OPEN;
	socket->heard_ms = socket->taken_ms = clock_monotonic_ms();
	bool is_good = fd >= 0 && socket->owner &&
		       (size == 0 || buf_append(&socket->early, bytes, size)) &&
		       loop_watch(socket->loop, &socket->source, fd, EPOLLRDHUP, on_ready, NULL);
	socket->source.fd = fd;
	if (!is_good) {
		loop_timer_start(socket->loop, &socket->patience, 0, on_patience);
		return;
	}
	loop_timer_start(socket->loop, &socket->hold, HOLD_MS, on_hold_over);
	loop_timer_start(socket->loop, &socket->beat, BEAT_MS, on_beat);
	loop_rewatch(&socket->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP); /* the early bytes */
}

struct websocket *websocket_accept(
	struct http_request *request, const struct websocket_owner *owner, void *state)
{
	struct websocket *socket = calloc(1, sizeof(*socket));
	if (!socket)
		return NULL;
	*socket = (struct websocket){ .loop = request->server->config.loop,
		.owner = owner,
		.state = state,
		.source.fd = -1,
		.early = buf_make(HTTP_CONNECTION_MEMORY),
		.is_held = true };
	if (wslay_event_context_server_init(&socket->frames, &callbacks, socket) != 0) {
		free(socket);
		return NULL;
	}
	wslay_event_config_set_max_recv_msg_length(socket->frames, WEBSOCKET_MESSAGE);
	char accept[WEBSOCKET_ACCEPT_TEXT];
	websocket_accept_text(http_request_header(request, "Sec-WebSocket-Key"), accept);
	http_reply_header(request, "Sec-WebSocket-Accept", accept);
	http_upgrade(request, "websocket", on_upgrade, socket);
	return socket;
}

void *websocket_state(const struct websocket *socket)
{
	return socket->state;
}

/* ---- the owner's side ---- */

bool websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t size)
{
	const struct wslay_event_msg message = {
		.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
		.msg = bytes,
		.msg_length = size,
	};
	if (socket->is_closing || socket->phase > OPEN || socket->is_dead)
		return true;
	if (wslay_event_queue_msg(socket->frames, &message) == WSLAY_ERR_NOMEM)
		socket->is_dead = true; /* ends in its next turn */
	stir(socket);
	socket->is_full = is_loaded(socket, 1);
	return !socket->is_full;
}

void websocket_pause(struct websocket *socket)
{
	socket->is_paused = true;
	stir(socket);
}

void websocket_resume(struct websocket *socket)
{
	socket->is_paused = false;
	socket->heard_ms = clock_monotonic_ms(); /* its silence was ours */
	stir(socket);
}

void websocket_close(struct websocket *socket, enum websocket_code code, const char *reason)
{
	if (socket->phase > OPEN || socket->is_closing)
		return;
	socket->code = code;
	socket->reason = reason;
	socket->is_closing = true;
	socket->is_paused = false;
	if (socket->phase == WAITING) /* on_upgrade goes on from there */
		return;
	socket->phase = CLOSING;
	stir(socket);
}
