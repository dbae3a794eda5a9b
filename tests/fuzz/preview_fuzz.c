/*
 * Preview tokens, the paths they are for, and preview hosts. The input is a token or a host; the
 * same bytes also make a token of our own, which has to open again, and not after a bit of it was
 * turned.
 */
#include "api/preview.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const uint8_t key[PREVIEW_KEY_SIZE] = { 1, 2, 3 };

static void try_foreign(const char *text)
{
	static struct preview preview;
	struct error err = { 0 };
	struct sandbox_id id;
	uint16_t port = 0;
	assert(!preview_open(key, text, 0, &preview, &err)); /* without the key nobody makes one */
	assert(err.code == ERROR_TOKEN && err.message[0]);
	if (preview_port_parse(text, &port))
		assert(port > 0 && (unsigned long)port == strtoul(text, NULL, 10));
	if (preview_host_parse(text, &port, &id))
		assert(port > 0 && strchr(text, '-') && strchr(text, '.'));
}

/* Paths as previews.c lets them in: each begins with a slash. */
static void put_paths(struct preview *preview, const uint8_t *bytes, size_t size)
{
	size = size < PREVIEW_PATHS_SIZE ? size : PREVIEW_PATHS_SIZE;
	for (size_t i = 0; i < size; i++) {
		bool is_begin = i == 0 || preview->paths[i - 1] == '\n';
		preview->paths[i] = (char)(is_begin ? '/' : bytes[i] ? bytes[i] : 'x');
	}
}

static void try_own(const uint8_t *bytes, size_t size)
{
	static struct preview preview, opened;
	struct error err = { 0 };
	struct buf token = buf_make(8192);
	preview = (struct preview){ .port = 80, .expires_s = 100 };
	put_paths(&preview, bytes, size);
	assert(preview_seal(key, &preview, &token));
	char *text = strdup(buf_text(&token));
	assert(preview_open(key, text, 99, &opened, &err));
	assert(opened.port == 80 && strcmp(opened.paths, preview.paths) == 0);
	assert(!preview_open(key, text, 100, &opened, &err));
	size_t place = size ? bytes[0] % token.size : 0;
	text[place] = text[place] == '0' ? '1' : '0';
	if (text[place] != token.bytes[place])
		assert(!preview_open(key, text, 99, &opened, &err));
	free(text);
	buf_deinit(&token);
}

/* The text's segments against a token for "/a" and "/b/c/". */
static void try_paths(const char *text)
{
	static struct preview preview = { .paths = "/a\n/b/c/" };
	const char *segments[64];
	unsigned count = 0;
	char *copy = strdup(text), *rest = copy, *segment;
	while (count < 64 && (segment = strsep(&rest, "/")) != NULL)
		segments[count++] = segment;
	if (preview_covers(&preview, segments, count)) {
		assert(strcmp(segments[0], "a") == 0 || strcmp(segments[0], "b") == 0);
		for (unsigned i = 0; i < count; i++)
			assert(strcmp(segments[i], "..") != 0 && !strchr(segments[i], '\\'));
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1);
	memcpy(text, bytes, size);
	text[size] = '\0';
	try_foreign(text);
	try_paths(text);
	try_own(bytes, size);
	free(text);
	return 0;
}
