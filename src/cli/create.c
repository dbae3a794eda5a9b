/* `sandglass create`: a sandbox for the commands that follow; its id is what is printed. */
#include "cli/create.h"

#include "cli/command.h"
#include "cli/options.h"

#include <stdio.h>

#define LONGEST_TTL_S INT64_C(315360000)

json_t *create_body(const char *template_name, const char *made_by)
{
	json_t *body = json_pack("{s:{s:s}}", "metadata", "made_by", made_by);
	if (template_name)
		json_object_set_new(body, "template", json_string(template_name));
	return body;
}

bool create_end(struct daemon *daemon, const char *command, const char *id, bool is_kept)
{
	struct error err = { 0 };
	bool is_gone = !is_kept &&
		       (daemon_delete(daemon, id, &err) || err.code == ERROR_SANDBOX_NOT_FOUND);
	if (is_kept)
		fprintf(stderr, "sandbox kept: %s\n", id);
	else if (!is_gone)
		fprintf(stderr, "sandglass %s: sandbox %s could not be ended: %s\n", command, id,
			err.message);
	return is_gone;
}

/* "name=value" into the metadata. */
static bool add_name(json_t *body, const char *name)
{
	json_t *metadata = json_object_get(body, "metadata");
	return !name || json_object_set_new(metadata, "name", json_string(name)) == 0;
}

int create_command(int argc, char **argv)
{
	const char *state = NULL, *template_name = NULL, *name = NULL;
	bool is_json = false, is_persistent = false;
	int64_t ttl_s = 0;
	const struct option_spec specs[] = { OPTION_STATE(&state), OPTION_JSON(&is_json),
		{ "template", 0, OPTION_TEXT, &template_name }, { "name", 0, OPTION_TEXT, &name },
		{ "ttl", 0, OPTION_NUMBER, &ttl_s, 1, LONGEST_TTL_S },
		{ "persistent", 0, OPTION_FLAG, &is_persistent } };
	int first = options_parse("create", argc, argv, specs, ARRAY_SIZE(specs), 0);
	struct daemon daemon = { .signal_fd = -1 };
	struct error err = { 0 };
	if (first < 0)
		return EXIT_MISUSED;
	json_t *body = create_body(template_name, "sandglass create"), *made = NULL;
	if (!add_name(body, name))
		error_set(&err, ERROR_INVALID, "the name is no UTF-8 text");
	if (ttl_s)
		json_object_set_new(body, "ttl_seconds", json_integer(ttl_s));
	if (is_persistent)
		json_object_set_new(body, "persistent", json_true());
	bool is_made = !err.code && daemon_open(&daemon, state, &err) &&
		       daemon_call(&daemon, "POST", "/sandboxes", body, &made, &err);
	json_decref(body);
	daemon_close(&daemon);
	if (!is_made)
		return command_fail("create", &err);
	if (is_json)
		return command_print_json("create", made);
	const char *id = json_string_value(json_object_get(made, "id"));
	printf("%s\n", id ? id : "");
	json_decref(made);
	return command_end("create");
}
