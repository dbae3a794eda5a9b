/* GET /v1/me: who the key's owner is, what it may have, and what it has. */
#include "api/answer.h"
#include "api/owners.h"
#include "api/routes.h"

#include <stdio.h>

/* An owner is a name and nothing more: it is its own and only organisation. */
static void write_names(struct writer *writer, const char *owner)
{
	writer_text(writer, "user_id", owner);
	writer_raw(writer, "email", "null");
	writer_text(writer, "current_org", owner);
	writer_open(writer, "orgs", '[');
	writer_open(writer, NULL, '{');
	writer_text(writer, "id", owner);
	writer_text(writer, "name", owner);
	writer_text(writer, "role", "owner");
	writer_close(writer, '}');
	writer_close(writer, ']');
	writer_text(writer, "auth_method", "api_key");
}

/* What is not capped is null. */
static void write_caps(struct writer *writer, const struct owner_caps *caps)
{
	char rate[32];
	snprintf(rate, sizeof(rate), "%g", caps->creates_a_second);
	writer_open(writer, "limits", '{');
	writer_int(writer, "sandboxes", caps->sandboxes);
	if (caps->memory_mb > 0)
		writer_int(writer, "memory_mb", caps->memory_mb);
	else
		writer_raw(writer, "memory_mb", "null");
	writer_raw(writer, "creates_a_second", caps->creates_a_second > 0 ? rate : "null");
	writer_close(writer, '}');
}

void me_get(struct call *call)
{
	struct owner_use use = owners_use(call->api, call->owner);
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	write_names(&writer, call->owner);
	write_caps(&writer, config_owner(&call->api->config, call->owner));
	writer_open(&writer, "use", '{');
	writer_int(&writer, "sandboxes", use.sandboxes);
	writer_int(&writer, "memory_mb", use.memory_mb);
	writer_close(&writer, '}');
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}
