/*
 * The keys that the state folder names: the first one, in `key`, and those that the operator made
 * for further owners, one file each in `keys`. Such a file holds a hash and never the key. Who may
 * write in the folder decides who owns what; so it is closed to every other process of the daemon.
 *
 *   keys/<prefix>.json   {"owner", "hash", "label", "created_ms", "expires_ms"?}
 */
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "keeper/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define FILES_LIMIT 4096
#define FILE_SIZE 4096
#define HASH_SIZE 32
#define LABEL_SIZE 100
#define PREFIX_SIZE 27

static bool check(const json_t *about, struct error *err)
{
	static const char *const known[] = { "owner", "hash", "label", "created_ms", "expires_ms" };
	uint8_t hash[HASH_SIZE];
	const char *owner = json_string_value(json_object_get(about, "owner"));
	const char *digits = json_string_value(json_object_get(about, "hash"));
	const char *label = json_string_value(json_object_get(about, "label"));
	const json_t *expires = json_object_get(about, "expires_ms");
	size_t found = 0;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		found += json_object_get(about, known[i]) != NULL;
	if (!owner || !config_is_name(owner, OWNER_SIZE) || !digits ||
		!id_from_text(digits, hash, sizeof(hash)) || !label || !*label ||
		strlen(label) > LABEL_SIZE ||
		!json_is_integer(json_object_get(about, "created_ms")) ||
		(expires && !json_is_integer(expires)) || found != json_object_size(about))
		return error_set(err, ERROR_CONFIG, "it is not what `sandglass key create` writes");
	return true;
}

/* "<prefix>.json": NULL and err when it is not named or written so. */
static json_t *read_key(int dir_fd, const char *name, struct error *err)
{
	char prefix[PREFIX_SIZE + 1];
	size_t size = strlen(name) - strlen(".json");
	cleanup_free char *text = fd_read_file(dir_fd, name, FILE_SIZE, NULL, err);
	if (!text)
		return NULL;
	json_t *about = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (size > PREFIX_SIZE || !check(about, err)) {
		error_set(err, ERROR_CONFIG, "it is not what `sandglass key create` writes");
		json_decref(about);
		return NULL;
	}
	snprintf(prefix, sizeof(prefix), "%.*s", (int)size, name);
	json_object_set_new(about, "prefix", json_string(prefix));
	return about;
}

static int is_key_file(const struct dirent *entry)
{
	const char *end = strrchr(entry->d_name, '.');
	return entry->d_name[0] != '.' && end && !strcmp(end, ".json");
}

static void add_files(const struct state *state, json_t *keys)
{
	char path[PATH_MAX + 8];
	struct dirent **entries = NULL;
	snprintf(path, sizeof(path), "%s/keys", state->folder);
	int count = scandir(path, &entries, is_key_file, alphasort);
	cleanup_close int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < count; i++) {
		struct error err = { 0 };
		json_t *about = i < FILES_LIMIT ? read_key(dir_fd, entries[i]->d_name, &err) : NULL;
		if (about)
			json_array_append_new(keys, about);
		else
			log_write(LOG_ERROR, "key.unusable", NULL, "keys/%s is left out: %s",
				entries[i]->d_name, err.message);
		free(entries[i]);
	}
	free(entries);
}

json_t *keys_json(const struct state *state)
{
	json_t *keys = json_array();
	json_array_append_new(
		keys, json_pack("{s:s, s:s, s:s, s:s, s:I}", "owner", "owner-1", "hash",
			      state->key_hash, "prefix", state->key_prefix, "label", "first key",
			      "created_ms", (json_int_t)state->key_made_ms));
	add_files(state, keys);
	return keys;
}
