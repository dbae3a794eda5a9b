/* `sandglass cp`: which way, and what becomes of the target; the work is done by copy. */
#include "cli/command.h"
#include "cli/copy.h"
#include "cli/options.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define WORKSPACE "/workspace"

/* One side of the copy. */
struct side {
	bool is_inside, is_stream;
	char word[64];        /* of the sandbox */
	char path[COPY_PATH]; /* inside: absolute */
};

/* "ID:PATH" is inside. A name with a colon here is written as "./a:b". */
static bool read_side(const char *text, struct side *side)
{
	size_t size = strcspn(text, ":");
	bool is_inside = text[size] && size > 0 && size < sizeof(side->word) &&
			 strspn(text, "0123456789abcdefABCDEF-") == size;
	*side = (struct side){ .is_inside = is_inside, .is_stream = strcmp(text, "-") == 0 };
	const char *path = is_inside ? text + size + 1 : text;
	const char *root = is_inside && *path != '/' ? WORKSPACE "/" : "";
	if (is_inside)
		memcpy(side->word, text, size);
	return *text && snprintf(side->path, COPY_PATH, "%s%s", root, path) < (int)COPY_PATH;
}

/* The last name of a path, without slashes at its end; "" for the root. */
static void last_name(const char *path, char name[COPY_PATH])
{
	size_t end = strlen(path);
	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	snprintf(name, COPY_PATH, "%.*s", (int)(end - begin), path + begin);
}

static bool ends_with_slash(const char *path)
{
	size_t size = strlen(path);
	return size > 0 && path[size - 1] == '/';
}

/* Into a folder that is there goes what is copied, under its own name. */
static bool place_within(struct side *target, const struct side *source, struct error *err)
{
	char name[COPY_PATH], path[COPY_PATH];
	if (source->is_stream)
		return error_set(err, ERROR_INVALID, "'%.200s' is a folder: name a file in it",
			target->path);
	last_name(source->path, name);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !*name)
		return true; /* its contents are meant */
	if (!copy_join(path, target->path, name, err))
		return false;
	memcpy(target->path, path, sizeof(path));
	return true;
}

static bool copy_in(
	struct copy *copy, const struct side *source, struct side *target, struct error *err)
{
	enum copy_kind kind;
	struct stat about;
	bool is_folder =
		!source->is_stream && stat(source->path, &about) == 0 && S_ISDIR(about.st_mode);
	if (!copy_look(copy, target->path, &kind, err))
		return false;
	bool goes_within = kind == COPY_FOLDER || (ends_with_slash(target->path) && !is_folder);
	if (goes_within && !place_within(target, source, err))
		return false;
	if (is_folder && kind == COPY_FILE)
		return error_set(err, ERROR_INVALID, "'%.200s' is a file", target->path);
	bool is_good = source->is_stream ? copy_up_stream(copy, STDIN_FILENO, target->path, err)
					 : copy_up(copy, source->path, target->path, err);
	return is_good && copy_up_finish(copy, err);
}

/* ---- out ---- */

