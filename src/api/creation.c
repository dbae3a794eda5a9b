/* See creation.h. */
#include "api/creation.h"

#include "api/answer.h"
#include "api/auth.h"
#include "api/waiters.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define CLAIM_MS 25000 /* before the clients give up */

static void answer_made(struct call *call, const struct creation *creation)
{
	cleanup_writer struct writer writer = writer_make();
	sandbox_write(creation->sandbox, &writer, true);
	writer.buf.size--; /* the closing brace */
	writer_int(&writer, "boot_ms", (clock_monotonic_us() - creation->begun_us) / 1000);
	writer_close(&writer, '}');
	answer_json(call, 201, &writer);
}

/* Answers all, with `why` or, where that is NULL, with the sandbox. Frees the creation. */
static void finish(struct creation *creation, const struct error *why)
{
	struct call *call;
	while ((call = waiters_take(&creation->waiters))) {
		if (why)
			answer_error(call, why);
		else
			answer_made(call, creation);
	}
	list_remove(&creation->link);
	free(creation);
}

/* ---- making ---- */

static bool store_rows(struct creation *creation, struct error *err)
{
	const struct sandbox *sandbox = creation->sandbox;
	struct store *store = creation->api->store;
	struct sandbox_row row = sandbox_to_row(sandbox);
	if (!creation->has_key)
		return sandbox_row_insert(store, &row, err);
	struct idempotency_row repeat = { .sandbox = sandbox->id,
		.created_ms = sandbox->created_ms };
	memcpy(repeat.body_hash, creation->body_hash, sizeof(repeat.body_hash));
	if (!store_begin(store, err))
		return false;
	if (sandbox_row_insert(store, &row, err) &&
		idempotency_row_put(store, creation->owner, creation->key, &repeat, err))
		return store_commit(store, err);
	store_rollback(store);
	return false;
}

static void on_claimed(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct creation *creation = CONTAINER_OF(request, struct creation, claim);
	struct sandbox *sandbox = creation->sandbox;
	struct error failure = { 0 };
	int init_fd = packet ? wire_packet_take(packet, 0) : -1;
	if (packet && init_fd < 0)
		error_set(&failure, ERROR_SANDBOX_START,
			"the sandbox came without its control socket");
	if (!packet) {
		failure = *err;
		if (failure.code == ERROR_INTERNAL)
			failure.code = ERROR_SANDBOX_START;
		log_error("sandbox.create", sandbox->text, &failure);
		finish(creation, &failure);
		return sandbox_free(sandbox);
	}
	sandbox_start(sandbox, init_fd);
	if (failure.code || !store_rows(creation, &failure)) {
		finish(creation, &failure);
		return sandbox_end(sandbox, "start_failed");
	}
	log_write(LOG_INFO, "sandbox.created", sandbox->text, "for owner '%s'", sandbox->owner);
	histogram_add(&creation->api->stats.creates, clock_monotonic_us() - creation->begun_us);
	bool is_wanted = creation->has_key || !list_is_empty(&creation->waiters);
	finish(creation, NULL);
	if (!is_wanted) /* the client is gone, and nobody knows the id */
		sandbox_end(sandbox, "client_gone");
}

static bool claim(struct creation *creation, struct error *err)
{
	const struct sandbox *sandbox = creation->sandbox;
	struct warden_claim message = { .sandbox = sandbox->id, .limits = sandbox->limits };
	memcpy(message.template_name, sandbox->template_name, sizeof(message.template_name));
	return warden_ask(&creation->api->warden, &creation->claim, WARDEN_CLAIM, &message,
		sizeof(message), CLAIM_MS, on_claimed, err);
}

static struct creation *creation_new(
	struct call *call, const struct sandbox_row *row, struct error *err)
{
	if (!call->api->warden.is_ready) {
		error_set(err, ERROR_HOST_FULL, "the warden is being started");
		return NULL;
	}
	if (!api_take_descriptors(call->api, 1, err))
		return NULL;
	struct creation *creation = calloc(1, sizeof(*creation));
	struct sandbox *sandbox = creation ? sandbox_new(call->api, row, err) : NULL;
	if (!sandbox) {
		api_return_descriptors(call->api, 1);
		free(creation);
		return error_no_memory(err);
	}
	creation->api = call->api;
	creation->sandbox = sandbox;
	creation->begun_us = clock_monotonic_us();
	memcpy(creation->owner, row->owner, sizeof(creation->owner));
	list_init(&creation->waiters);
	list_append(&call->api->creations, &creation->link);
	return creation;
}

