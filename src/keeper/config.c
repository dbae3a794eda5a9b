/*
 * sandglass.json. Unknown keys and wrong types stop the start and name the key; numbers have
 * bounds; what is not given has the default of the table here. Documented in docs/configuration.md.
 */
#include "keeper/keeper.h"

#include "jail/ids.h"
#include "jail/lockdown.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB (1024ULL * 1024)
#define POOL_MOST 256

static bool take_number(const json_t *value, const char *key, double least, double most,
	double *ret_number, struct error *err)
{
	if (!json_is_number(value) || json_number_value(value) < least ||
		json_number_value(value) > most) {
		error_set(
			err, ERROR_CONFIG, "'%s' must be a number from %g to %g", key, least, most);
		return false;
	}
	*ret_number = json_number_value(value);
	return true;
}

/* One of the two objects "limits" and "caps". */
static bool take_limits(struct config *config, const char *name, json_t *object, struct error *err)
{
	bool is_caps = !strcmp(name, "caps");
	struct wire_limits *limits = is_caps ? &config->caps : &config->limits;
	const char *key;
	json_t *value;
	double number;
	if (!json_is_object(object))
		return error_set(err, ERROR_CONFIG, "'%s' must be an object", name);
	json_object_foreach(object, key, value)
	{
		char full[64];
		snprintf(full, sizeof(full), "%s.%s", name, key);
		if (!take_number(value, full, 0.001, 1e9, &number, err))
			return false;
		if (!strcmp(key, "memory_mb"))
			limits->memory_bytes = (uint64_t)(number * (double)MIB);
		else if (!strcmp(key, "files_mb"))
			limits->files_bytes = (uint64_t)(number * (double)MIB);
		else if (!strcmp(key, "cpus"))
			limits->cpu_milli = (uint32_t)(number * 1000);
		else if (!strcmp(key, "processes"))
			limits->processes = (uint32_t)number;
		else if (!strcmp(key, "inodes"))
			limits->inodes = (uint32_t)number;
		else if (!strcmp(key, "cell_seconds"))
			*(is_caps ? &config->cell_seconds_cap : &config->cell_seconds) =
				(unsigned)number;
		else if (is_caps && !strcmp(key, "sandboxes"))
			config->sandboxes = (unsigned)number;
		else
			return error_set(err, ERROR_CONFIG, "unknown key '%s'", full);
	}
	return true;
}

static bool take_strings(const json_t *array, const char *key, struct error *err)
{
	size_t i;
	json_t *value;
	if (!json_is_array(array) || json_array_size(array) > KEEPER_NAMES)
		return error_set(err, ERROR_CONFIG, "'%s' must be an array of at most %d strings",
			key, KEEPER_NAMES);
	json_array_foreach(array, i, value) if (!json_is_string(value)) return error_set(
		err, ERROR_CONFIG, "'%s' must hold strings only", key);
	return true;
}

static bool take_degraded(struct config *config, const char *key, json_t *array, struct error *err)
{
	size_t i;
	json_t *value;
	if (!take_strings(array, key, err))
		return false;
	json_array_foreach(array, i, value)
	{
		const char *name = json_string_value(value);
		if (strcmp(name, "landlock") != 0)
			return error_set(err, ERROR_CONFIG,
				"allow_degraded: '%s' is no layer that can be done without; "
				"'landlock' is the only one",
				name);
		config->degraded |= LOCKDOWN_WITHOUT_LANDLOCK;
	}
	return true;
}

bool config_is_name(const char *text, size_t most)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t size = strlen(text);
	return size > 0 && size <= most && strspn(text, letters) == size;
}

/* {"default": caps, NAME: caps}: checked here, and handed on to the api as it is. */
static bool take_owners(
	struct config *config, const char *own_key, json_t *owners, struct error *err)
{
	static const char *const known[] = { "sandboxes", "memory_mb", "creates_a_second" };
	const char *name, *key;
	json_t *caps, *value;
	double number;
	if (!json_is_object(owners))
		return error_set(err, ERROR_CONFIG, "'owners' must be an object");
	json_object_foreach(owners, name, caps)
	{
		if (!json_is_object(caps) || !config_is_name(name, OWNER_SIZE))
			return error_set(err, ERROR_CONFIG,
				"owners.%.40s: a name of letters, digits, '.', '_' and '-' must have an "
				"object",
				name);
		json_object_foreach(caps, key, value)
		{
			char full[128];
			bool is_known = false;
			snprintf(full, sizeof(full), "owners.%s.%s", name, key);
			for (size_t i = 0; i < ARRAY_SIZE(known); i++)
				is_known = is_known || !strcmp(key, known[i]);
			if (!is_known)
				return error_set(err, ERROR_CONFIG, "unknown key '%s'", full);
			double least = !strcmp(key, "creates_a_second") ? 0.001 : 1;
			if (!take_number(value, full, least, 1e9, &number, err))
				return false;
		}
	}
	json_decref(config->owners);
	config->owners = json_incref(owners);
	return true;
}

