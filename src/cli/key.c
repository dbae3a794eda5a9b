/*
 * `sandglass key`: keys for further owners, made by who may write in the state folder. The file
 * that is written there holds the key's hash; the key itself is printed once and kept nowhere. The
 * keeper sees the change by itself; where a daemon runs, the command waits until it counts.
 */
#include "cli/command.h"
#include "cli/http.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PREFIX "sg_"
#define DIGITS 40
#define SHOWN_DIGITS 8
#define OWNER_SIZE 39
#define LABEL_SIZE 100
#define DAYS_LIMIT 3650
#define FILE_SIZE 4096
#define WAIT_MS 5000
#define WAIT_STEP_MS 50

struct options {
	const char *state, *owner, *label;
	int64_t days; /* until it expires; 0: never */
};

/* ---- the files ---- */

static int open_folder(const char *state, struct error *err)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/keys", state);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	error_from_os(err, errno, "cannot open '%s'", path);
	error_hint(err, errno == EACCES
				? "be the user who started the daemon"
				: "give the folder that sandglassd was started with: --state DIR");
	return -1;
}

static void hash_digits(const char *digits, char hash[2 * SHA256_DIGEST_SIZE + 1])
{
	struct sha256_ctx context;
	uint8_t digest[SHA256_DIGEST_SIZE];
	sha256_init(&context);
	sha256_update(&context, DIGITS, (const uint8_t *)digits);
	sha256_digest(&context, sizeof(digest), digest);
	id_to_text(digest, sizeof(digest), hash);
}

static json_t *describe(const struct options *options, const char *digits)
{
	char hash[2 * SHA256_DIGEST_SIZE + 1];
	int64_t now_ms = clock_wall_ms();
	hash_digits(digits, hash);
	json_t *about = json_pack("{s:s, s:s, s:s, s:I}", "owner", options->owner, "hash", hash,
		"label", options->label, "created_ms", (json_int_t)now_ms);
	if (options->days > 0)
		json_object_set_new(about, "expires_ms",
			json_integer(now_ms + options->days * INT64_C(86400000)));
	return about;
}

static bool write_key(
	int dir_fd, const struct options *options, const char *digits, struct error *err)
{
	char name[64];
	json_t *about = describe(options, digits);
	cleanup_free char *text = json_dumps(about, JSON_INDENT(1));
	json_decref(about);
	snprintf(name, sizeof(name), PREFIX "%.*s.json", SHOWN_DIGITS, digits);
	if (!text)
		return error_set(err, ERROR_INVALID, "the label is no UTF-8 text");
	if (faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, ERROR_INTERNAL, "a key of that prefix exists: try again");
	return fd_replace_file(dir_fd, name, text, strlen(text), 0600, err);
}

/* ---- waiting until it counts ---- */

