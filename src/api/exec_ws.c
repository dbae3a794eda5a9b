/*
 * GET /exec/ws: many commands over one WebSocket, in JSON messages. The client sends {"id", "cmd",
 * "timeout_seconds"?} and {"id", "cancel": true}; we {"id", "stream", "data"}, and at a command's
 * end {"id", "exit"} or {"id", "error", "code"}. A command that was sent with "stdin": true gets what
 * {"id", "stdin"} or {"id", "stdin_base64"} bring, to {"id", "stdin_end": true}; {"id",
 * "stdin_taken"} tells how much of it was read, since only so much may wait. An id is a number or a short text, free again after
 * its end. When too much waits to be sent all commands stop being read; when the socket ends all
 * are ended.
 */
#include "api/answer.h"
#include "api/command.h"
#include "api/fields.h"
#include "api/routes.h"
#include "http/websocket.h"

#include <nettle/base64.h>
#include <string.h>

#define DEFAULT_MS 900000
#define JOBS 32
#define ID_LIMIT 128

struct channel {
	struct websocket *socket; /* owned */
	struct api *api;
	struct guest guest; /* only looks: an open socket keeps nobody awake, a command does */
	uint8_t key[KEY_HASH_SIZE];
	char sandbox[SANDBOX_ID_TEXT], owner[OWNER_TEXT];
	struct list jobs; /* of struct job */
	unsigned count;
};

struct job {
	struct list link; /* in channel->jobs */
	struct channel *channel;
	struct command *command; /* owned */
	char *id;                /* owned: JSON text */
	bool is_fed;             /* it has an input */
	struct utf8 states[2];
};

static void job_free(struct job *job)
{
	if (job->command)
		command_free(job->command);
	if (job->channel)
		job->channel->count--;
	list_remove(&job->link);
	free(job->id);
	free(job);
}

/* ---- to the client ---- */

static bool send_message(struct channel *channel, struct writer *writer)
{
	writer_close(writer, '}');
	bool has_room = writer->is_failed ||
			websocket_send(channel->socket, true, writer->buf.bytes, writer->buf.size);
	writer_deinit(writer);
	return has_room;
}

static struct writer begin_message(const char *id)
{
	struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	if (id)
		writer_raw(&writer, "id", id);
	return writer;
}

static void send_error(struct channel *channel, const char *id, const struct error *err)
{
	struct writer writer = begin_message(id);
	writer_text(&writer, "error", err->message);
	writer_text(&writer, "code", error_word(err->code));
	send_message(channel, &writer);
}

static bool on_output(struct command *command, unsigned stream, const char *bytes, size_t size)
{
	struct job *job = command->state;
	struct writer writer = begin_message(job->id);
	writer_text(&writer, "stream", command_streams[stream]);
	if (!writer_part(&writer, "data", &job->states[stream], bytes, size)) {
		writer_deinit(&writer);
		return true;
	}
	return send_message(job->channel, &writer);
}

/* Characters that never came to their end. */
static void send_broken_ends(struct job *job)
{
	for (unsigned stream = 0; stream < 2; stream++) {
		if (job->states[stream].left == 0)
			continue;
		struct writer writer = begin_message(job->id);
		writer_text(&writer, "stream", command_streams[stream]);
		writer_string_begin(&writer, "data");
		writer_string_end(&writer, &job->states[stream]);
		send_message(job->channel, &writer);
	}
}

static void say_memory(struct command *command)
{
	char text[COMMAND_LIMITS_TEXT + 2];
	if (command->limits.hit_memory)
		on_output(command, 1, text, command_limits_say_memory(command, text, sizeof(text)));
}

static void on_command_end(struct command *command, enum command_end end)
{
	struct job *job = command->state;
	struct error problem;
	command_problem(command, end, &problem);
	send_broken_ends(job);
	say_memory(command);
	if (problem.code) {
		send_error(job->channel, job->id, &problem);
	} else {
		struct writer writer = begin_message(job->id);
		writer_int(&writer, "exit", command_exit_code(command));
		command_limits_write(&command->limits, &writer);
		send_message(job->channel, &writer);
	}
	job_free(job);
}

static void on_taken(struct command *command, size_t size)
{
	struct job *job = command->state;
	struct writer writer = begin_message(job->id);
	writer_int(&writer, "stdin_taken", (int64_t)size);
	send_message(job->channel, &writer);
}

static const struct command_owner command_owner = {
	.on_output = on_output, .on_end = on_command_end, .on_taken = on_taken
};

