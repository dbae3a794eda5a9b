/*
 * RUN, as far as it names what the builder installs by itself: Debian's packages and wheels. The
 * commands around them that people write, and that have no effect here, are let pass.
 */
#include "api/dockerfile_private.h"

#include <string.h>

#define ALLOWED \
	"RUN may say: apt-get update, apt-get install -y NAME..., pip install NAME==VERSION..., " \
	"pip install -r FILE; everything else belongs into COPY or a session"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

struct command {
	char **word;
	unsigned count;
};

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(word, *list) == 0)
			return true;
	return false;
}

/* ---- apt-get ---- */

/* As Debian's policy has it; a trailing '-' would mean removal. */
static bool is_package(const char *name)
{
	size_t size = strlen(name);
	return size >= 2 && size <= 100 && strspn(name, "+-.") == 0 && name[size - 1] != '-' &&
	       name[size - 1] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == size;
}

static bool install_packages(struct reader *reader, const struct command *command, unsigned at)
{
	static const char *const options[] = { "-y", "--yes", "--assume-yes", "-q", "-qq", "-qy",
		"-yq", "-yqq", "-qqy", "--no-install-recommends", "--quiet", NULL };
	unsigned names = 0;
	for (; at < command->count; at++) {
		const char *word = command->word[at];
		if (is_one_of(word, options))
			continue;
		if (!is_package(word))
			return dockerfile_refuse(reader,
				"plain names only: -y --no-install-recommends curl libxml2",
				"'%.80s' is no name of a Debian package", word);
		if (!dockerfile_add(reader, "debian", word))
			return false;
		names++;
	}
	return names > 0 || dockerfile_refuse(reader, ALLOWED, "apt-get install names no package");
}

static bool run_apt(struct reader *reader, const struct command *command)
{
	static const char *const options[] = { "-y", "-q", "-qq", "--yes", "--quiet", NULL };
	static const char *const idle[] = { "update", "clean", "autoclean", NULL };
	unsigned at = 1;
	while (at < command->count && is_one_of(command->word[at], options))
		at++;
	if (at < command->count && strcmp(command->word[at], "install") == 0)
		return install_packages(reader, command, at + 1);
	if (at < command->count && is_one_of(command->word[at], idle))
		return true; /* the builder always begins with fresh lists, and leaves none */
	return dockerfile_refuse(reader, ALLOWED, "'%.40s %.40s' cannot be built here",
		command->word[0], at < command->count ? command->word[at] : "");
}

/* ---- pip ---- */

