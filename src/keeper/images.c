/*
 * Which templates there are: folders of the image cache with a template.json and the image it
 * names. The cache is $SANDGLASS_CACHE, else ~/.cache/sandglass; a link <name> leads to the build
 * that is current. A link that goes away changes nothing before the next start. Templates that were
 * built over the API lie in the state folder in the same way; one whose name the cache has, too, is
 * left out.
 */
#include "base/log.h"
#include "keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST "code-interpreter"

bool images_folder(char *path, size_t size, struct error *err)
{
	const char *cache = getenv("SANDGLASS_CACHE"), *home = getenv("HOME");
	if (cache && *cache)
		snprintf(path, size, "%s", cache);
	else if (home && *home)
		snprintf(path, size, "%s/.cache/sandglass", home);
	else {
		error_set(err, ERROR_CONFIG,
			"neither SANDGLASS_CACHE nor HOME says where images are");
		return false;
	}
	return true;
}

static void image_free(struct image *image)
{
	json_decref(image->about);
	json_decref(image->next);
	free(image);
}

static bool is_usable(const json_t *about)
{
	const char *image = json_string_value(json_object_get(about, "image"));
	const char *name = json_string_value(json_object_get(about, "name"));
	return image && name && name[0] != '.' && config_is_name(name, TEMPLATE_NAME_SIZE - 1);
}

/* What the link `name` of the cache leads to now; the link itself may be another one soon. */
static struct image *image_load(const char *cache, const char *name, struct error *err)
{
	char path[PATH_MAX + 16], folder[PATH_MAX];
	json_error_t where = { .text = "there is nothing" };
	snprintf(path, sizeof(path), "%s/%s", cache, name);
	json_t *about = NULL;
	if (realpath(path, folder)) {
		snprintf(path, sizeof(path), "%s/template.json", folder);
		about = json_load_file(path, 0, &where);
	}
	if (!is_usable(about)) {
		error_set(err, ERROR_CONFIG, "the template '%s' cannot be read: %s", name,
			where.text);
		error_hint(err, "build it: sandglass template build %s", name);
		json_decref(about);
		return NULL;
	}
	struct image *image = calloc(1, sizeof(*image));
	if (!image) {
		json_decref(about);
		return error_no_memory(err);
	}
	image->next = about;
	list_init(&image->link);
	const char *file = json_string_value(json_object_get(about, "image"));
	int n = file[0] == '/' ? snprintf(image->path, sizeof(image->path), "%s", file)
			       : snprintf(image->path, sizeof(image->path), "%s/%s", folder, file);
	if (n < (int)sizeof(image->path))
		return image;
	error_set(err, ERROR_CONFIG, "the path of the template '%s' is too long", name);
	image_free(image);
	return NULL;
}

static bool has_alias(const struct image *image, const char *name)
{
	json_t *value;
	size_t i;
	json_array_foreach(json_object_get(image_about(image), "aliases"), i,
		value) if (json_is_string(value) &&
			   !strcmp(json_string_value(value), name)) return true;
	return false;
}

static const char *image_name(const struct image *image)
{
	return json_string_value(json_object_get(image_about(image), "name"));
}

struct image *images_by_name(const struct keeper *keeper, const char *name)
{
	LIST_EACH(&keeper->images, struct image, link, image)
		if (!strcmp(image_name(image), name) || has_alias(image, name))
			return image;
	return NULL;
}

void images_drop(struct image *image)
{
	list_remove(&image->link);
	image_free(image);
}

void images_made_folder(const struct keeper *keeper, char path[MADE_FOLDER_SIZE])
{
	snprintf(path, MADE_FOLDER_SIZE, "%s/templates", keeper->state.folder);
}

static bool image_add(struct keeper *keeper, const char *cache, const char *name, struct error *err)
{
	struct image *image = image_load(cache, name, err);
	if (!image)
		return false;
	image->about = TAKE(&image->next);
	list_append(&keeper->images, &image->link);
	return true;
}

static int is_name(const struct dirent *entry)
{
	return entry->d_type == DT_LNK && entry->d_name[0] != '.';
}

