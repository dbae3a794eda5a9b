/* Bodies of requests: strict JSON, and each kind of field read from it. The same bytes are a body
 * of every endpoint. */
#include "api/fields.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_refusal(const struct error *err)
{
	assert(err->code == ERROR_INVALID || err->code == ERROR_UNKNOWN_FIELD);
	assert(err->message[0] && strlen(err->message) < sizeof(err->message));
}

static void read_fields(json_t *body)
{
	const char *text = NULL;
	size_t text_size = 0;
	int64_t number = 5, scaled = 1;
	bool is_set = false;
	struct error err = { 0 };
	if (fields_text(body, "text", &text, &text_size, &err) && text)
		assert(text[text_size] == '\0');
	if (fields_text(body, "text", &text, NULL, &err) && text)
		assert(strlen(text) == json_string_length(json_object_get(body, "text")));
	if (fields_int(body, "number", -3, 1000, &number, &err))
		assert(number >= -3 && number <= 1000);
	if (fields_scaled(body, "scaled", 86400, 1000, &scaled, &err))
		assert(scaled >= 1 && scaled <= 86400000);
	fields_bool(body, "flag", &is_set, &err);
	if (err.code)
		check_refusal(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const known[] = { "text", "number", "scaled", "flag", NULL };
	struct error err = { 0 };
	cleanup_json json_t *body = fields_parse((const char *)bytes, size, known, &err);
	if (body) {
		assert(json_is_object(body) && json_object_size(body) <= 4);
		read_fields(body);
	} else {
		check_refusal(&err);
	}
	if (fields_none((const char *)bytes, size, &err))
		assert(!body || json_object_size(body) == 0);
	return 0;
}
