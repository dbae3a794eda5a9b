/* See config.h. */
#include "api/config.h"

#include "base/buf.h"
#include "base/id.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_LIMIT ((size_t)4 << 20)

static const struct limits built_in_limits = { .memory_mb = 1024,
	.cpu_milli = 1000,
	.processes = 256,
	.files_mb = 512,
	.inodes = 100000,
	.cell_seconds = 28 };
static const struct limits built_in_caps = { .memory_mb = 16384,
	.cpu_milli = 16000,
	.processes = 4096,
	.files_mb = 8192,
	.inodes = 1000000,
	.cell_seconds = 86400 };

static char *copy_text(json_t *object, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text || otherwise ? strdup(text ? text : otherwise) : NULL;
}

static char **copy_texts(json_t *array, size_t *ret_count)
{
	size_t n = json_array_size(array);
	char **texts = calloc(n + 1, sizeof(*texts));
	*ret_count = 0;
	for (size_t i = 0; texts && i < n; i++) {
		const char *text = json_string_value(json_array_get(array, i));
		if (text)
			texts[(*ret_count)++] = strdup(text);
	}
	return texts;
}

static void read_number(json_t *object, const char *name, double scale, int64_t *value)
{
	json_t *number = json_object_get(object, name);
	if (json_is_number(number) && json_number_value(number) > 0)
		*value = llround(json_number_value(number) * scale);
}

static void read_limits(json_t *object, struct limits *limits)
{
	read_number(object, "memory_mb", 1, &limits->memory_mb);
	read_number(object, "cpus", 1000, &limits->cpu_milli);
	read_number(object, "processes", 1, &limits->processes);
	read_number(object, "files_mb", 1, &limits->files_mb);
	read_number(object, "inodes", 1, &limits->inodes);
	read_number(object, "cell_seconds", 1, &limits->cell_seconds);
}

static uint32_t read_languages(const json_t *array)
{
	uint32_t set = 0;
	for (size_t i = 0; i < json_array_size(array); i++) {
		const char *name = json_string_value(json_array_get(array, i));
		enum language language;
		if (name && language_find(name, &language))
			set |= LANGUAGE_BIT(language);
	}
	return set;
}

static bool read_template(json_t *object, struct template *template, struct error *err)
{
	const char *name = json_string_value(json_object_get(object, "name"));
	if (!name || !*name || strlen(name) >= sizeof(template->name))
		return error_set(err, ERROR_CONFIG, "a template needs a name below %zu characters",
			sizeof(template->name));
	snprintf(template->name, sizeof(template->name), "%s", name);
	template->aliases = copy_texts(json_object_get(object, "aliases"), &template->alias_count);
	json_object_del(object, "key");
	template->is_made = json_is_true(json_object_get(object, "made"));
	template->languages = read_languages(json_object_get(object, "languages"));
	template->json = json_dumps(object, JSON_COMPACT);
	return template->aliases && template->json ? true : (error_no_memory(err), false);
}

static bool read_templates(struct config *config, json_t *array, struct error *err)
{
	size_t n = json_array_size(array);
	if (n == 0)
		return error_set(err, ERROR_CONFIG, "'templates' names none");
	config->templates = calloc(n, sizeof(*config->templates));
	if (!config->templates)
		return error_no_memory(err), false;
	for (config->template_count = 0; config->template_count < n; config->template_count++)
		if (!read_template(json_array_get(array, config->template_count),
			    &config->templates[config->template_count], err))
			return false;
	return true;
}

/* ---- keys and owners ---- */

static bool copy_into(json_t *object, const char *name, char *text, size_t size)
{
	const char *value = json_string_value(json_object_get(object, name));
	return value && *value && (size_t)snprintf(text, size, "%s", value) < size;
}

static bool read_key(json_t *object, struct key_row *key, struct error *err)
{
	const char *hash = json_string_value(json_object_get(object, "hash"));
	*key = (struct key_row){ .is_listed = true };
	if (!hash || !id_from_text(hash, key->hash, sizeof(key->hash)) ||
		!copy_into(object, "owner", key->owner, sizeof(key->owner)) ||
		!copy_into(object, "prefix", key->prefix, sizeof(key->prefix)) ||
		!copy_into(object, "label", key->label, sizeof(key->label)))
		return error_set(err, ERROR_CONFIG, "a key of 'keys' is not complete");
	read_number(object, "created_ms", 1, &key->created_ms);
	read_number(object, "expires_ms", 1, &key->expires_ms);
	return true;
}

static bool read_keys(struct config *config, json_t *array, struct error *err)
{
	size_t n = json_array_size(array);
	config->keys = calloc(n + 1, sizeof(*config->keys));
	if (!config->keys)
		return error_no_memory(err), false;
	for (; config->key_count < n; config->key_count++)
		if (!read_key(json_array_get(array, config->key_count),
			    &config->keys[config->key_count], err))
			return false;
	return true;
}

static void read_owner(json_t *object, struct owner_caps *caps)
{
	json_t *rate = json_object_get(object, "creates_a_second");
	read_number(object, "sandboxes", 1, &caps->sandboxes);
	read_number(object, "memory_mb", 1, &caps->memory_mb);
	if (json_is_number(rate) && json_number_value(rate) > 0)
		caps->creates_a_second = json_number_value(rate);
}

