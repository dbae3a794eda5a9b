/* See program.h. */
#include "cli/program.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seen from the program's own folder: installed, at the top of a build folder, deep in one. */
static const char *const places[] = {
	"../share/sandglass/templates",
	"templates",
	"../templates",
	"../../../templates",
};

bool program_templates(char *path, size_t size, struct error *err)
{
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	if (n < 0)
		return error_from_os(err, errno, "cannot find this program's own folder");
	own[n] = '\0';
	*strrchr(own, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char builder[PATH_MAX + 64];
		snprintf(builder, sizeof(builder), "%s/%s/build.py", own, places[i]);
		if (access(builder, R_OK) < 0)
			continue;
		char folder[PATH_MAX + 64], resolved[PATH_MAX];
		snprintf(folder, sizeof(folder), "%s/%s", own, places[i]);
		if (!realpath(folder, resolved))
			continue;
		if (snprintf(path, size, "%s", resolved) < (int)size)
			return true;
	}
	error_set(err, ERROR_INVALID, "the templates are not beside this program");
	return error_hint(err, "run it from the source tree's build folder, or install it");
}

bool program_cache(char *path, size_t size, struct error *err)
{
	const char *named = getenv("SANDGLASS_CACHE");
	if (named && *named) {
		if (snprintf(path, size, "%s", named) < (int)size)
			return true;
		return error_set(err, ERROR_INVALID, "SANDGLASS_CACHE is too long");
	}
	const char *home = getenv("HOME");
	if (!home || !*home) {
		const struct passwd *user = getpwuid(getuid());
		home = user ? user->pw_dir : NULL;
	}
	if (!home || snprintf(path, size, "%s/.cache/sandglass", home) >= (int)size) {
		error_set(err, ERROR_INVALID, "there is no home folder");
		return error_hint(err, "set SANDGLASS_CACHE to the folder for built templates");
	}
	return true;
}
