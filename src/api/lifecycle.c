/* The endpoints of a sandbox's life time. Looking at it is not use. */
#include "api/answer.h"
#include "api/fields.h"
#include "api/routes.h"
#include "api/sandbox.h"

void lifecycle_get(struct call *call)
{
	const struct sandbox *sandbox = call->sandbox;
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_int(&writer, "ttl_seconds", sandbox->ttl_seconds);
	writer_bool(&writer, "persistent", sandbox->is_persistent);
	writer_int(&writer, "idle_seconds", sandbox_idle_seconds(sandbox));
	sandbox_write_expiry(sandbox, &writer);
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

static bool change(struct call *call, struct error *err)
{
	static const char *const known[] = { "ttl_seconds", "persistent", NULL };
	struct sandbox *sandbox = call->sandbox;
	int64_t ttl_seconds = sandbox->ttl_seconds;
	bool is_persistent = sandbox->is_persistent;
	size_t size;
	const char *text = http_request_body(call->request, &size);
	cleanup_json json_t *body = fields_parse(text, size, known, err);
	if (!body || !fields_bool(body, "persistent", &is_persistent, err))
		return false;
	if (!fields_int(body, "ttl_seconds", 1, TTL_LIMIT, &ttl_seconds, err))
		return error_hint(
			err, "for a sandbox that never ends by itself, send 'persistent': true");
	if (!sandbox_row_set_life(call->api->store, &sandbox->id, ttl_seconds, is_persistent, err))
		return false;
	sandbox_set_life(sandbox, ttl_seconds, is_persistent);
	return true;
}

void lifecycle_patch(struct call *call)
{
	struct error err = { 0 };
	if (change(call, &err))
		lifecycle_get(call);
	else
		answer_error(call, &err);
}