/* ---- repeated creates ---- */

static const char *key_of(const struct call *call)
{
	return http_request_header(call->request, "Idempotency-Key");
}

static bool check_key(const char *key, struct error *err)
{
	size_t size = strnlen(key, IDEMPOTENCY_KEY_LIMIT + 1);
	if (size >= 1 && size <= IDEMPOTENCY_KEY_LIMIT)
		return true;
	return error_set(err, ERROR_INVALID, "Idempotency-Key must have 1 to %d characters",
		IDEMPOTENCY_KEY_LIMIT);
}

static void hash_body(const struct call *call, uint8_t hash[BODY_HASH_SIZE])
{
	size_t size;
	const char *body = http_request_body(call->request, &size);
	auth_sha256(body, size, hash);
}

static bool conflict(struct error *err)
{
	error_set(err, ERROR_CONFLICT, "this Idempotency-Key was used with another body");
	return error_hint(
		err, "use a new key for a new sandbox; a key counts for %d h", IDEMPOTENCY_HOURS);
}

static struct creation *find_under_way(const struct call *call, const char *key)
{
	LIST_EACH(&call->api->creations, struct creation, link, creation) {
		if (creation->has_key && strcmp(creation->key, key) == 0 &&
			strcmp(creation->owner, call->owner) == 0)
			return creation;
	}
	return NULL;
}

struct replay {
	struct call *call;
	bool is_answered;
};

static void answer_row(void *context, const struct sandbox_row *row)
{
	struct replay *replay = context;
	cleanup_writer struct writer writer = writer_make();
	struct sandbox *sandbox = sandbox_find_any(replay->call->api, &row->id);
	if (sandbox && sandbox->state == SANDBOX_RUNNING)
		sandbox_write(sandbox, &writer, true);
	else
		sandbox_write_row(row, "deleted", &writer);
	replay->is_answered = true;
	answer_json(replay->call, 201, &writer);
}

static bool replay_row(struct call *call, const char *key, struct error *err)
{
	bool is_there;
	struct idempotency_row row;
	uint8_t hash[BODY_HASH_SIZE];
	struct replay replay = { .call = call };
	int64_t oldest_ms = clock_wall_ms() - IDEMPOTENCY_HOURS * (int64_t)3600000;
	if (!idempotency_row_find(call->api->store, call->owner, key, &is_there, &row, err) ||
		!is_there || row.created_ms < oldest_ms)
		return false;
	hash_body(call, hash);
	if (memcmp(hash, row.body_hash, sizeof(hash)) != 0)
		return conflict(err);
	sandbox_row_find(call->api->store, &row.sandbox, answer_row, &replay, err);
	return replay.is_answered;
}

bool creation_is_repeated(struct call *call, struct error *err)
{
	const char *key = key_of(call);
	if (!key || !check_key(key, err))
		return false;
	struct creation *creation = find_under_way(call, key);
	if (!creation)
		return replay_row(call, key, err);
	uint8_t hash[BODY_HASH_SIZE];
	hash_body(call, hash);
	if (memcmp(hash, creation->body_hash, sizeof(hash)) != 0)
		return conflict(err);
	return waiters_add(&creation->waiters, call, err);
}

bool creation_start(struct call *call, const struct sandbox_row *row, struct error *err)
{
	struct creation *creation = creation_new(call, row, err);
	if (!creation)
		return false;
	const char *key = key_of(call);
	if (key) {
		creation->has_key = true;
		snprintf(creation->key, sizeof(creation->key), "%s", key);
		hash_body(call, creation->body_hash);
	}
	if (waiters_add(&creation->waiters, call, err) && claim(creation, err))
		return true;
	struct sandbox *sandbox = creation->sandbox;
	call->on_gone = NULL;
	list_remove(&creation->link);
	free(creation);
	sandbox_free(sandbox);
	return false;
}
