/*
 * Messages of a client at a terminal. First byte: odd for a text message; the rest is one. What is
 * typed arrives whole, and a terminal is resized only within its bounds.
 */
#include "../../src/api/terminals.c"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct seat seat;
static size_t typed;
static unsigned told;

/* ---- what is around it ---- */

void *websocket_state(const struct websocket *socket)
{
	return &seat;
}

bool websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t size)
{
	json_t *message = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
	assert(is_text && json_object_get(message, "error") && json_object_get(message, "code"));
	json_decref(message);
	told++;
	return true;
}

bool pty_write(struct pty *pty, const char *bytes, size_t size)
{
	typed += size;
	return true;
}

void pty_resize(struct pty *pty, uint16_t rows, uint16_t columns)
{
	assert(rows > 0 && rows <= PTY_SIZE_LIMIT && columns > 0 && columns <= PTY_SIZE_LIMIT);
}

void websocket_close(struct websocket *socket, enum websocket_code code, const char *reason)
{
}

void websocket_pause(struct websocket *socket)
{
}

void websocket_resume(struct websocket *socket)
{
}

void websocket_free(struct websocket *socket)
{
}

bool websocket_check(const struct http_request *request, struct error *err)
{
	return false;
}

struct websocket *websocket_accept(
	struct http_request *request, const struct websocket_owner *owner, void *state)
{
	return NULL;
}

struct pty *pty_start(struct sandbox *sandbox, uint16_t rows, uint16_t columns, const char *command,
	const struct pty_owner *owner, void *state, struct error *err)
{
	return NULL;
}

void pty_free(struct pty *pty)
{
}

void *pty_state(const struct pty *pty)
{
	return &seat;
}

void pty_resume(struct pty *pty)
{
}

int pty_exit_code(const struct pty *pty)
{
	return 0;
}

bool api_take_descriptors(struct api *api, unsigned count, struct error *err)
{
	return true;
}

void api_return_descriptors(struct api *api, unsigned count)
{
}

void answer_error(struct call *call, const struct error *err)
{
}

/* ---- the harness ---- */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static char at_work; /* stands for a terminal: only its address counts */
	if (size == 0)
		return 0;
	bool is_text = bytes[0] & 1;
	seat = (struct seat){ .pty = (struct pty *)(void *)&at_work, .is_typed = bytes[0] & 2 };
	typed = told = 0;
	socket_owner.on_message(NULL, is_text, (const char *)bytes + 1, size - 1);
	assert(is_text ? typed < size : typed == size - 1 && told == 0);
	return 0;
}