/* What follows a name: "==1.2,!=1.3"; as the builder checks once more. */
static bool are_specifiers(const char *text)
{
	while (*text) {
		size_t comparison = strspn(text, "<>=!~");
		size_t version = strspn(text + comparison,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.*+!_-");
		if (comparison == 0 || comparison > 3 || version == 0)
			return false;
		text += comparison + version;
		if (*text == ',' && text[1])
			text++;
		else if (*text)
			return false;
	}
	return true;
}

/* NAME[EXTRAS]SPECIFIERS, without blanks. */
static bool is_requirement(const char *text)
{
	size_t size =
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
	if (size == 0 || strlen(text) > 200 || !strchr(letters, text[0]) ||
		!strchr(letters, text[size - 1]))
		return false;
	text += size;
	if (*text == '[') {
		size_t extras = strspn(text + 1,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,-");
		if (extras == 0 || text[1 + extras] != ']')
			return false;
		text += extras + 2;
	}
	return are_specifiers(text);
}

static bool add_requirement(struct reader *reader, const char *text)
{
	if (!is_requirement(text))
		return dockerfile_refuse(reader,
			"names of the package index only: name, name==1.2, \"name>=1,<2\"",
			"'%.80s' cannot be installed here", text);
	return dockerfile_add(reader, "wheels", text);
}

/* One line of such a file, without its comment and blanks. */
static bool read_requirement(
	struct reader *reader, const char *name, unsigned number, const char *line, size_t size)
{
	char text[256];
	size_t used = 0;
	for (size_t i = 0; i < size && line[i] != '#' && used < sizeof(text) - 1; i++)
		if (!strchr(" \t\r", line[i]))
			text[used++] = line[i];
	text[used] = '\0';
	if (used == 0)
		return true;
	if (!is_requirement(text) || (size >= sizeof(text) && used == sizeof(text) - 1))
		return dockerfile_refuse(reader,
			"such a file may have names and versions only, and comments",
			"'%.60s', line %u: '%.60s' cannot be installed here", name, number, text);
	return dockerfile_add(reader, "wheels", text);
}

static bool read_requirements(struct reader *reader, const struct context_file *file)
{
	const char *at = file->bytes, *end = file->bytes + file->size;
	for (unsigned number = 1; at < end; number++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t size = (size_t)((stop ? stop : end) - at);
		if (memchr(at, '\0', size))
			return dockerfile_refuse(reader, NULL, "'%.60s' is no text", file->path);
		if (!read_requirement(reader, file->path, number, at, size))
			return false;
		at += size + 1;
	}
	return true;
}

static bool take_file(struct reader *reader, const char *path)
{
	if (strncmp(path, "./", 2) == 0)
		path += 2;
	else if (strncmp(path, "/workspace/", 11) == 0)
		path += 11; /* where COPY has put it */
	for (size_t i = 0; i < reader->context->count; i++)
		if (strcmp(reader->context->files[i].path, path) == 0)
			return read_requirements(reader, &reader->context->files[i]);
	return dockerfile_refuse(reader,
		"send it along with the Dockerfile, under that path (command line: --context "
		"FOLDER)",
		"'%.80s' is not in the context", path);
}

static bool run_pip(struct reader *reader, const struct command *command, unsigned at)
{
	static const char *const options[] = { "--no-cache-dir", "-q", "--quiet", "-U", "--upgrade",
		"--no-input", "--disable-pip-version-check", "--break-system-packages",
		"--root-user-action=ignore", NULL };
	if (at >= command->count || strcmp(command->word[at], "install") != 0)
		return dockerfile_refuse(
			reader, ALLOWED, "of pip only 'install' can be built here");
	for (at++; at < command->count; at++) {
		const char *word = command->word[at];
		if (is_one_of(word, options))
			continue;
		bool is_file = strcmp(word, "-r") == 0 || strcmp(word, "--requirement") == 0;
		if (is_file && at + 1 == command->count)
			return dockerfile_refuse(reader, ALLOWED, "'%s' names no file", word);
		if (is_file ? !take_file(reader, command->word[++at])
			    : !add_requirement(reader, word))
			return false;
	}
	return true;
}

/* ---- a line of commands ---- */

static bool is_python(const struct command *command)
{
	return command->count > 2 &&
	       (strcmp(command->word[0], "python") == 0 ||
		       strcmp(command->word[0], "python3") == 0) &&
	       strcmp(command->word[1], "-m") == 0 && strcmp(command->word[2], "pip") == 0;
}

/* Debian's lists are removed anyway. */
static bool is_tidying(const struct command *command)
{
	return command->count == 3 && strcmp(command->word[0], "rm") == 0 &&
	       strcmp(command->word[1], "-rf") == 0 &&
	       strncmp(command->word[2], "/var/lib/apt/lists", 18) == 0 &&
	       strspn(command->word[2] + 18, "/*") == strlen(command->word[2] + 18);
}

static bool run_one(struct reader *reader, struct command command)
{
	if (command.count > 1 && strcmp(command.word[0], "DEBIAN_FRONTEND=noninteractive") == 0) {
		command.word++;
		command.count--;
	}
	if (command.count == 0)
		return dockerfile_refuse(reader, ALLOWED, "a command is missing");
	const char *name = command.word[0];
	if (strcmp(name, "apt-get") == 0 || strcmp(name, "apt") == 0)
		return run_apt(reader, &command);
	if (strcmp(name, "pip") == 0 || strcmp(name, "pip3") == 0)
		return run_pip(reader, &command, 1);
	if (is_python(&command))
		return run_pip(reader, &command, 3);
	if (is_tidying(&command))
		return true;
	return dockerfile_refuse(reader, ALLOWED, "'RUN %.80s' cannot be built here", name);
}

bool dockerfile_run(struct reader *reader)
{
	struct words *words = &reader->words;
	unsigned begin = 0;
	for (unsigned i = 0; i <= words->count; i++) {
		if (i < words->count && !words->is_and[i])
			continue;
		if (!run_one(reader, (struct command){ words->text + begin, i - begin }))
			return false;
		begin = i + 1;
	}
	return true;
}
