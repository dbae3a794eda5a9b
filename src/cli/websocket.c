/* See websocket.h. */
#include "cli/websocket.h"

#include "cli/http_private.h"

#include "base/clock.h"
#include "base/id.h"

#include <curl/curl.h>
#include <nettle/base64.h>
#include <nettle/sha1.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <wslay/wslay.h>

#define MESSAGE_LIMIT ((uint64_t)4 << 20)
#define HEAD_LIMIT ((size_t)64 << 10)
#define HANDSHAKE_MS 30000
#define NONCE_SIZE 16
#define KEY_TEXT (BASE64_ENCODE_RAW_LENGTH(NONCE_SIZE) + 1)
#define ACCEPT_TEXT (BASE64_ENCODE_RAW_LENGTH(SHA1_DIGEST_SIZE) + 1)
#define MAGIC "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

struct websocket {
	CURL *easy;                     /* owned */
	int fd;                         /* the easy handle's */
	wslay_event_context_ptr frames; /* owned */
	struct buf head; /* owned: the answer's head, then what came together with it */
	size_t head_taken;
	bool is_over;
	int64_t heard_ms;
	websocket_on_message on_message;
	void *data;
};

/* ---- wslay's side ---- */

static ssize_t no_bytes(struct websocket *socket, CURLcode code)
{
	socket->is_over = socket->is_over || code != CURLE_AGAIN;
	wslay_event_set_error(socket->frames,
		code == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static ssize_t on_read(
	wslay_event_context_ptr frames, uint8_t *bytes, size_t size, int flags, void *context)
{
	struct websocket *socket = context;
	size_t n = MIN(size, socket->head.size - socket->head_taken);
	if (n > 0) {
		memcpy(bytes, socket->head.bytes + socket->head_taken, n);
		socket->head_taken += n;
		return (ssize_t)n;
	}
	CURLcode code = curl_easy_recv(socket->easy, bytes, size, &n);
	if (code != CURLE_OK || n == 0)
		return no_bytes(socket, code == CURLE_OK ? CURLE_RECV_ERROR : code);
	socket->heard_ms = clock_monotonic_ms();
	return (ssize_t)n;
}

static ssize_t on_write(
	wslay_event_context_ptr frames, const uint8_t *bytes, size_t size, int flags, void *context)
{
	struct websocket *socket = context;
	size_t n = 0;
	CURLcode code = curl_easy_send(socket->easy, bytes, size, &n);
	return code == CURLE_OK ? (ssize_t)n : no_bytes(socket, code);
}

static int on_mask(wslay_event_context_ptr frames, uint8_t *bytes, size_t size, void *context)
{
	id_random(bytes, size);
	return 0;
}

static void on_message(wslay_event_context_ptr frames,
	const struct wslay_event_on_msg_recv_arg *message, void *context)
{
	struct websocket *socket = context;
	bool is_text = message->opcode == WSLAY_TEXT_FRAME;
	if (is_text || message->opcode == WSLAY_BINARY_FRAME)
		socket->on_message(
			socket->data, is_text, (const char *)message->msg, message->msg_length);
}

static const struct wslay_event_callbacks callbacks = { .recv_callback = on_read,
	.send_callback = on_write,
	.genmask_callback = on_mask,
	.on_msg_recv_callback = on_message };

/* ---- the handshake ---- */

static bool wait_for(struct websocket *socket, short events, int64_t end_ms)
{
	struct pollfd wait = { .fd = socket->fd, .events = events };
	int64_t left_ms = end_ms - clock_monotonic_ms();
	return left_ms > 0 && poll(&wait, 1, (int)left_ms) >= 0;
}

static bool send_all(struct websocket *socket, const struct buf *text, int64_t end_ms)
{
	for (size_t at = 0; at < text->size;) {
		size_t n = 0;
		CURLcode code = curl_easy_send(socket->easy, text->bytes + at, text->size - at, &n);
		if (code != CURLE_OK && !(code == CURLE_AGAIN && wait_for(socket, POLLOUT, end_ms)))
			return false;
		at += n;
	}
	return true;
}

/* Reads until the buffer holds `size` bytes or, for 0, the empty line that ends a head. */
static bool receive(struct websocket *socket, size_t size, int64_t end_ms)
{
	struct buf *head = &socket->head;
	for (;;) {
		const char *text = buf_text(head);
		if (size ? head->size >= size : text && strstr(text, "\r\n\r\n"))
			return true;
		char *room = buf_reserve(head, 4096);
		size_t n = 0;
		CURLcode code =
			room ? curl_easy_recv(socket->easy, room, 4096, &n) : CURLE_RECV_ERROR;
		if (code == CURLE_AGAIN ? !wait_for(socket, POLLIN, end_ms)
					: code != CURLE_OK || n == 0)
			return false;
		head->size += n;
	}
}

static bool ask(struct websocket *socket, const struct target *target, const char *url,
	const char *key, int64_t end_ms, struct error *err)
{
	cleanup_buf struct buf text = buf_make(HEAD_LIMIT);
	const char *host = strstr(url, "//") + 2, *path = strchr(host, '/');
	if (!path || !buf_printf(&text,
			     "GET %s HTTP/1.1\r\nHost: %.*s\r\nAuthorization: Bearer %s\r\n"
			     "User-Agent: sandglass/" SANDGLASS_VERSION "\r\n"
			     "Upgrade: websocket\r\nConnection: Upgrade\r\n"
			     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n",
			     path, (int)(path - host), host, target->key, key))
		return error_set(err, ERROR_INVALID, "the address is too long");
	if (!send_all(socket, &text, end_ms) || !receive(socket, 0, end_ms))
		return error_set(err, ERROR_INTERNAL, "the daemon did not answer the handshake");
	return true;
}

/* The value of a header of the answer, copied; "" without. */
static void find_header(const char *head, const char *name, char *value, size_t size)
{
	*value = '\0';
	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, strlen(name)) != 0 || line[strlen(name)] != ':')
			continue;
		const char *from = line + strlen(name) + 1;
		from += strspn(from, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(from, " \t\r\n"), from);
		return;
	}
}

