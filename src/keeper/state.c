/*
 * DIR, the state folder: everything the daemon writes on disk but images. The api, which runs as
 * another user, may write in DIR/api only; `state.db` is a link into it. `secrets` is closed to it
 * for ever.
 *
 *   key (0600)  keys/ (0700)  address  lock  state.db -> api/state.db  api/  log/  secrets/ (0700)
 *   templates/
 */
#include "base/fd.h"
#include "base/id.h"
#include "keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define KEY_PREFIX "sg_"
#define KEY_DIGITS 40

/* A folder and the files in it: the ids may be others than at the last start. */
static bool give_folder(const char *path, uid_t uid, struct error *err)
{
	DIR *dir = opendir(path);
	if (!dir || fchown(dirfd(dir), uid, uid) < 0) {
		error_from_os(err, errno, "cannot give '%s' to the api's user", path);
		if (dir)
			closedir(dir);
		return false;
	}
	struct dirent *entry;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, "..") != 0)
			(void)!fchownat(dirfd(dir), entry->d_name, uid, uid, AT_SYMLINK_NOFOLLOW);
	closedir(dir);
	return true;
}

static bool make_folders(const char *folder, uid_t api_uid, struct error *err)
{
	static const struct {
		const char *name;
		mode_t mode;
	} folders[] = { { "api", 0700 }, { "log", 0700 }, { "secrets", 0700 }, { "keys", 0700 },
		{ "templates", 0755 } };
	char path[PATH_MAX + 16];
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return error_from_os(err, errno, "cannot make the state folder '%s'", folder);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, folders[i].name);
		if (mkdir(path, folders[i].mode) < 0 && errno != EEXIST)
			return error_from_os(err, errno, "cannot make '%s'", path);
	}
	snprintf(path, sizeof(path), "%s/api", folder);
	if (!give_folder(path, api_uid, err))
		return false;
	snprintf(path, sizeof(path), "%s/state.db", folder);
	if (symlink("api/state.db", path) < 0 && errno != EEXIST)
		return error_from_os(err, errno, "cannot make '%s'", path);
	return true;
}

static bool take_lock(struct state *state, struct error *err)
{
	char path[PATH_MAX + 8];
	snprintf(path, sizeof(path), "%s/lock", state->folder);
	state->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (state->lock_fd < 0)
		return error_from_os(err, errno, "cannot open '%s'", path);
	if (flock(state->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	fd_close(&state->lock_fd); /* what is in the folder is the other's: nothing to tidy up */
	error_set(
		err, ERROR_CONFIG, "another sandglassd uses the state folder '%s'", state->folder);
	return error_hint(err, "end that one first, or give this one a --state folder of its own");
}

static bool key_digits(const char *key, char digits[KEY_DIGITS + 1])
{
	const char *at = strchr(key, '_');
	uint8_t bytes[KEY_DIGITS / 2];
	if (!at)
		return false;
	snprintf(digits, KEY_DIGITS + 1, "%s", at + 1);
	return id_from_text(digits, bytes, sizeof(bytes));
}

static void hash_digits(const char digits[KEY_DIGITS + 1], char hash[65])
{
	struct sha256_ctx context;
	uint8_t digest[SHA256_DIGEST_SIZE];
	sha256_init(&context);
	sha256_update(&context, KEY_DIGITS, (const uint8_t *)digits);
	sha256_digest(&context, sizeof(digest), digest);
	id_to_text(digest, sizeof(digest), hash);
}

/* What of the first key may be shown: its beginning, and since when it holds. */
static bool note_key(
	struct state *state, int dir, const char *key, const char *digits, struct error *err)
{
	struct stat about;
	if (fstatat(dir, "key", &about, AT_SYMLINK_NOFOLLOW) < 0)
		return error_from_os(err, errno, "cannot look at '%s/key'", state->folder);
	int size = (int)strcspn(key, "_");
	snprintf(state->key_prefix, sizeof(state->key_prefix), "%.*s_%.8s", MIN(size, 16), key,
		digits);
	state->key_made_ms = (int64_t)about.st_mtim.tv_sec * 1000;
	return true;
}

/* The first key is made at the first start; losing the file locks its owner out, not the daemon. */
static bool load_key(struct state *state, struct error *err)
{
	char digits[KEY_DIGITS + 1], text[64];
	cleanup_close int dir = open(state->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error missing = { 0 };
	cleanup_free char *key = fd_read_file(dir, "key", 256, NULL, &missing);
	if (!key && missing.os_error != ENOENT) {
		*err = missing;
		return false;
	}
	if (!key) {
		uint8_t bytes[KEY_DIGITS / 2];
		id_random(bytes, sizeof(bytes));
		id_to_text(bytes, sizeof(bytes), digits);
		snprintf(text, sizeof(text), KEY_PREFIX "%s\n", digits);
		if (!fd_replace_file(dir, "key", text, strlen(text), 0600, err))
			return false;
	} else {
		key[strcspn(key, "\r\n")] = '\0';
		if (!key_digits(key, digits))
			return error_set(err, ERROR_CONFIG,
				"'%s/key' holds no key (a prefix like sg_ and 40 hex digits)",
				state->folder);
	}
	hash_digits(digits, state->key_hash);
	return note_key(state, dir, key ? key : KEY_PREFIX, digits, err);
}

bool state_open(struct state *state, const char *folder, uid_t api_uid, struct error *err)
{
	state->lock_fd = -1;
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return error_from_os(err, errno, "cannot make the state folder '%s'", folder);
	if (!realpath(folder, state->folder))
		return error_from_os(err, errno, "cannot find the state folder '%s'", folder);
	return take_lock(state, err) && make_folders(state->folder, api_uid, err) &&
	       load_key(state, err);
}

bool state_write_address(const struct state *state, const char *address, struct error *err)
{
	cleanup_close int dir = open(state->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[320];
	int size = snprintf(text, sizeof(text), "http://%s\n", address);
	return fd_replace_file(dir, "address", text, (size_t)size, 0644, err);
}

void state_close(struct state *state)
{
	char path[PATH_MAX + 16];
	fd_close(&state->ids_fd);
	if (state->lock_fd < 0)
		return;
	snprintf(path, sizeof(path), "%s/address", state->folder);
	unlink(path);
	fd_close(&state->lock_fd);
}