/* The first is what a client gets that names none: code-interpreter, then by name. */
static int by_rank(const struct dirent **one, const struct dirent **other)
{
	bool is_first = !strcmp((*one)->d_name, FIRST),
	     is_second = !strcmp((*other)->d_name, FIRST);
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

static bool is_taken(const struct keeper *keeper, const char *name, struct error *err)
{
	const struct image *image = images_by_name(keeper, name);
	if (!image || image->is_made)
		return false;
	error_set(err, ERROR_TEMPLATE_GLOBAL,
		"the host has a template '%s', too: that one is served", name);
	return true;
}

static void add_made(struct keeper *keeper)
{
	char folder[MADE_FOLDER_SIZE];
	struct dirent **entries = NULL;
	images_made_folder(keeper, folder);
	int count = scandir(folder, &entries, is_name, by_rank);
	for (int i = 0; i < count; i++) {
		struct error err = { 0 };
		const char *name = entries[i]->d_name;
		if (!is_taken(keeper, name, &err) && image_add(keeper, folder, name, &err))
			CONTAINER_OF(keeper->images.previous, struct image, link)->is_made = true;
		else
			log_error("template.unusable", NULL, &err);
		free(entries[i]);
	}
	free(entries);
}

static bool find_in_cache(struct keeper *keeper, const char *cache, struct error *err)
{
	for (size_t i = 0; i < KEEPER_NAMES && keeper->config.templates[i]; i++)
		if (!image_add(keeper, cache, keeper->config.templates[i], err))
			return false;
	if (keeper->config.templates[0] || add_all(keeper, cache))
		return true;
	error_set(err, ERROR_CONFIG, "there is no template in '%s'", cache);
	return error_hint(
		err, "build one: sandglass template build code-interpreter (or: make setup)");
}

bool images_find(struct keeper *keeper, struct error *err)
{
	char cache[PATH_MAX];
	list_init(&keeper->images);
	if (!images_folder(cache, sizeof(cache), err) || !find_in_cache(keeper, cache, err))
		return false;
	add_made(keeper);
	return true;
}

/* ---- while the daemon runs ---- */

static struct image *find(const struct keeper *keeper, const struct image *like)
{
	const json_t *name = json_object_get(image_about(like), "name");
	LIST_EACH(&keeper->images, struct image, link, image)
		if (json_equal(json_object_get(image_about(image), "name"), name))
			return image;
	return NULL;
}

/* Takes `fresh` in, in the place of what had its name; what is served stays until it is settled. */
static void put(struct keeper *keeper, struct image *known, struct image *fresh)
{
	if (!known) {
		list_append(&keeper->images, &fresh->link);
		return;
	}
	json_decref(known->next);
	known->next = TAKE(&fresh->next);
	known->is_made = fresh->is_made;
	memcpy(known->path, fresh->path, sizeof(known->path));
	image_free(fresh);
}

static void renew(
	struct keeper *keeper, const char *cache, bool is_made, const char *name, images_take take)
{
	struct error err = { 0 };
	if (is_made && is_taken(keeper, name, &err))
		return; /* said at the start, or refused when it was to be built */
	struct image *fresh = image_load(cache, name, &err);
	struct image *known = fresh ? find(keeper, fresh) : NULL;
	if (fresh)
		fresh->is_made = is_made;
	if (known && json_equal(image_about(known), fresh->next) &&
		!strcmp(known->path, fresh->path)) {
		image_free(fresh);
	} else if (fresh && take(keeper, fresh, &err)) {
		put(keeper, known, fresh);
	} else {
		log_error("template.unusable", NULL, &err);
		if (fresh)
			image_free(fresh);
	}
}

static void renew_all(struct keeper *keeper, const char *folder, bool is_made, images_take take)
{
	struct dirent **entries = NULL;
	int count = scandir(folder, &entries, is_name, by_rank);
	for (int i = 0; i < count; i++) {
		renew(keeper, folder, is_made, entries[i]->d_name, take);
		free(entries[i]);
	}
	free(entries);
}

void images_renew(struct keeper *keeper, images_take take)
{
	char folder[MADE_FOLDER_SIZE];
	if (!images_folder(folder, sizeof(folder), NULL))
		return;
	for (size_t i = 0; i < KEEPER_NAMES && keeper->config.templates[i]; i++)
		renew(keeper, folder, false, keeper->config.templates[i], take);
	if (!keeper->config.templates[0])
		renew_all(keeper, folder, false, take);
	images_made_folder(keeper, folder);
	renew_all(keeper, folder, true, take);
}

void images_settle(struct keeper *keeper)
{
	LIST_EACH(&keeper->images, struct image, link, image) {
		if (!image->next)
			continue;
		json_decref(image->about);
		image->about = TAKE(&image->next);
	}
}
