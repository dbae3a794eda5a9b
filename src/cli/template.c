/*
 * `sandglass template`: on the host it hands on to templates/build.py, and lists what its cache
 * holds; what asks a daemon is in template_remote.c.
 */
#include "cli/command.h"
#include "cli/program.h"
#include "cli/template_remote.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DESCRIPTION_LIMIT (256u << 10)

/* Becomes build.py; returns only on failure. `arguments` are all after "build". */
static int build(int argc, char **argv)
{
	if (argc < 1)
		return command_misused("template", "build needs the NAME of a template");
	char folder[PATH_MAX], builder[PATH_MAX + 16];
	struct error err = { 0 };
	if (!program_templates(folder, sizeof(folder), &err))
		return command_fail("template", &err);
	snprintf(builder, sizeof(builder), "%s/build.py", folder);
	cleanup_free char **command = calloc((size_t)argc + 3, sizeof(*command));
	if (!command) {
		error_no_memory(&err);
		return command_fail("template", &err);
	}
	command[0] = (char[]){ "python3" };
	command[1] = builder;
	memcpy(command + 2, argv, (size_t)argc * sizeof(*argv));
	execvp(command[0], command);
	error_from_os(&err, errno, "cannot start python3");
	error_hint(&err, "apt-get install python3");
	return command_fail("template", &err);
}

/* One line about a template, built or not. */
static void describe(int cache_fd, const char *name)
{
	char path[NAME_MAX + 32];
	snprintf(path, sizeof(path), "%s/template.json", name);
	cleanup_free char *text =
		cache_fd < 0 ? NULL : fd_read_file(cache_fd, path, DESCRIPTION_LIMIT, NULL, NULL);
	json_t *described = text ? json_loads(text, 0, NULL) : NULL;
	const char *what = json_string_value(json_object_get(described, "description"));
	const char *when = json_string_value(json_object_get(described, "created_at"));
	double size = (double)json_integer_value(json_object_get(described, "size_bytes")) / 1e6;
	if (described)
		printf("%-20s %6.0f MB  built %.10s  %s\n", name, size, when ? when : "",
			what ? what : "");
	else
		printf("%-20s not built: sandglass template build %s\n", name, name);
	json_decref(described);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(void)
{
	char folder[PATH_MAX], cache[PATH_MAX];
	struct error err = { 0 };
	if (!program_templates(folder, sizeof(folder), &err) ||
		!program_cache(cache, sizeof(cache), &err))
		return command_fail("template", &err);
	cleanup_close int cache_fd = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = opendir(folder);
	if (!directory) {
		error_from_os(&err, errno, "cannot read '%s'", folder);
		return command_fail("template", &err);
	}
	char *names[64];
	size_t count = 0;
	for (struct dirent *entry; count < ARRAY_SIZE(names) && (entry = readdir(directory));) {
		char description[NAME_MAX + 32];
		snprintf(description, sizeof(description), "%s/template.toml", entry->d_name);
		if (faccessat(dirfd(directory), description, R_OK, 0) == 0)
			names[count++] = strdup(entry->d_name);
	}
	closedir(directory);
	qsort(names, count, sizeof(names[0]), by_name);
	for (size_t i = 0; i < count; i++) {
		describe(cache_fd, names[i]);
		free(names[i]);
	}
	return EXIT_OK;
}

static bool has_option(int argc, char **argv, const char *option)
{
	size_t size = strlen(option);
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], option, size) == 0 &&
			(argv[i][size] == '\0' || argv[i][size] == '='))
			return true;
	return false;
}

int template_command(int argc, char **argv)
{
	static const struct {
		const char *word, *option; /* with that option only */
		int (*run)(int argc, char **argv);
	} remote[] = { { "build", "--dockerfile", template_remote_build },
		{ "list", "--state", template_remote_list },
		{ "builds", NULL, template_remote_builds }, { "logs", NULL, template_remote_logs },
		{ "rm", NULL, template_remote_rm } };
	if (argc < 2)
		return command_misused(
			"template", "say what to do: build NAME, list, builds, logs ID, rm NAME");
	for (size_t i = 0; i < ARRAY_SIZE(remote); i++)
		if (strcmp(argv[1], remote[i].word) == 0 &&
			(!remote[i].option || has_option(argc - 1, argv + 1, remote[i].option)))
			return remote[i].run(argc - 1, argv + 1);
	if (strcmp(argv[1], "build") == 0)
		return build(argc - 2, argv + 2);
	if (strcmp(argv[1], "list") != 0)
		return command_misused(
			"template", "'%s' is none of build, list, builds, logs, rm", argv[1]);
	if (argc > 2)
		return command_misused("template", "'%s' is one argument too many", argv[2]);
	return list();
}
