/* See values.h. Each value is parsed on its own and written anew, so that nothing foreign is copied
 * into an answer unread. */
#include "api/values.h"

#include "api/fields.h"

#include <string.h>

#define ERROR_NAME_LIMIT 256
#define ERROR_MESSAGE_LIMIT (16 * 1024)
#define TRACEBACK_LIMIT (256 * 1024)
#define DISPLAY_ID_LIMIT 256
#define RESTARTED_LIMIT 160

void values_init(struct values *values)
{
	*values = (struct values){ 0 };
}

static void bundle_deinit(struct bundle *bundle)
{
	free(bundle->json);
	free(bundle->id);
	*bundle = (struct bundle){ 0 };
}

static void clear(struct values *values)
{
	for (size_t i = 0; i < values->count; i++)
		bundle_deinit(&values->bundles[i]);
	values->count = 0;
	values->kept = 0;
	values->clears_at_next = false;
}

void values_deinit(struct values *values)
{
	clear(values);
	free(values->bundles);
	free(values->error_name);
	free(values->error_message);
	free(values->traceback);
	free(values->restarted);
	values_init(values);
}

/* The bundle as JSON text, with only what may be in it; NULL where nothing is left. */
static char *bundle_text(json_t *data)
{
	cleanup_writer struct writer writer = writer_make();
	const char *mime;
	json_t *value;
	size_t written = 0;
	writer_open(&writer, NULL, '{');
	json_object_foreach(data, mime, value)
	{
		if (!json_is_string(value) || strcmp(mime, "type") == 0)
			continue;
		writer_bytes(&writer, mime, json_string_value(value), json_string_length(value));
		written++;
	}
	writer_close(&writer, '}');
	if (written == 0 || writer.is_failed)
		return NULL;
	const char *text = buf_text(&writer.buf);
	return text ? strdup(text) : NULL;
}

static bool append(struct values *values, struct bundle *bundle)
{
	uint64_t size = strlen(bundle->json);
	if (values->count == VALUES_LIMIT || values->kept + size > VALUES_BYTES)
		return false;
	if (values->count == values->capacity) {
		size_t capacity = MAX(values->capacity * 2, (size_t)8);
		struct bundle *bundles = reallocarray(values->bundles, capacity, sizeof(*bundles));
		if (!bundles)
			return false;
		values->bundles = bundles;
		values->capacity = capacity;
	}
	values->bundles[values->count++] = *bundle;
	values->kept += size;
	return true;
}

static bool replace_one(struct values *values, struct bundle *old, const char *json)
{
	uint64_t kept = values->kept - strlen(old->json) + strlen(json);
	char *copy = kept > VALUES_BYTES ? NULL : strdup(json);
	if (!copy)
		return false;
	free(old->json);
	old->json = copy;
	values->kept = kept;
	return true;
}

static bool replace(struct values *values, const struct bundle *bundle, struct values_shown *shown)
{
	bool is_found = false;
	for (size_t i = 0; i < values->count; i++) {
		struct bundle *old = &values->bundles[i];
		if (!old->id || strcmp(old->id, bundle->id) != 0)
			continue;
		is_found = true;
		if (replace_one(values, old, bundle->json))
			*shown = (struct values_shown){ .bundle = old, .is_update = true };
		else
			values->lost++;
	}
	return is_found;
}

static bool take_bundle(
	struct values *values, json_t *object, uint16_t kind, struct values_shown *shown)
{
	const char *id = json_string_value(json_object_get(object, "id"));
	struct bundle bundle = { .json = bundle_text(json_object_get(object, "data")) };
	if (id && kind != FRAME_RESULT && strlen(id) < DISPLAY_ID_LIMIT)
		bundle.id = strdup(id);
	bool is_taken = bundle.json != NULL;
	if (is_taken && kind == FRAME_UPDATE) {
		/* one whose display was in an earlier cell has nothing to replace: it is shown */
		if (bundle.id && replace(values, &bundle, shown)) {
			bundle_deinit(&bundle);
			return true;
		}
	}
	if (is_taken && values->clears_at_next)
		clear(values);
	is_taken = is_taken && append(values, &bundle);
	if (is_taken)
		shown->bundle = &values->bundles[values->count - 1];
	else
		bundle_deinit(&bundle);
	return is_taken;
}

static char *bounded_copy(json_t *object, const char *name, size_t limit)
{
	json_t *value = json_object_get(object, name);
	const char *text = json_is_string(value) ? json_string_value(value) : "";
	return strndup(text, limit);
}

/* The first error counts: it is what ended the cell. */
static bool take_error(struct values *values, json_t *object)
{
	if (values->traceback)
		return true;
	values->error_name = bounded_copy(object, "name", ERROR_NAME_LIMIT);
	values->error_message = bounded_copy(object, "message", ERROR_MESSAGE_LIMIT);
	values->traceback = bounded_copy(object, "traceback", TRACEBACK_LIMIT);
	return values->error_name && values->error_message && values->traceback;
}

static bool take_done(struct values *values, json_t *object)
{
	json_t *code = json_object_get(object, "exit");
	json_int_t exit = json_is_integer(code) ? json_integer_value(code) : 1;
	values->exit = (int)MIN(MAX(exit, (json_int_t)INT32_MIN), (json_int_t)INT32_MAX);
	values->is_done = true;
	free(values->restarted);
	values->restarted = NULL;
	if (json_is_string(json_object_get(object, "restarted")))
		values->restarted = bounded_copy(object, "restarted", RESTARTED_LIMIT);
	return json_is_integer(code);
}

static bool take_object(
	struct values *values, uint16_t kind, json_t *object, struct values_shown *shown)
{
	switch (kind) {
	case FRAME_DISPLAY:
	case FRAME_UPDATE:
	case FRAME_RESULT:
		return take_bundle(values, object, kind, shown);
	case FRAME_ERROR:
		return take_error(values, object);
	case FRAME_CLEAR:
		if (json_is_true(json_object_get(object, "wait")))
			values->clears_at_next = true;
		else
			clear(values);
		return true;
	case FRAME_DONE:
		return take_done(values, object);
	}
	return false;
}

bool values_take(
	struct values *values, const struct frames_value *value, struct values_shown *ret_shown)
{
	*ret_shown = (struct values_shown){ 0 };
	if (value->kind == FRAME_DONE)
		values->is_done = true; /* also one that cannot be read ends the run */
	cleanup_json json_t *object = json_loadb(
		value->bytes, value->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	bool is_taken =
		json_is_object(object) && take_object(values, value->kind, object, ret_shown);
	if (!is_taken)
		values->lost++;
	if (!is_taken && value->kind == FRAME_DONE)
		values->exit = 1;
	return is_taken;
}

void values_write_results(const struct values *values, struct writer *writer)
{
	writer_open(writer, "results", '[');
	for (size_t i = 0; i < values->count; i++)
		writer_raw(writer, NULL, values->bundles[i].json);
	writer_close(writer, ']');
}
