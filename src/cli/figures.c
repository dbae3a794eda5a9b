/* See figures.h. */
#include "cli/figures.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_FIGURES 9999u

static const struct {
	const char *type, *extension;
	bool is_text; /* as it stands, else base64 */
} kinds[] = {
	{ "image/png", "png", false },
	{ "image/jpeg", "jpg", false },
	{ "image/svg+xml", "svg", true },
};

unsigned char *figures_decode(const char *text, size_t *ret_size)
{
	struct base64_decode_ctx context;
	size_t size = BASE64_DECODE_LENGTH(strlen(text));
	cleanup_free unsigned char *bytes = malloc(size + 1);
	if (!bytes)
		return NULL;
	base64_decode_init(&context);
	if (!base64_decode_update(&context, &size, bytes, strlen(text), text) ||
		!base64_decode_final(&context))
		return NULL;
	*ret_size = size;
	return TAKE(&bytes);
}

/* Is there a file figure-N of any kind? */
static bool is_taken(int dir_fd, unsigned number)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		char name[32];
		struct stat found;
		snprintf(name, sizeof(name), "figure-%u.%s", number, kinds[i].extension);
		if (fstatat(dir_fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

static bool save(struct figures *figures, int dir_fd, const char *extension, const void *bytes,
	size_t size, struct error *err)
{
	char name[32];
	snprintf(name, sizeof(name), "figure-%u.%s", figures->last, extension);
	cleanup_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 || !fd_write_all(fd, bytes, size))
		return error_from_os(err, errno, "cannot save '%s/%s'", figures->folder, name);
	figures->saved++;
	fprintf(stderr, "figure saved: %s/%s\n", figures->folder, name);
	return true;
}

bool figures_save(
	struct figures *figures, const json_t *result, unsigned *ret_count, struct error *err)
{
	*ret_count = 0;
	cleanup_close int dir_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const json_t *value = json_object_get(result, kinds[i].type);
		if (!json_is_string(value))
			continue;
		if (dir_fd < 0) {
			dir_fd = open(figures->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (dir_fd < 0)
				return error_from_os(
					err, errno, "cannot save figures in '%s'", figures->folder);
			do
				figures->last++;
			while (figures->last < MOST_FIGURES && is_taken(dir_fd, figures->last));
		}
		size_t size = json_string_length(value);
		const void *bytes = json_string_value(value);
		cleanup_free unsigned char *decoded = NULL;
		if (!kinds[i].is_text) {
			decoded = figures_decode(bytes, &size);
			if (!decoded)
				return error_set(err, ERROR_INVALID, "the daemon's %s is no base64",
					kinds[i].type);
			bytes = decoded;
		}
		if (!save(figures, dir_fd, kinds[i].extension, bytes, size, err))
			return false;
		++*ret_count;
	}
	return true;
}
