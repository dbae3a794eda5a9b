/*
 * Frames of a client, with wslay behind a socket as in the daemon. First byte: how much came
 * together with the head. Every message is within its bound, on_end comes once and last, and the
 * messages do not depend on how the bytes were cut.
 */
#include "request.h"

#include "http/websocket.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define SENT ((size_t)32 << 10) /* what a socket takes at once */

struct seen {
	struct loop loop;
	uint64_t sum;
	unsigned messages, ends;
};

static void on_message(struct websocket *socket, bool is_text, const char *bytes, size_t size)
{
	struct seen *seen = websocket_state(socket);
	assert(seen->ends == 0 && size <= WEBSOCKET_MESSAGE);
	for (size_t i = 0; i < size; i++)
		seen->sum = seen->sum * 31 + (uint8_t)bytes[i];
	seen->sum = seen->sum * 31 + is_text;
	seen->messages++;
	websocket_send(socket, is_text, bytes, size < 100 ? size : 100);
}

static void on_end(struct websocket *socket)
{
	struct seen *seen = websocket_state(socket);
	seen->ends++;
	websocket_free(socket);
	loop_stop(&seen->loop);
}

static const struct websocket_owner owner = { .on_message = on_message, .on_end = on_end };

static void hand_over(struct fuzz_request *made, int fd, const uint8_t *bytes, size_t size)
{
	made->request.on_upgrade(
		made->request.upgrade_context, fd, size ? (const char *)bytes : NULL, size);
	made->request.on_upgrade = NULL;
}

static struct seen try(const uint8_t *bytes, size_t size, size_t early)
{
	static char head[] = "/\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
	char text[sizeof(head)];
	struct seen seen = { 0 };
	struct error err;
	struct fuzz_request made;
	int pair[2];
	memcpy(text, head, sizeof(head));
	assert(fuzz_request_make(&made, text) && loop_init(&seen.loop, &err));
	made.server.config.loop = &seen.loop;
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	assert(websocket_accept(&made.request, &owner, &seen));
	assert(write(pair[1], bytes + early, size - early) == (ssize_t)(size - early));
	shutdown(pair[1], SHUT_WR);
	hand_over(&made, pair[0], bytes, early);
	assert(loop_run(&seen.loop, &err) && seen.ends == 1);
	close(pair[1]);
	loop_deinit(&seen.loop);
	fuzz_request_free(&made);
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const uint8_t first[] = { 0x81, 0x81, 0, 0, 0, 0, 'x' }; /* ends the hold */
	static uint8_t sent[SENT + sizeof(first)];
	if (size == 0 || size > SENT)
		return 0;
	size_t sent_size = sizeof(first) + size - 1, early = (size_t)bytes[0] * 16;
	memcpy(sent, first, sizeof(first));
	memcpy(sent + sizeof(first), bytes + 1, size - 1);
	struct seen whole = try(sent, sent_size, 0);
	struct seen cut = try(sent, sent_size, early < sent_size ? early : sent_size);
	assert(whole.messages > 0);
	assert(whole.messages == cut.messages && whole.sum == cut.sum);
	return 0;
}
