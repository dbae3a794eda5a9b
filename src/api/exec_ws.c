/*
 * GET /exec/ws: many commands over one WebSocket, in JSON messages. The client sends {"id", "cmd",
 * "timeout_seconds"?} and {"id", "cancel": true}; we {"id", "stream", "data"}, and at a command's
 * end
 * {"id", "exit"} or {"id", "error", "code"}. An id is a number or a short text, free again after
 * its end. When too much waits to be sent all commands stop being read; when the socket ends all
 * are ended.
 */
#include "api/answer.h"
#include "api/command.h"
#include "api/fields.h"
#include "api/routes.h"
#include "http/websocket.h"

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

static void on_command_end(struct command *command, enum command_end end)
{
	struct job *job = command->state;
	struct error problem;
	command_problem(command, end, &problem);
	send_broken_ends(job);
	if (problem.code) {
		send_error(job->channel, job->id, &problem);
	} else {
		struct writer writer = begin_message(job->id);
		writer_int(&writer, "exit", command_exit_code(command));
		send_message(job->channel, &writer);
	}
	job_free(job);
}

static const struct command_owner command_owner = { .on_output = on_output,
	.on_end = on_command_end };

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

static bool start_job(struct channel *channel, char **id, json_t *order, struct error *err)
{
	const char *text;
	size_t size;
	uint32_t limit_ms = DEFAULT_MS;
	struct sandbox *sandbox = sandbox_find(channel->api, channel->sandbox, channel->owner);
	if (!auth_is_valid(&channel->api->keys, channel->key))
		return error_set(err, ERROR_UNAUTHORIZED, "the key was revoked or has expired");
	if (!command_read(order, &limit_ms, &text, &size, err))
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
	job->command = command_start(sandbox, text, size, limit_ms, &command_owner, job, err);
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
	static const char *const known[] = { "id", "cmd", "timeout_seconds", "cancel", NULL };
	bool is_cancel = false;
	if (!fields_check(order, known, NULL, err) ||
		!fields_bool(order, "cancel", &is_cancel, err))
		return false;
	if (!is_cancel)
		return start_job(channel, id, order, err);
	if (json_object_get(order, "cmd"))
		return error_set(err, ERROR_INVALID, "'cancel' and 'cmd' exclude each other");
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