/* ---- from the client ---- */

static struct job *find_job(struct channel *channel, const char *id)
{
	LIST_EACH(&channel->jobs, struct job, link, job)
		if (strcmp(job->id, id) == 0)
			return job;
	return NULL;
}

/* The id as JSON text, which the caller frees; NULL and err. */
static char *read_id(json_t *order, struct error *err)
{
	json_t *id = json_object_get(order, "id");
	if (!json_is_integer(id) && !(json_is_string(id) && json_string_length(id) <= ID_LIMIT)) {
		error_set(err, ERROR_INVALID,
			"'id' must be a whole number or a text of at most %d bytes", ID_LIMIT);
		return NULL;
	}
	char *text = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
	return text ? text : error_no_memory(err);
}

static bool cancel(struct channel *channel, const char *id, struct error *err)
{
	struct job *job = find_job(channel, id);
	if (!job)
		return error_set(err, ERROR_INVALID, "no command of that 'id' is under way");
	error_set(err, ERROR_CANCELLED, "the command was cancelled, with all it had started");
	job_free(job);
	return false; /* told like an error: the command's last message */
}

/* ---- input ---- */

/* What the order brings, in memory that the caller frees; NULL and err. */
static char *read_input(json_t *order, size_t *ret_size, struct error *err)
{
	const char *text = "", *encoded = NULL;
	size_t size = 0, encoded_size = 0;
	struct base64_decode_ctx context;
	if (!fields_text(order, "stdin", &text, &size, err) ||
		!fields_text(order, "stdin_base64", &encoded, &encoded_size, err))
		return NULL;
	*ret_size = encoded ? BASE64_DECODE_LENGTH(encoded_size) : size;
	if (encoded && json_object_get(order, "stdin"))
		return error_set(
			       err, ERROR_INVALID, "'stdin' and 'stdin_base64' exclude each other"),
		       NULL;
	char *bytes = malloc(*ret_size + 1);
	if (!bytes)
		return error_no_memory(err);
	if (!encoded)
		return memcpy(bytes, text, size);
	base64_decode_init(&context);
	if (base64_decode_update(&context, ret_size, (uint8_t *)bytes, encoded_size, encoded) &&
		base64_decode_final(&context))
		return bytes;
	error_set(err, ERROR_INVALID, "'stdin_base64' is no base64");
	free(bytes);
	return NULL;
}

/* Whoever sends more than may wait has not listened: that is its command's end. */
static bool feed(struct channel *channel, const char *id, json_t *order, struct error *err)
{
	size_t size;
	bool is_end = false;
	struct job *job = find_job(channel, id);
	if (!job || !job->is_fed)
		return error_set(
			err, ERROR_INVALID, "no command with input of that 'id' is under way");
	cleanup_free char *bytes = read_input(order, &size, err);
	if (!bytes || !fields_bool(order, "stdin_end", &is_end, err))
		return false;
	if (size > 0 && !command_input_add(&job->command->input, bytes, size)) {
		error_set(err, ERROR_TOO_LARGE,
			"more than %zu KiB of input wait for the command, or it has ended",
			COMMAND_INPUT_LIMIT >> 10);
		job_free(job);
		return false;
	}
	if (is_end)
		command_input_end(&job->command->input);
	return true;
}

static bool brings_input(json_t *order)
{
	return json_is_string(json_object_get(order, "stdin")) ||
	       json_object_get(order, "stdin_base64") || json_object_get(order, "stdin_end");
}

static bool start_job(struct channel *channel, char **id, json_t *order, struct error *err)
{
	const char *text;
	size_t size;
	uint32_t limit_ms = DEFAULT_MS;
	bool is_fed = false;
	struct sandbox *sandbox = sandbox_find(channel->api, channel->sandbox, channel->owner);
	if (!auth_is_valid(&channel->api->keys, channel->key))
		return error_set(err, ERROR_UNAUTHORIZED, "the key was revoked or has expired");
	if (!command_read(order, &limit_ms, &text, &size, err) ||
		!fields_bool(order, "stdin", &is_fed, err))
		return false;
	if (!sandbox)
		return error_set(err, ERROR_SANDBOX_NOT_FOUND, "sandbox not found");
	if (find_job(channel, *id))
		return error_set(err, ERROR_INVALID, "a command of that 'id' is under way");
	if (channel->count == JOBS)
		return error_set(err, ERROR_BUSY, "%d commands are under way on this socket", JOBS);
	struct job *job = calloc(1, sizeof(*job));
	if (!job)
		return error_no_memory(err), false;
	sandbox_touch(sandbox);
	list_init(&job->link);
	job->is_fed = is_fed;
	job->command = (is_fed ? command_start_fed : command_start)(
		sandbox, text, size, limit_ms, &command_owner, job, err);
	if (!job->command) {
		job_free(job);
		return false;
	}
	job->channel = channel;
	job->id = TAKE(id);
	list_append(&channel->jobs, &job->link);
	channel->count++;
	return true;
}

