/* See environment.h. The file is part of the image, so no sandbox can change it. */
#include "jail/environment.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define FILE_LIMIT (512 << 10)
#define ENTRIES_LIMIT 256

static bool has_name(const char *entry, const char *other)
{
	size_t size = strcspn(entry, "=") + 1;
	return strncmp(entry, other, size) == 0;
}

static bool is_set(char *const entries[], size_t count, const char *entry)
{
	for (size_t i = 0; i < count; i++)
		if (has_name(entries[i], entry))
			return true;
	return false;
}

char *const *environment_with_image(char *const own[])
{
	static char *entries[ENTRIES_LIMIT + 1];
	struct error err;
	size_t count = 0, set;
	char *save = NULL,
	     *text = fd_read_file(AT_FDCWD, IMAGE_ENVIRONMENT, FILE_LIMIT, NULL, &err);
	if (!text)
		return own;
	for (char *line = strtok_r(text, "\n", &save); line && count < ENTRIES_LIMIT / 2;
		line = strtok_r(NULL, "\n", &save))
		if (strchr(line, '='))
			entries[count++] = line;
	set = count;
	for (size_t i = 0; own[i] && count < ENTRIES_LIMIT; i++)
		if (!is_set(entries, set, own[i]))
			entries[count++] = own[i];
	entries[count] = NULL;
	return entries; /* points into `text` */
}
