/* The endpoints of sandboxes: what a create may ask for, list, get, delete. */
#include "api/answer.h"
#include "api/creation.h"
#include "api/fields.h"
#include "api/owners.h"
#include "api/routes.h"
#include "api/sandbox.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DELETE_MS 5000
#define MIB ((uint64_t)1 << 20)

/* ---- create ---- */

static bool read_template(
	const struct config *config, json_t *body, struct sandbox_row *row, struct error *err)
{
	const char *name = config->templates[0].name;
	if (!fields_text(body, "template", &name, NULL, err))
		return false;
	const struct template *template = config_template(config, name);
	if (template) {
		memcpy(row->template_name, template->name, sizeof(row->template_name));
		return true;
	}
	char names[160] = "";
	for (size_t i = 0; i < config->template_count; i++) {
		size_t used = strlen(names);
		snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
			config->templates[i].name);
	}
	return error_set(
		err, ERROR_TEMPLATE_UNKNOWN, "no template '%.60s'; there is: %s", name, names);
}

/* One limit: absent, or from `least` to the cap; `scale` 1000 for cores. */
static bool read_limit(json_t *limits, const char *name, int64_t least, int64_t cap, int64_t scale,
	int64_t *value, struct error *err)
{
	json_t *field = json_object_get(limits, name);
	double number = json_number_value(field) * (double)scale;
	if (!field)
		return true;
	bool is_whole = json_is_number(field) && (scale > 1 || number == floor(number));
	if (is_whole && number >= (double)least && number <= (double)cap) {
		*value = llround(number);
		return true;
	}
	error_set(err, ERROR_INVALID, "'limits.%s' must be %s from %g to %g", name,
		scale > 1 ? "a number" : "a whole number", (double)least / (double)scale,
		(double)cap / (double)scale);
	return error_hint(err, "the most that may be asked for is 'caps' in the configuration");
}

static bool read_each_limit(
	json_t *object, const struct limits *caps, struct limits *limits, struct error *err)
{
	return read_limit(object, "memory_mb", 32, caps->memory_mb, 1, &limits->memory_mb, err) &&
	       read_limit(object, "cpus", 50, caps->cpu_milli, 1000, &limits->cpu_milli, err) &&
	       read_limit(object, "processes", 8, caps->processes, 1, &limits->processes, err) &&
	       read_limit(object, "files_mb", 1, caps->files_mb, 1, &limits->files_mb, err) &&
	       read_limit(object, "inodes", 256, caps->inodes, 1, &limits->inodes, err) &&
	       read_limit(object, "cell_seconds", 1, caps->cell_seconds, 1, &limits->cell_seconds,
		       err);
}

/* Files live in memory: at most half of it, so that they cannot starve the kernels. */
static bool fit_files(json_t *object, struct limits *limits, struct error *err)
{
	if (limits->files_mb <= limits->memory_mb / 2)
		return true;
	if (json_object_get(object, "files_mb"))
		return error_set(err, ERROR_INVALID,
			"'limits.files_mb' must be at most half of memory_mb, which is %lld",
			(long long)limits->memory_mb);
	limits->files_mb = limits->memory_mb / 2;
	return true;
}

static bool read_limits(
	const struct config *config, json_t *body, struct sandbox_row *row, struct error *err)
{
	static const char *const known[] = { "memory_mb", "cpus", "processes", "files_mb", "inodes",
		"cell_seconds", NULL };
	struct limits limits = config->limits;
	json_t *object = json_object_get(body, "limits");
	if (object && !json_is_object(object))
		return error_set(err, ERROR_INVALID, "'limits' must be an object");
	if (object && !fields_check(object, known, "limits", err))
		return false;
	if (!read_each_limit(object, &config->caps, &limits, err) ||
		!fit_files(object, &limits, err))
		return false;
	row->limits = (struct wire_limits){ .memory_bytes = (uint64_t)limits.memory_mb * MIB,
		.files_bytes = (uint64_t)limits.files_mb * MIB,
		.inodes = (uint32_t)limits.inodes,
		.processes = (uint32_t)limits.processes,
		.cpu_milli = (uint32_t)limits.cpu_milli };
	row->cell_seconds = (uint32_t)limits.cell_seconds;
	return true;
}

static bool check_metadata(json_t *metadata, struct error *err)
{
	const char *key;
	json_t *value;
	size_t size = 0;
	if (!json_is_object(metadata))
		return error_set(err, ERROR_INVALID, "'metadata' must be an object of strings");
	json_object_foreach(metadata, key, value)
	{
		if (!json_is_string(value))
			return error_set(
				err, ERROR_INVALID, "'metadata.%.60s' must be a string", key);
		size += strlen(key) + json_string_length(value);
	}
	if (json_object_size(metadata) > METADATA_KEYS || size > METADATA_LIMIT)
		return error_set(err, ERROR_INVALID,
			"'metadata' may have %d keys and 16 KiB of text together", METADATA_KEYS);
	return true;
}

