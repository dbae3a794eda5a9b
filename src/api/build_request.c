/* See build_request.h. */
#include "api/build_request.h"

#include "api/dockerfile.h"
#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define KEY_SIZE 24 /* hex digits: what the builder names its folders by */
#define MADE_LIMIT 16

/* The first of that name and kind; NULL where it is absent. */
static const struct form_field *find_any(const struct form *form, const char *name, bool is_file)
{
	for (size_t i = 0; i < form->count; i++)
		if (form->fields[i].is_file == is_file && strcmp(form->fields[i].name, name) == 0)
			return &form->fields[i];
	return NULL;
}

/* A text field. */
static const struct form_field *find(const struct form *form, const char *name)
{
	return find_any(form, name, false);
}

/* As a text, else as a file of the context: curl -F dockerfile=@Dockerfile sends it so, and who
 * sends a whole folder has it there. */
static const struct form_field *find_dockerfile(const struct form *form)
{
	const struct form_field *field = find(form, "dockerfile");
	if (!field)
		field = find_any(form, "dockerfile", true);
	return field ? field : find_any(form, "Dockerfile", true);
}

/* ---- fields ---- */

static bool check_fields(const struct form *form, struct error *err)
{
	static const char *const known[] = { "name", "size_mb", "dockerfile", "cpu", "memory_mb",
		"image_ref", "kernel" };
	for (size_t i = 0; i < form->count; i++) {
		const struct form_field *field = &form->fields[i];
		bool is_known = field->is_file;
		for (size_t j = 0; j < ARRAY_SIZE(known); j++)
			is_known = is_known || strcmp(field->name, known[j]) == 0;
		if (!is_known)
			return error_set(
				err, ERROR_UNKNOWN_FIELD, "unknown field '%.100s'", field->name);
		if (find_any(form, field->name, field->is_file) != field)
			return error_set(
				err, ERROR_INVALID, "'%.100s' is there twice", field->name);
	}
	return true;
}

/* What PandaStack can start a template from, and we do not. */
static bool check_kind(const struct form *form, struct error *err)
{
	if (find_dockerfile(form))
		return true;
	const char *other = find(form, "image_ref")          ? "image_ref"
			    : find_any(form, "rootfs", true) ? "rootfs"
							     : NULL;
	if (!other)
		return error_set(err, ERROR_INVALID, "'dockerfile' is missing");
	error_set(err, ERROR_NOT_IMPLEMENTED, "a template cannot be made of '%s'", other);
	return error_hint(err,
		"send a 'dockerfile' and the files it copies: foreign root file systems are"
		" not taken in");
}

static bool is_key(const char *name)
{
	return strlen(name) == KEY_SIZE && strspn(name, "0123456789abcdef") == KEY_SIZE;
}

static bool is_name(const char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t size = strlen(name);
	for (size_t i = 0; i < size; i++)
		if (!strchr(letters, name[i]) && (i == 0 || !strchr("._-", name[i])))
			return false;
	return size > 0 && !is_key(name) && strcmp(name, "build") != 0 &&
	       strcmp(name, "builds") != 0;
}

static bool copy_name(struct build_request *request, const struct form *form, struct error *err)
{
	const struct form_field *field = find(form, "name");
	if (!field)
		return error_set(err, ERROR_INVALID, "'name' is missing");
	bool is_short = field->size < sizeof(request->name);
	memcpy(request->name, field->bytes, is_short ? field->size : 0);
	if (!is_short || strlen(request->name) != field->size || !is_name(request->name))
		return error_set(err, ERROR_INVALID,
			"'name' must have 1 to %zu letters, digits, '.', '_' or '-', and begin "
			"with a "
			"letter or digit",
			sizeof(request->name) - 1);
	return true;
}

/* The host's own cannot be built over; there is room for some. */
static bool check_name(const char *name, const struct config *config, struct error *err)
{
	const struct template *template = config_template(config, name);
	unsigned made = 0;
	for (size_t i = 0; i < config->template_count; i++)
		made += config->templates[i].is_made;
	if (template && !template->is_made) {
		error_set(err, ERROR_TEMPLATE_GLOBAL,
			"'%s' is a template of the host and cannot be built over", name);
		return error_hint(err, "choose another name");
	}
	if (template || made < MADE_LIMIT)
		return true;
	error_set(err, ERROR_TEMPLATE_LIMIT,
		"%u templates were built over the API, as many as may be", made);
	return error_hint(err, "delete one that is not needed");
}