static bool refuse(
	struct websocket *socket, long status, size_t head_size, int64_t end_ms, struct error *err)
{
	char length[24];
	find_header(buf_text(&socket->head), "Content-Length", length, sizeof(length));
	size_t size = MIN((size_t)strtoul(length, NULL, 10), HEAD_LIMIT / 2);
	if (size > 0)
		receive(socket, head_size + size, end_ms);
	struct http_answer answer = { .status = status,
		.json = json_loadb(
			socket->head.bytes + head_size, socket->head.size - head_size, 0, NULL) };
	http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	return false;
}

static void make_accept(const char *key, char text[ACCEPT_TEXT])
{
	struct sha1_ctx context;
	uint8_t digest[SHA1_DIGEST_SIZE];
	sha1_init(&context);
	sha1_update(&context, strlen(key), (const uint8_t *)key);
	sha1_update(&context, strlen(MAGIC), (const uint8_t *)MAGIC);
	sha1_digest(&context, sizeof(digest), digest);
	base64_encode_raw(text, sizeof(digest), digest);
	text[ACCEPT_TEXT - 1] = '\0';
}

static bool shake_hands(
	struct websocket *socket, const struct target *target, const char *url, struct error *err)
{
	uint8_t nonce[NONCE_SIZE];
	char key[KEY_TEXT], wanted[ACCEPT_TEXT], accept[64];
	int64_t end_ms = clock_monotonic_ms() + HANDSHAKE_MS;
	id_random(nonce, sizeof(nonce));
	base64_encode_raw(key, sizeof(nonce), nonce);
	key[KEY_TEXT - 1] = '\0';
	if (!ask(socket, target, url, key, end_ms, err))
		return false;
	const char *head = buf_text(&socket->head);
	size_t head_size = (size_t)(strstr(head, "\r\n\r\n") - head) + 4;
	long status = strncmp(head, "HTTP/1.1 ", 9) == 0 ? strtol(head + 9, NULL, 10) : 0;
	if (status != 101)
		return refuse(socket, status, head_size, end_ms, err);
	make_accept(key, wanted);
	find_header(head, "Sec-WebSocket-Accept", accept, sizeof(accept));
	if (strcmp(accept, wanted) != 0)
		return error_set(err, ERROR_INTERNAL, "what answers there is no WebSocket");
	socket->head_taken = head_size;
	return true;
}

/* ---- life ---- */

static bool connect_to(
	struct websocket *socket, const struct target *target, const char *url, struct error *err)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	socket->easy = curl_easy_init();
	if (!socket->easy)
		return error_no_memory(err), false;
	http_prepare_common(socket->easy, url);
	curl_easy_setopt(socket->easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(socket->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
	if (curl_easy_perform(socket->easy) != CURLE_OK ||
		curl_easy_getinfo(socket->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
		fd == CURL_SOCKET_BAD)
		return error_set(err, ERROR_INTERNAL, "no daemon answers at %s", target->api);
	socket->fd = fd;
	return true;
}

struct websocket *websocket_connect(const struct target *target, const char *path,
	websocket_on_message on_message_function, void *data, struct error *err)
{
	cleanup_buf struct buf url = buf_make(HEAD_LIMIT / 2);
	CLEANUP(websocket_free) struct websocket *socket = calloc(1, sizeof(*socket));
	if (!socket)
		return error_no_memory(err);
	*socket = (struct websocket){ .head = buf_make(HEAD_LIMIT),
		.fd = -1,
		.heard_ms = clock_monotonic_ms(),
		.on_message = on_message_function,
		.data = data };
	if (!http_address(target, path, &url, err) ||
		!connect_to(socket, target, buf_text(&url), err) ||
		!shake_hands(socket, target, buf_text(&url), err))
		return NULL;
	if (wslay_event_context_client_init(&socket->frames, &callbacks, socket) != 0)
		return error_no_memory(err);
	wslay_event_config_set_max_recv_msg_length(socket->frames, MESSAGE_LIMIT);
	return TAKE(&socket);
}

struct websocket *websocket_free(struct websocket *socket)
{
	if (!socket)
		return NULL;
	if (socket->frames)
		wslay_event_context_free(socket->frames);
	if (socket->easy)
		curl_easy_cleanup(socket->easy);
	buf_deinit(&socket->head);
	free(socket);
	return NULL;
}

int websocket_fd(const struct websocket *socket)
{
	return socket->fd;
}

short websocket_events(const struct websocket *socket)
{
	return wslay_event_want_write(socket->frames) ? POLLIN | POLLOUT : POLLIN;
}

bool websocket_has_room(const struct websocket *socket)
{
	return wslay_event_get_queued_msg_length(socket->frames) < WEBSOCKET_QUEUE;
}

bool websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t size)
{
	const struct wslay_event_msg message = { is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
		bytes, size };
	return wslay_event_queue_msg(socket->frames, &message) == 0;
}

bool websocket_turn(struct websocket *socket)
{
	if (wslay_event_recv(socket->frames) != 0 || wslay_event_send(socket->frames) != 0)
		socket->is_over = true;
	return !socket->is_over && !wslay_event_get_close_received(socket->frames);
}

int64_t websocket_silence_ms(const struct websocket *socket)
{
	return clock_monotonic_ms() - socket->heard_ms;
}