/* True when the daemon takes the key; false when it did not within the time, or does not run. */
static bool wait_until_taken(const struct options *options, const char *key)
{
	struct target target;
	const struct timespec pause = { .tv_nsec = WAIT_STEP_MS * 1000000L };
	if (!target_from_state(&target, options->state, NULL))
		return false;
	snprintf(target.key, sizeof(target.key), "%s", key);
	for (int64_t end_ms = clock_monotonic_ms() + WAIT_MS; clock_monotonic_ms() < end_ms;) {
		struct error err;
		if (http_check_alive(&target, &err))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* ---- the commands ---- */

static bool check(const struct options *options, struct error *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t size = options->owner ? strlen(options->owner) : 0;
	if (size == 0 || size > OWNER_SIZE || strspn(options->owner, letters) != size)
		return error_set(err, ERROR_INVALID,
			"an owner's name has 1 to %d letters, digits, '.', '_' and '-'",
			OWNER_SIZE);
	if (!strcmp(options->owner, "default"))
		return error_set(err, ERROR_INVALID, "'default' is no name for an owner");
	if (!*options->label || strlen(options->label) > LABEL_SIZE)
		return error_set(err, ERROR_INVALID, "a label has 1 to %d bytes", LABEL_SIZE);
	return true;
}

static int create(const struct options *options)
{
	struct error err = { 0 };
	uint8_t bytes[DIGITS / 2];
	char key[sizeof(PREFIX) + DIGITS] = PREFIX;
	if (!check(options, &err))
		return command_fail("key", &err);
	cleanup_close int dir_fd = open_folder(options->state, &err);
	id_random(bytes, sizeof(bytes));
	id_to_text(bytes, sizeof(bytes), key + strlen(PREFIX));
	if (dir_fd < 0 || !write_key(dir_fd, options, key + strlen(PREFIX), &err))
		return command_fail("key", &err);
	printf("%s\n", key);
	fflush(stdout);
	if (!wait_until_taken(options, key))
		fprintf(stderr,
			"sandglass key: no daemon takes it yet; the next one that is started "
			"with this folder does\n");
	return EXIT_OK;
}

static void print_time(const json_t *about, const char *name, const char *otherwise)
{
	char text[CLOCK_TEXT_SIZE];
	const json_t *at_ms = json_object_get(about, name);
	clock_text(json_integer_value(at_ms), text);
	printf("  %-10.10s", at_ms ? text : otherwise);
}

static int list(const struct options *options)
{
	struct error err = { 0 };
	cleanup_close int dir_fd = open_folder(options->state, &err);
	DIR *dir = dir_fd < 0 ? NULL : fdopendir(fd_duplicate(dir_fd));
	struct dirent *entry;
	if (!dir)
		return command_fail("key", &err);
	printf("%-12s  %-16s  %-10s  %-10s  %s\n", "PREFIX", "OWNER", "MADE", "EXPIRES", "LABEL");
	while ((entry = readdir(dir))) {
		char *end = strrchr(entry->d_name, '.');
		if (entry->d_name[0] == '.' || !end || strcmp(end, ".json") != 0)
			continue;
		cleanup_free char *text =
			fd_read_file(dir_fd, entry->d_name, FILE_SIZE, NULL, NULL);
		json_t *about = text ? json_loads(text, 0, NULL) : NULL;
		const char *owner = json_string_value(json_object_get(about, "owner"));
		const char *label = json_string_value(json_object_get(about, "label"));
		printf("%-12.*s  %-16s", (int)(end - entry->d_name), entry->d_name,
			owner ? owner : "?");
		print_time(about, "created_ms", "?");
		print_time(about, "expires_ms", "never");
		printf("  %s\n", label ? label : "");
		json_decref(about);
	}
	closedir(dir);
	return EXIT_OK;
}

static int remove_key(const struct options *options, const char *prefix)
{
	struct error err = { 0 };
	char name[64];
	cleanup_close int dir_fd = open_folder(options->state, &err);
	if (dir_fd < 0)
		return command_fail("key", &err);
	if (strchr(prefix, '/') ||
		snprintf(name, sizeof(name), "%s.json", prefix) >= (int)sizeof(name) ||
		unlinkat(dir_fd, name, 0) < 0) {
		error_set(&err, ERROR_INVALID, "there is no key '%.40s' here", prefix);
		error_hint(&err, "sandglass key list --state %s", options->state);
		return command_fail("key", &err);
	}
	return EXIT_OK;
}

int key_command(int argc, char **argv)
{
	struct options options = { .label = "made by the operator" };
	const struct option_spec specs[] = { OPTION_STATE(&options.state),
		{ "owner", 0, OPTION_TEXT, &options.owner },
		{ "label", 0, OPTION_TEXT, &options.label },
		{ "days", 0, OPTION_NUMBER, &options.days, 0, DAYS_LIMIT } };
	if (argc < 2)
		return command_misused("key", "say what to do: create, list or remove");
	const char *what = argv[1];
	bool is_removal = strcmp(what, "remove") == 0;
	int first = options_parse("key", argc - 1, argv + 1, specs, ARRAY_SIZE(specs), is_removal);
	if (first < 0)
		return EXIT_MISUSED;
	if (!options.state)
		return command_misused("key", "--state DIR is missing");
	if (is_removal)
		return first < argc - 1
			       ? remove_key(&options, argv[1 + first])
			       : command_misused("key", "remove needs the PREFIX of a key");
	if (strcmp(what, "create") == 0)
		return create(&options);
	if (strcmp(what, "list") == 0)
		return list(&options);
	return command_misused("key", "'%s' is none of create, list, remove", what);
}