/* Accepted for the sake of older callers, without effect. */
static bool check_ignored(json_t *body, struct error *err)
{
	json_t *volumes = json_object_get(body, "volumes");
	static const char *const numbers[] = { "cpu", "memory_mb" };
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		json_t *number = json_object_get(body, numbers[i]);
		if (number && !json_is_number(number))
			return error_set(err, ERROR_INVALID, "'%s' must be a number", numbers[i]);
	}
	if (volumes && !json_is_array(volumes))
		return error_set(err, ERROR_INVALID, "'volumes' must be an array");
	if (json_array_size(volumes) > 0)
		return error_set(
			err, ERROR_NOT_IMPLEMENTED, "volumes are planned and not built yet");
	if (json_object_get(body, "from_snapshot"))
		return error_set(err, ERROR_NOT_IMPLEMENTED,
			"starting from a snapshot is planned and not built yet");
	return true;
}

static bool read_life(
	const struct config *config, json_t *body, struct sandbox_row *row, struct error *err)
{
	row->ttl_seconds = config->ttl_seconds;
	if (!fields_int(body, "ttl_seconds", 1, TTL_LIMIT, &row->ttl_seconds, err))
		return error_hint(err,
			"it is the idle time after which the sandbox ends; for one that"
			" never does, send 'persistent': true");
	return fields_bool(body, "persistent", &row->is_persistent, err);
}

static bool read_create(
	const struct call *call, json_t *body, struct sandbox_row *row, struct error *err)
{
	const struct config *config = &call->api->config;
	json_t *metadata = json_object_get(body, "metadata");
	*row = (struct sandbox_row){ .created_ms = clock_wall_ms() };
	snprintf(row->owner, sizeof(row->owner), "%s", call->owner);
	id_random(row->id.bytes, sizeof(row->id.bytes));
	return check_ignored(body, err) && read_template(config, body, row, err) &&
	       read_life(config, body, row, err) && read_limits(config, body, row, err) &&
	       (!metadata || check_metadata(metadata, err));
}

static bool create(struct call *call, struct error *err)
{
	static const char *const known[] = { "template", "metadata", "ttl_seconds", "persistent",
		"limits", "cpu", "memory_mb", "volumes", "from_snapshot", NULL };
	size_t size;
	const char *text = http_request_body(call->request, &size);
	struct sandbox_row row;
	cleanup_json json_t *body = fields_parse(text, size, known, err);
	if (!body || !read_create(call, body, &row, err))
		return false;
	if (creation_is_repeated(call, err))
		return true;
	if (err->code || !owners_admit(call, (int64_t)(row.limits.memory_bytes / MIB), err))
		return false;
	json_t *metadata = json_object_get(body, "metadata");
	cleanup_free char *metadata_text =
		metadata ? json_dumps(metadata, JSON_COMPACT) : strdup("{}");
	if (!metadata_text)
		return error_no_memory(err), false;
	row.metadata = metadata_text;
	return creation_start(call, &row, err);
}

void sandboxes_create(struct call *call)
{
	struct error err = { 0 };
	if (!create(call, &err))
		answer_error(call, &err);
}

/* ---- list, get ---- */

void sandboxes_list(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '[');
	LIST_EACH(&call->api->sandboxes, struct sandbox, link, sandbox) {
		if (sandbox->state == SANDBOX_RUNNING && strcmp(sandbox->owner, call->owner) == 0)
			sandbox_write(sandbox, &writer, false);
	}
	writer_close(&writer, ']');
	answer_json(call, 200, &writer);
}

void sandboxes_get(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	sandbox_write(call->sandbox, &writer, false);
	answer_json(call, 200, &writer);
}

/* ---- delete ---- */

/* A call that waits for the warden to say that the sandbox is over. */
struct deletion {
	struct list link; /* in sandbox->deletions */
	struct call *call;
	struct loop_timer limit;
};

static void forget(struct deletion *deletion)
{
	loop_timer_stop(&deletion->limit);
	list_remove(&deletion->link);
	deletion->call->on_gone = NULL;
}

static void on_deleter_gone(struct call *call)
{
	forget(call->state);
	answer_gone(call);
}

static void on_delete_limit(struct loop_timer *timer)
{
	struct deletion *deletion = CONTAINER_OF(timer, struct deletion, limit);
	struct error err;
	forget(deletion);
	error_set(&err, ERROR_INTERNAL, "the sandbox is ending, but has not ended within 5 s");
	answer_error(deletion->call, &err);
}

void sandboxes_on_ended(struct sandbox *sandbox)
{
	while (!list_is_empty(&sandbox->deletions)) {
		struct deletion *deletion = LIST_FIRST(&sandbox->deletions, struct deletion, link);
		forget(deletion);
		answer_empty(deletion->call, 204);
	}
}

void sandboxes_delete(struct call *call)
{
	struct error err = { 0 };
	struct deletion *deletion = http_request_alloc(call->request, sizeof(*deletion));
	if (!deletion) {
		error_no_memory(&err);
		return answer_error(call, &err);
	}
	deletion->call = call;
	call->state = deletion;
	call->on_gone = on_deleter_gone;
	list_append(&call->sandbox->deletions, &deletion->link);
	loop_timer_start(&call->api->loop, &deletion->limit, DELETE_MS, on_delete_limit);
	sandbox_end(call->sandbox, "released");
}
