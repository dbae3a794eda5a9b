/*
 * Dockerfiles, with a context whose requirements.txt is the input too. What is taken must be what
 * the builder takes: plain names, and files below the places there are.
 */
#include "api/dockerfile.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_words(const json_t *recipe, const char *list, const char *forbidden)
{
	const json_t *word;
	size_t i;
	json_array_foreach(json_object_get(recipe, list), i, word)
	{
		const char *text = json_string_value(word);
		assert(text && text[0] && text[0] != '-' && !strpbrk(text, forbidden));
	}
}

static void check_copies(const json_t *recipe)
{
	const json_t *copy;
	size_t i;
	json_array_foreach(json_object_get(recipe, "copy"), i, copy)
	{
		const char *to = json_string_value(json_object_get(copy, "to"));
		assert(json_integer_value(json_object_get(copy, "file")) < 2);
		assert(to && to[0] == '/' && dockerfile_path_is_plain(to + 1));
		assert(strncmp(to, "/etc", 4) != 0 && strncmp(to, "/usr/lib", 8) != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *)bytes;
	const struct context_file files[] = { { "requirements.txt", text, size },
		{ "a/b", "", 0 } };
	const struct context context = { files, ARRAY_SIZE(files) };
	struct error err = { 0 };
	json_t *recipe = dockerfile_read(text, size, &context, &err);
	assert(!recipe == (err.code != ERROR_NONE));
	check_words(recipe, "debian", " ,;|&$`/=<>()'\"\\\n");
	check_words(recipe, "wheels", " ;|&$`/()'\"\\\n@");
	check_copies(recipe);
	json_decref(recipe);
	return 0;
}