/* The default first, which the others begin with. */
static bool read_owners(struct config *config, json_t *root, struct error *err)
{
	json_t *owners = json_object_get(root, "owners");
	struct owner_caps caps = { .sandboxes = 1000 };
	const char *name;
	json_t *object;
	config->owners = calloc(json_object_size(owners) + 1, sizeof(*config->owners));
	if (!config->owners)
		return error_no_memory(err), false;
	read_number(json_object_get(root, "caps"), "sandboxes", 1, &caps.sandboxes);
	read_owner(json_object_get(owners, "default"), &caps);
	config->owners[config->owner_count++] = caps;
	json_object_foreach(owners, name, object)
	{
		struct owner_caps *own = &config->owners[config->owner_count];
		if (strcmp(name, "default") == 0)
			continue;
		*own = caps;
		snprintf(own->owner, sizeof(own->owner), "%s", name);
		read_owner(object, own);
		config->owner_count++;
	}
	return true;
}

const struct owner_caps *config_owner(const struct config *config, const char *owner)
{
	for (size_t i = 1; i < config->owner_count; i++)
		if (strcmp(config->owners[i].owner, owner) == 0)
			return &config->owners[i];
	return &config->owners[0];
}

/* ---- all of it ---- */

static bool read_object(struct config *config, json_t *root, struct error *err)
{
	config->version = copy_text(root, "version", SANDGLASS_VERSION);
	config->address = copy_text(root, "address", "");
	config->database = copy_text(root, "database", NULL);
	config->network_default = copy_text(root, "network_default", "none");
	config->hosts = copy_texts(json_object_get(root, "hosts"), &config->host_count);
	config->is_preview_token_required =
		json_is_true(json_object_get(root, "preview_token_required"));
	json_t *layers = json_object_get(root, "layers");
	config->layers_json = layers ? json_dumps(layers, JSON_COMPACT) : strdup("[]");
	if (!config->database)
		return error_set(err, ERROR_CONFIG, "'database' is missing");
	config->has_open_metrics = json_is_true(json_object_get(root, "open_metrics"));
	config->ttl_seconds = 300;
	read_number(root, "ttl_seconds", 1, &config->ttl_seconds);
	config->limits = built_in_limits;
	config->caps = built_in_caps;
	read_limits(json_object_get(root, "limits"), &config->limits);
	read_limits(json_object_get(root, "caps"), &config->caps);
	return read_owners(config, root, err) &&
	       read_keys(config, json_object_get(root, "keys"), err) &&
	       read_templates(config, json_object_get(root, "templates"), err);
}

bool config_read(struct config *config, int fd, struct error *err)
{
	cleanup_buf struct buf text = buf_make(CONFIG_LIMIT);
	*config = (struct config){ 0 };
	for (;;) {
		char *room = buf_reserve(&text, 16384);
		if (!room)
			return error_set(err, ERROR_CONFIG, "the configuration is too large");
		ssize_t n = pread(fd, room, 16384, (off_t)text.size);
		if (n < 0)
			return error_from_os(err, errno, "cannot read the configuration");
		if (n == 0)
			break;
		text.size += (size_t)n;
	}
	json_error_t problem;
	json_t *root = json_loadb(text.bytes, text.size, JSON_REJECT_DUPLICATES, &problem);
	if (!json_is_object(root)) {
		json_decref(root);
		return error_set(err, ERROR_CONFIG, "the configuration is no JSON object");
	}
	bool is_read = read_object(config, root, err);
	json_decref(root);
	return is_read;
}

static void free_texts(char **texts, size_t count)
{
	for (size_t i = 0; texts && i < count; i++)
		free(texts[i]);
	free(texts);
}

static void free_templates(struct template *templates, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free_texts(templates[i].aliases, templates[i].alias_count);
		free(templates[i].json);
	}
	free(templates);
}

void config_renew(struct config *config, struct config *fresh)
{
	free_templates(config->templates, config->template_count);
	free(config->keys);
	config->templates = TAKE(&fresh->templates);
	config->template_count = fresh->template_count;
	config->keys = TAKE(&fresh->keys);
	config->key_count = fresh->key_count;
	fresh->template_count = fresh->key_count = 0;
}

void config_deinit(struct config *config)
{
	free_templates(config->templates, config->template_count);
	free(config->keys);
	free(config->owners);
	free_texts(config->hosts, config->host_count);
	free(config->version);
	free(config->address);
	free(config->database);
	free(config->layers_json);
	free(config->network_default);
	*config = (struct config){ 0 };
}

static bool has_name(const struct template *template, const char *name)
{
	if (strcmp(template->name, name) == 0)
		return true;
	for (size_t i = 0; i < template->alias_count; i++)
		if (strcmp(template->aliases[i], name) == 0)
			return true;
	return false;
}

const char *config_operator(const struct config *config)
{
	return config->key_count > 0 ? config->keys[0].owner : "";
}

bool config_is_operator(const struct config *config, const char *owner)
{
	return strcmp(owner, config_operator(config)) == 0;
}

const struct template *config_template(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->template_count; i++)
		if (has_name(&config->templates[i], name))
			return &config->templates[i];
	return NULL;
}