static bool read_size(struct build_request *request, const struct form *form, struct error *err)
{
	const struct form_field *field = find(form, "size_mb");
	request->size_mb = field ? 0 : BUILD_SIZE_MB;
	for (size_t i = 0; field && i < field->size && i < 6; i++) {
		if (field->bytes[i] < '0' || field->bytes[i] > '9') {
			request->size_mb = 0;
			break;
		}
		request->size_mb = request->size_mb * 10 + (field->bytes[i] - '0');
	}
	if (request->size_mb > 0 && request->size_mb <= BUILD_SIZE_MB_LIMIT)
		return true;
	return error_set(err, ERROR_INVALID, "'size_mb' must be a whole number from 1 to %d",
		BUILD_SIZE_MB_LIMIT);
}

/* ---- the context ---- */

/* Its files in the order of the form; NULL and err. */
static struct context_file *read_context(
	const struct form *form, struct context *context, struct error *err)
{
	struct context_file *files = calloc(form->count + 1, sizeof(*files));
	*context = (struct context){ .files = files };
	if (!files)
		return error_no_memory(err);
	for (size_t i = 0; i < form->count; i++) {
		const struct form_field *field = &form->fields[i];
		if (!field->is_file)
			continue;
		if (!dockerfile_path_is_plain(field->name)) {
			error_set(err, ERROR_INVALID,
				"'%.100s' is no path of a file below the context", field->name);
			free(files);
			return NULL;
		}
		files[context->count++] =
			(struct context_file){ field->name, field->bytes, field->size };
	}
	return files;
}

/* Those that nothing copies are not sent: they are as if they were empty. */
static void drop_unused(
	const json_t *recipe, const struct context *context, struct context_file *files)
{
	const json_t *copy;
	size_t i;
	cleanup_free bool *is_used = calloc(context->count + 1, sizeof(*is_used));
	json_array_foreach(json_object_get(recipe, "copy"), i, copy) if (is_used)
		is_used[json_integer_value(json_object_get(copy, "file"))] = true;
	for (i = 0; i < context->count; i++)
		if (is_used && !is_used[i])
			files[i].size = 0;
}

/* ---- what the builder gets ---- */

static void complete(
	const struct build_request *request, json_t *recipe, const struct context *context)
{
	json_t *sizes = json_array();
	for (size_t i = 0; i < context->count; i++)
		json_array_append_new(sizes, json_integer((json_int_t)context->files[i].size));
	json_object_set_new(recipe, "files", sizes);
	json_object_set_new(recipe, "format", json_integer(1));
	json_object_set_new(recipe, "name", json_string(request->name));
	json_object_set_new(recipe, "size_mb", json_integer(request->size_mb));
}

static bool write_all(int fd, json_t *recipe, const struct context *context)
{
	cleanup_free char *head = json_dumps(recipe, JSON_COMPACT | JSON_ENSURE_ASCII);
	bool is_written = head && fd_write_all(fd, head, strlen(head)) && fd_write_all(fd, "\n", 1);
	for (size_t i = 0; is_written && i < context->count; i++)
		is_written = fd_write_all(fd, context->files[i].bytes, context->files[i].size);
	return is_written && fd_seal(fd);
}

static bool pack(struct build_request *request, json_t *recipe, const struct context *context,
	struct error *err)
{
	complete(request, recipe, context);
	snprintf(request->base, sizeof(request->base), "%s",
		json_string_value(json_object_get(recipe, "base")));
	request->fd = memfd_create("build", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (request->fd >= 0 && write_all(request->fd, recipe, context))
		return true;
	error_from_os(err, errno, "the build cannot be handed on");
	build_request_deinit(request);
	return false;
}

bool build_request_read(struct build_request *request, const struct config *config,
	const struct form *form, struct error *err)
{
	struct context context;
	*request = (struct build_request){ .fd = -1 };
	if (!check_fields(form, err) || !copy_name(request, form, err) ||
		!check_name(request->name, config, err) || !read_size(request, form, err) ||
		!check_kind(form, err))
		return false;
	cleanup_free struct context_file *files = read_context(form, &context, err);
	const struct form_field *text = find_dockerfile(form);
	json_t *recipe = files ? dockerfile_read(text->bytes, text->size, &context, err) : NULL;
	if (recipe)
		drop_unused(recipe, &context, files);
	bool is_packed = recipe && pack(request, recipe, &context, err);
	json_decref(recipe);
	return is_packed;
}

void build_request_deinit(struct build_request *request)
{
	fd_close(&request->fd);
}