static bool obey(struct channel *channel, json_t *order, char **id, struct error *err)
{
	static const char *const known[] = { "id", "cmd", "timeout_seconds", "cancel", "stdin",
		"stdin_base64", "stdin_end", NULL };
	bool is_cancel = false;
	if (!fields_check(order, known, NULL, err) ||
		!fields_bool(order, "cancel", &is_cancel, err))
		return false;
	if (json_object_get(order, "cmd") && (is_cancel || brings_input(order)))
		return error_set(err, ERROR_INVALID, "'cancel' and input exclude 'cmd'");
	if (!is_cancel && brings_input(order))
		return feed(channel, *id, order, err);
	if (!is_cancel)
		return start_job(channel, id, order, err);
	return cancel(channel, *id, err);
}

static void on_message(struct websocket *socket, bool is_text, const char *bytes, size_t size)
{
	struct channel *channel = websocket_state(socket);
	struct error err = { 0 };
	if (!is_text)
		return websocket_close(socket, WEBSOCKET_UNSUPPORTED, "text messages only");
	cleanup_json json_t *order = fields_parse_message(bytes, size, &err);
	cleanup_free char *id = order ? read_id(order, &err) : NULL;
	if (!id || !obey(channel, order, &id, &err))
		send_error(channel, id, &err);
	if (err.code == ERROR_UNAUTHORIZED)
		websocket_close(socket, WEBSOCKET_POLICY, "the key is not valid any more");
}

static void on_drain(struct websocket *socket)
{
	struct channel *channel = websocket_state(socket);
	LIST_EACH(&channel->jobs, struct job, link, job)
		if (job->command->is_paused)
			command_resume(job->command); /* may free the job */
}

/* Each command gets its last message before the socket is closed. */
static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	struct channel *channel = CONTAINER_OF(guest, struct channel, guest);
	while (!list_is_empty(&channel->jobs)) {
		struct job *job = LIST_FIRST(&channel->jobs, struct job, link);
		send_broken_ends(job);
		send_error(channel, job->id, why);
		job_free(job);
	}
	websocket_close(channel->socket, WEBSOCKET_GOING_AWAY, "the sandbox ended");
}

static void on_end(struct websocket *socket)
{
	struct channel *channel = websocket_state(socket);
	while (!list_is_empty(&channel->jobs))
		job_free(LIST_FIRST(&channel->jobs, struct job, link));
	guest_leave(&channel->guest);
	websocket_free(socket);
	api_return_descriptors(channel->api, 1);
	free(channel);
}

static const struct websocket_owner socket_owner = {
	.on_message = on_message, .on_drain = on_drain, .on_end = on_end
};

/* ---- the beginning ---- */

static struct channel *channel_new(struct call *call, struct error *err)
{
	const struct key_row *key = auth_key(&call->api->keys, call->request, true, err);
	struct channel *channel = key ? calloc(1, sizeof(*channel)) : NULL;
	if (!channel)
		return key ? error_no_memory(err) : NULL;
	channel->api = call->api;
	list_init(&channel->jobs);
	memcpy(channel->key, key->hash, sizeof(channel->key));
	memcpy(channel->sandbox, call->sandbox->text, sizeof(channel->sandbox));
	snprintf(channel->owner, sizeof(channel->owner), "%s", call->owner);
	if (guest_look_from_outside(&channel->guest, call->sandbox, on_sandbox_end, err)) {
		channel->socket = websocket_accept(call->request, &socket_owner, channel);
		if (channel->socket)
			return channel;
		guest_leave(&channel->guest);
		error_no_memory(err);
	}
	free(channel);
	return NULL;
}

void commands_socket(struct call *call)
{
	struct error err = { 0 };
	if (!websocket_check(call->request, &err) || !api_take_descriptors(call->api, 1, &err))
		return answer_error(call, &err);
	if (channel_new(call, &err)) {
		call->is_answered = true;
		return;
	}
	api_return_descriptors(call->api, 1);
	answer_error(call, &err);
}