/* Opens the folder that the target lies in; its name there is what is left. */
static int open_parent(const char *path, char name[COPY_PATH], struct error *err)
{
	char parent[COPY_PATH];
	last_name(path, name);
	size_t end = strlen(path);
	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t size = end - strlen(name);
	snprintf(parent, sizeof(parent), "%.*s", (int)size, path);
	int fd = open(size ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		error_from_os(err, errno, "cannot use the folder '%.200s'", size ? parent : ".");
	return fd;
}

static bool take_folder(
	struct copy *copy, const struct side *source, const char *target, struct error *err)
{
	if (mkdir(target, 0777) < 0 && errno != EEXIST)
		return error_from_os(err, errno, "cannot make the folder '%.200s'", target);
	cleanup_close int fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_from_os(err, errno, "cannot use the folder '%.200s'", target);
	return copy_down_folder(copy, source->path, fd, 0, err);
}

static bool take_file(
	struct copy *copy, const struct side *source, const char *target, struct error *err)
{
	char name[COPY_PATH];
	struct stat about;
	bool is_there = stat(target, &about) == 0;
	copy->files = 1;
	if (is_there && !S_ISREG(about.st_mode)) { /* a device, a pipe */
		cleanup_close int fd = open(target, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			return error_from_os(err, errno, "cannot write '%.200s'", target);
		return copy_down_stream(copy, source->path, fd, err);
	}
	cleanup_close int dir_fd = open_parent(target, name, err);
	return dir_fd >= 0 && copy_down_file(copy, source->path, dir_fd, name, err);
}

static bool copy_out(
	struct copy *copy, const struct side *source, struct side *target, struct error *err)
{
	enum copy_kind kind;
	struct stat about;
	if (target->is_stream)
		return copy_down_stream(copy, source->path, STDOUT_FILENO, err);
	if (!copy_look(copy, source->path, &kind, err))
		return false;
	if (kind == COPY_NOTHING)
		return error_set(
			err, ERROR_INVALID, "there is no '%.200s' in the sandbox", source->path);
	bool is_folder = stat(target->path, &about) == 0 && S_ISDIR(about.st_mode);
	if (!is_folder && ends_with_slash(target->path) && kind == COPY_FILE)
		return error_set(err, ERROR_INVALID, "there is no folder '%.200s'", target->path);
	if (is_folder && !place_within(target, source, err))
		return false;
	return kind == COPY_FOLDER ? take_folder(copy, source, target->path, err)
				   : take_file(copy, source, target->path, err);
}

/* ---- both ---- */

/* A folder's copy says what it did; a file's is silent, as with cp. */
static void report(const struct copy *copy)
{
	if (copy->folders == 0)
		return;
	fprintf(stderr, "%u file%s in %u folder%s copied", copy->files, copy->files == 1 ? "" : "s",
		copy->folders, copy->folders == 1 ? "" : "s");
	if (copy->skipped)
		fprintf(stderr, ", %u left out", copy->skipped);
	fputc('\n', stderr);
}

static int perform(const char *state, struct side *source, struct side *target)
{
	struct daemon daemon;
	struct error err = { 0 };
	char id[SANDBOX_ID_TEXT];
	struct copy copy = { .daemon = &daemon, .id = id };
	bool goes_in = target->is_inside;
	/* Out of a sandbox there may be half a file to remove; into it nothing is half. */
	bool is_good = daemon_open(&daemon, state, &err) &&
		       daemon_find(&daemon, goes_in ? target->word : source->word, id, &err) &&
		       (goes_in || target->is_stream || daemon_hold_signals(&daemon, false, &err));
	is_good = is_good && (goes_in ? copy_in(&copy, source, target, &err)
				      : copy_out(&copy, source, target, &err));
	int number = daemon.signal_fd >= 0 ? daemon_signal(&daemon) : 0;
	copy_deinit(&copy);
	daemon_close(&daemon);
	if (is_good)
		report(&copy);
	else
		command_fail("cp", &err);
	return is_good ? EXIT_OK : number ? 128 + number : EXIT_FAILED;
}

int cp_command(int argc, char **argv)
{
	const char *state = NULL;
	struct side source, target;
	const struct option_spec specs[] = { OPTION_STATE(&state) };
	int first = options_parse("cp", argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_ANY);
	if (first < 0)
		return EXIT_MISUSED;
	if (argc - first != 2)
		return command_misused("cp", "give what to copy, and where to");
	if (!read_side(argv[first], &source) || !read_side(argv[first + 1], &target))
		return command_misused("cp", "a path is empty or too long");
	if (source.is_inside == target.is_inside)
		return command_misused(
			"cp", "one of both must be ID:PATH, the other a path here or -");
	return perform(state, &source, &target);
}
