/*
 * Which templates there are: folders of the image cache with a template.json and the image it names. The
 * cache is $SANDGLASS_CACHE, else ~/.cache/sandglass; a link <name> leads to the build that is current.
 */
#include "base/log.h"
#include "keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST "code-interpreter"

static bool cache_folder(char *path, size_t size, struct error *err)
{
	const char *cache = getenv("SANDGLASS_CACHE"), *home = getenv("HOME");
	if (cache && *cache)
		snprintf(path, size, "%s", cache);
	else if (home && *home)
		snprintf(path, size, "%s/.cache/sandglass", home);
	else {
		error_set(err, ERROR_CONFIG, "neither SANDGLASS_CACHE nor HOME says where images are");
		return false;
	}
	return true;
}

static bool image_add(struct keeper *keeper, const char *cache, const char *name, struct error *err)
{
	char path[PATH_MAX];
	json_error_t where;
	snprintf(path, sizeof(path), "%s/%s/template.json", cache, name);
	json_t *about = json_load_file(path, 0, &where);
	const char *image = json_string_value(json_object_get(about, "image"));
	const char *own_name = json_string_value(json_object_get(about, "name"));
	if (!image || !own_name || strlen(own_name) >= TEMPLATE_NAME_SIZE || strchr(own_name, '/')) {
		error_set(err, ERROR_CONFIG, "the template '%s' cannot be read: %s", name, where.text);
		json_decref(about);
		return error_hint(err, "build it: sandglass template build %s", name);
	}
	struct image *entry = calloc(1, sizeof(*entry));
	if (!entry)
		return error_no_memory(err);
	entry->about = about;
	int n = image[0] == '/' ? snprintf(entry->path, sizeof(entry->path), "%s", image)
				: snprintf(entry->path, sizeof(entry->path), "%s/%s/%s", cache, name,
					  image);
	list_append(&keeper->images, &entry->link);
	return n < (int)sizeof(entry->path) ||
	       error_set(err, ERROR_CONFIG, "the path of the template '%s' is too long", name);
}

static int is_name(const struct dirent *entry)
{
	return entry->d_type == DT_LNK && entry->d_name[0] != '.';
}

/* The first is what a client gets that names none: code-interpreter, then by name. */
static int by_rank(const struct dirent **one, const struct dirent **other)
{
	bool is_first = !strcmp((*one)->d_name, FIRST), is_second = !strcmp((*other)->d_name, FIRST);
	return is_first != is_second ? is_second - is_first
				     : strcmp((*one)->d_name, (*other)->d_name);
}

/* All names of the cache: the links. */
static bool add_all(struct keeper *keeper, const char *cache)
{
	struct dirent **entries = NULL;
	int count = scandir(cache, &entries, is_name, by_rank);
	bool is_any = false;
	for (int i = 0; i < count; i++) {
		struct error err = { 0 };
		if (image_add(keeper, cache, entries[i]->d_name, &err))
			is_any = true;
		else
			log_error("template.unusable", NULL, &err);
		free(entries[i]);
	}
	free(entries);
	return is_any;
}

bool images_find(struct keeper *keeper, struct error *err)
{
	char cache[PATH_MAX];
	list_init(&keeper->images);
	if (!cache_folder(cache, sizeof(cache), err))
		return false;
	for (size_t i = 0; i < KEEPER_NAMES && keeper->config.templates[i]; i++)
		if (!image_add(keeper, cache, keeper->config.templates[i], err))
			return false;
	if (keeper->config.templates[0] || add_all(keeper, cache))
		return true;
	error_set(err, ERROR_CONFIG, "there is no template in '%s'", cache);
	return error_hint(err, "build one: sandglass template build code-interpreter (or: make setup)");
}