static bool take_admission(
	struct config *config, const char *own_key, json_t *object, struct error *err)
{
	const char *key;
	json_t *value;
	double number;
	if (!json_is_object(object))
		return error_set(err, ERROR_CONFIG, "'admission' must be an object");
	json_object_foreach(object, key, value)
	{
		char full[64];
		snprintf(full, sizeof(full), "admission.%s", key);
		bool is_factor = !strcmp(key, "memory_overcommit");
		if (!is_factor && strcmp(key, "memory_reserve_mb") != 0)
			return error_set(err, ERROR_CONFIG, "unknown key '%s'", full);
		if (!take_number(value, full, is_factor ? 0.01 : 0, 1e9, &number, err))
			return false;
		if (is_factor)
			config->memory_overcommit = number;
		else
			config->memory_reserve = (uint64_t)(number * (double)MIB);
	}
	return true;
}

static bool take_pool_languages(struct config *config, const json_t *array, struct error *err)
{
	size_t i;
	json_t *value;
	enum language language;
	if (!take_strings(array, "pool.languages", err))
		return false;
	config->pool_languages = 0;
	json_array_foreach(array, i, value)
	{
		if (!language_find(json_string_value(value), &language))
			return error_set(err, ERROR_CONFIG,
				"pool.languages: '%.40s' is no language", json_string_value(value));
		config->pool_languages |= LANGUAGE_BIT(language);
	}
	return true;
}

/* A number, or {"sandboxes": number, "languages": [name]}. */
static bool take_pool(struct config *config, const char *own_key, json_t *pool, struct error *err)
{
	const char *key;
	json_t *value;
	double number = config->pool;
	if (!json_is_object(pool) && !take_number(pool, "pool", 0, POOL_MOST, &number, err))
		return error_hint(
			err, "or an object: {\"sandboxes\": 4, \"languages\": [\"python\"]}");
	json_object_foreach(pool, key, value)
	{
		if (!strcmp(key, "languages")) {
			if (!take_pool_languages(config, value, err))
				return false;
		} else if (strcmp(key, "sandboxes") != 0) {
			return error_set(err, ERROR_CONFIG, "unknown key 'pool.%s'", key);
		} else if (!take_number(value, "pool.sandboxes", 0, POOL_MOST, &number, err)) {
			return false;
		}
	}
	config->pool = (unsigned)number;
	return true;
}

static bool take_listen(struct config *config, const char *key, json_t *value, struct error *err)
{
	return json_is_string(value) ? config_set_listen(config, json_string_value(value), err)
				     : error_set(err, ERROR_CONFIG, "'listen' must be a string");
}

static bool take_hosts(struct config *config, const char *key, json_t *value, struct error *err)
{
	if (!take_strings(value, key, err))
		return false;
	json_decref(config->hosts);
	config->hosts = json_incref(value);
	return true;
}

static bool take_templates(struct config *config, const char *key, json_t *value, struct error *err)
{
	if (!take_strings(value, key, err))
		return false;
	for (size_t i = 0; i < json_array_size(value); i++)
		config->templates[i] = strdup(json_string_value(json_array_get(value, i)));
	return true;
}

static bool take_id_base(struct config *config, const char *key, json_t *value, struct error *err)
{
	double number;
	if (!take_number(value, key, 65536, 4294967295.0 - IDS_COUNT, &number, err))
		return false;
	config->id_base = (uint32_t)number;
	return true;
}

static bool take_ttl(struct config *config, const char *key, json_t *value, struct error *err)
{
	double number;
	if (!take_number(value, key, 1, 31536000, &number, err))
		return false;
	config->ttl_seconds = (unsigned)number;
	return true;
}

static bool take_network(struct config *config, const char *key, json_t *value, struct error *err)
{
	return (json_is_string(value) && !strcmp(json_string_value(value), "none")) ||
	       error_set(err, ERROR_CONFIG, "'network_default' can only be \"none\" so far");
}

static bool take_bool(bool *ret, const char *key, const json_t *value, struct error *err)
{
	*ret = json_is_true(value);
	return json_is_boolean(value) ||
	       error_set(err, ERROR_CONFIG, "'%s' must be true or false", key);
}

static bool take_open_metrics(
	struct config *config, const char *key, json_t *value, struct error *err)
{
	return take_bool(&config->has_open_metrics, key, value, err);
}

static bool take_preview_token(
	struct config *config, const char *key, json_t *value, struct error *err)
{
	return take_bool(&config->is_preview_token_required, key, value, err);
}

