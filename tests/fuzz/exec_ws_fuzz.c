/*
 * Messages on exec/ws. The input is a row of messages, each behind two bytes with its size; a size
 * with its highest bit set ends the oldest command. The socket takes everything, commands only
 * are: what is tried is the reading of orders and the book that is kept of them.
 */
#include "../../src/api/exec_ws.c"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct api daemon_api;
static struct channel *channel;
static unsigned commands;

/* ---- what is around it ---- */

const char *const command_streams[2] = { "stdout", "stderr" };

void *websocket_state(const struct websocket *socket)
{
	return channel;
}

bool websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t size)
{
	json_t *message = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	assert(is_text && json_is_object(message));
	assert(json_object_get(message, "error") || json_object_get(message, "exit") ||
		json_object_get(message, "data") || json_object_get(message, "stdin_taken"));
	json_decref(message);
	return true;
}

void websocket_close(struct websocket *socket, enum websocket_code code, const char *reason)
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
	struct http_request *request, const struct websocket_owner *new_owner, void *state)
{
	return NULL;
}

struct sandbox *sandbox_find(struct api *api, const char *id, const char *owner)
{
	static struct sandbox sandbox;
	return &sandbox;
}

void sandbox_touch(struct sandbox *sandbox)
{
}

bool guest_look(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err)
{
	return true;
}

void guest_leave(struct guest *guest)
{
}

const struct key_row *auth_key(struct keys *keys, const struct http_request *request,
	bool may_use_query, struct error *err)
{
	return NULL;
}

bool auth_is_valid(const struct keys *keys, const uint8_t hash[KEY_HASH_SIZE])
{
	return true;
}

struct command *command_start(struct sandbox *sandbox, const char *text, size_t size,
	uint32_t limit_ms, const struct command_owner *owner, void *state, struct error *err)
{
	assert(size > 0 && size <= (1 << 20) && !memchr(text, '\0', size));
	assert(limit_ms > 0 && limit_ms <= COMMAND_LIMIT_S * 1000u);
	struct command *command = calloc(1, sizeof(*command));
	*command = (struct command){ .owner = owner, .state = state };
	commands++;
	return command;
}

struct command *command_start_fed(struct sandbox *sandbox, const char *text, size_t size,
	uint32_t limit_ms, const struct command_owner *owner, void *state, struct error *err)
{
	return command_start(sandbox, text, size, limit_ms, owner, state, err);
}

/* Nobody reads: what has come waits until it is too much. */
bool command_input_add(struct command_input *input, const char *bytes, size_t size)
{
	if (input->is_ended || size > COMMAND_INPUT_LIMIT - input->waiting.size)
		return false;
	input->waiting.size += size;
	return true;
}

void command_input_end(struct command_input *input)
{
	input->is_ended = true;
}

size_t command_limits_say_memory(const struct command *command, char *text, size_t size)
{
	return 0;
}

void command_limits_write(const struct command_limits *limits, struct writer *writer)
{
}

void command_free(struct command *command)
{
	commands--;
	free(command);
}

void command_resume(struct command *command)
{
}

int command_exit_code(const struct command *command)
{
	return 0;
}

void command_problem(const struct command *command, enum command_end end, struct error *err)
{
	*err = (struct error){ 0 };
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

static void end_oldest(void)
{
	if (list_is_empty(&channel->jobs))
		return;
	struct command *command = LIST_FIRST(&channel->jobs, struct job, link)->command;
	command->owner->on_output(command, 0, "out\xc3", 4);
	if (command->input.waiting.size > 0)
		command->owner->on_taken(command, command->input.waiting.size);
	command->owner->on_end(command, COMMAND_ENDED);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint16_t length;
	channel = calloc(1, sizeof(*channel));
	channel->api = &daemon_api;
	list_init(&channel->jobs);
	while (size >= sizeof(length)) {
		memcpy(&length, bytes, sizeof(length));
		bytes += sizeof(length);
		size -= sizeof(length);
		size_t taken = MIN((size_t)(length & 0x7fff), size);
		if (length & 0x8000)
			end_oldest();
		socket_owner.on_message(NULL, true, (const char *)bytes, taken);
		assert(channel->count == commands && commands <= JOBS);
		bytes += taken;
		size -= taken;
	}
	socket_owner.on_end(NULL); /* frees the channel */
	assert(commands == 0);
	return 0;
}
