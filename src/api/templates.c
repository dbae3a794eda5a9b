/*
 * What sandboxes can start from. Every template is everybody's. Those of the host are built and
 * removed there, by `sandglass template`; those that were built over the API (build_routes.c) can
 * be deleted here, by the operator.
 */
#include "api/answer.h"
#include "api/config.h"
#include "api/routes.h"
#include "api/sandbox.h"

#include <jansson.h>
#include <string.h>

static void write_number(struct writer *writer, json_t *about, const char *name)
{
	writer_int(writer, name, json_integer_value(json_object_get(about, name)));
}

static void write_text(
	struct writer *writer, json_t *about, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(about, name));
	writer_text(writer, name, text ? text : otherwise);
}

/* An array of texts, empty where there is none. */
static void write_array(struct writer *writer, json_t *about, const char *name)
{
	json_t *array = json_object_get(about, name), *value;
	size_t i;
	writer_open(writer, name, '[');
	json_array_foreach(array, i, value)
		writer_text(writer, NULL, json_string_value(value) ? json_string_value(value) : "");
	writer_close(writer, ']');
}

/* `cpu` and `memory_mb` are what a sandbox gets that asks for nothing. The path of the image is of
 * no use to a client, and tells of the host: its name is what is shown. */
static void write_template(
	struct writer *writer, const struct config *config, const struct template *template)
{
	json_t *about = json_loads(template->json, 0, NULL);
	int64_t cores = (config->limits.cpu_milli + 999) / 1000;
	writer_open(writer, NULL, '{');
	writer_text(writer, "name", template->name);
	writer_text(writer, "label", template->name);
	write_text(writer, about, "description", "");
	writer_text(writer, "category", "code");
	write_text(writer, about, "rootfs_path", "");
	write_number(writer, about, "size_bytes");
	writer_int(writer, "cpu", cores);
	writer_int(writer, "memory_mb", config->limits.memory_mb);
	writer_bool(writer, "is_global", !template->is_made);
	if (template->is_made)
		writer_text(writer, "workspace", config_operator(config));
	else
		writer_raw(writer, "workspace", "null");
	if (template->is_made)
		write_text(writer, about, "base", "");
	write_array(writer, about, "languages");
	write_array(writer, about, "aliases");
	write_text(writer, about, "python_version", "");
	write_text(writer, about, "created_at", "");
	writer_close(writer, '}');
	json_decref(about);
}

void templates_list(struct call *call)
{
	const struct config *config = &call->api->config;
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '[');
	for (size_t i = 0; i < config->template_count; i++)
		write_template(&writer, config, &config->templates[i]);
	writer_close(&writer, ']');
	answer_json(call, 200, &writer);
}

/* By name or alias; NULL and err (404). */
static const struct template *find(const struct call *call, struct error *err)
{
	const char *name = http_request_segment(call->request, 2);
	const struct template *template = config_template(&call->api->config, name);
	if (!template)
		error_set(err, ERROR_TEMPLATE_NOT_FOUND, "no template '%.60s'", name);
	return template;
}

void templates_get(struct call *call)
{
	struct error err = { 0 };
	const struct template *template = find(call, &err);
	if (!template)
		return answer_error(call, &err);
	cleanup_writer struct writer writer = writer_make();
	write_template(&writer, &call->api->config, template);
	answer_json(call, 200, &writer);
}

static unsigned count_sandboxes(const struct call *call, const struct template *template)
{
	unsigned count = 0;
	LIST_EACH(&call->api->sandboxes, struct sandbox, link, sandbox) {
		count += strcmp(sandbox->template_name, template->name) == 0;
	}
	return count;
}

/* A template that was built over the API, and that nothing uses. */
static bool check_delete(
	const struct call *call, const struct template *template, struct error *err)
{
	unsigned count = count_sandboxes(call, template);
	if (!config_is_operator(&call->api->config, call->owner))
		return error_set(
			err, ERROR_OPERATOR_ONLY, "templates are deleted by the daemon's operator");
	if (!template->is_made) {
		error_set(err, ERROR_TEMPLATE_GLOBAL,
			"the template '%s' is the host's own and cannot be deleted here",
			template->name);
		return error_hint(err, "the operator removes it from the image cache of the host");
	}
	if (builds_has_open(&call->api->builds, template->name))
		return error_set(err, ERROR_TEMPLATE_IN_USE, "the template '%s' is being built",
			template->name);
	if (count == 0)
		return true;
	error_set(err, ERROR_TEMPLATE_IN_USE, "sandboxes run from the template '%s': %u",
		template->name, count);
	return error_hint(err, "end them first");
}

void templates_delete(struct call *call)
{
	struct error err = { 0 };
	const struct template *template = find(call, &err);
	if (!template || !check_delete(call, template, &err))
		return answer_error(call, &err);
	builds_remove_template(call, template->name);
}