static const struct {
	const char *name;
	bool (*take)(struct config *config, const char *key, json_t *value, struct error *err);
} known_keys[] = {
	{ "listen", take_listen },
	{ "hosts", take_hosts },
	{ "templates", take_templates },
	{ "limits", take_limits },
	{ "caps", take_limits },
	{ "owners", take_owners },
	{ "admission", take_admission },
	{ "pool", take_pool },
	{ "ttl_seconds", take_ttl },
	{ "id_base", take_id_base },
	{ "network_default", take_network },
	{ "preview_token_required", take_preview_token },
	{ "allow_degraded", take_degraded },
	{ "open_metrics", take_open_metrics },
};

static bool take_key(struct config *config, const char *key, json_t *value, struct error *err)
{
	char names[256] = "";
	for (size_t i = 0; i < ARRAY_SIZE(known_keys); i++) {
		if (!strcmp(key, known_keys[i].name))
			return known_keys[i].take(config, key, value, err);
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			i ? ", " : "", known_keys[i].name);
	}
	error_set(err, ERROR_CONFIG, "unknown key '%s'", key);
	return error_hint(err, "known: %s", names);
}

/* A sandbox is capped by the machine: three quarters of its memory, all of its cores. */
static void set_defaults(struct config *config)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	*config = (struct config){ .listen_port = 8080,
		.limits = { .memory_bytes = 1024 * MIB,
			.files_bytes = 512 * MIB,
			.inodes = 100000,
			.processes = 256,
			.cpu_milli = 1000 },
		.caps = { .memory_bytes = memory / 4 * 3,
			.files_bytes = memory / 8 * 3,
			.inodes = 10000000,
			.processes = 16384,
			.cpu_milli = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) * 1000 },
		.cell_seconds = 28,
		.cell_seconds_cap = 86400,
		.ttl_seconds = 300,
		.sandboxes = 4096,
		.pool = 4,
		.pool_languages = LANGUAGE_BIT(LANGUAGE_PYTHON),
		.network_default = "none",
		.memory_reserve = 256 * MIB,
		.owners = json_object(),
		.hosts = json_array() };
	strcpy(config->listen_host, "127.0.0.1");
}

static bool check(const struct config *config, struct error *err)
{
	const struct wire_limits *limits = &config->limits, *caps = &config->caps;
	if (limits->files_bytes > limits->memory_bytes / 2)
		return error_set(err, ERROR_CONFIG,
			"limits.files_mb is more than half of limits.memory_mb: files live in memory");
	if (limits->memory_bytes > caps->memory_bytes || limits->files_bytes > caps->files_bytes ||
		limits->inodes > caps->inodes || limits->processes > caps->processes ||
		limits->cpu_milli > caps->cpu_milli ||
		config->cell_seconds > config->cell_seconds_cap)
		return error_set(
			err, ERROR_CONFIG, "a default in 'limits' is above its cap in 'caps'");
	if (config->sandboxes < 1 || config->sandboxes > IDS_SLICES)
		return error_set(
			err, ERROR_CONFIG, "caps.sandboxes must be from 1 to %u", IDS_SLICES);
	return true;
}

bool config_set_listen(struct config *config, const char *text, struct error *err)
{
	const char *colon = strrchr(text, ':');
	char *end = NULL;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	size_t size = colon ? (size_t)(colon - text) : 0;
	if (!colon || size == 0 || size >= sizeof(config->listen_host) || !colon[1] || *end ||
		port > 65535) {
		error_set(err, ERROR_CONFIG, "'%s' is no address to listen on", text);
		return error_hint(err, "HOST:PORT, e.g. 127.0.0.1:8080; port 0 picks a free one");
	}
	memcpy(config->listen_host, text, size);
	config->listen_host[size] = '\0';
	config->listen_port = (unsigned)port;
	return true;
}

bool config_load(struct config *config, const char *path, struct error *err)
{
	json_error_t where;
	const char *key;
	json_t *value;
	set_defaults(config);
	if (!path)
		return check(config, err);
	json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		return error_set(err, ERROR_CONFIG, "cannot read '%s': %s (line %d)", path,
			where.text, where.line);
	bool is_good = json_is_object(root) ||
		       error_set(err, ERROR_CONFIG, "'%s' must hold one JSON object", path);
	json_object_foreach(root, key, value) is_good =
		is_good && take_key(config, key, value, err);
	json_decref(root);
	return is_good && check(config, err);
}

void config_deinit(struct config *config)
{
	json_decref(config->hosts);
	json_decref(config->owners);
	for (size_t i = 0; i < KEEPER_NAMES; i++)
		free(config->templates[i]);
}
