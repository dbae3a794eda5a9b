/* See target.h. */
#include "cli/target.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define SMALL_FILE 4096

static void strip_end(char *text, const char *characters)
{
	size_t size = strlen(text);
	while (size > 0 && strchr(characters, text[size - 1]))
		text[--size] = '\0';
}

/* The value ends up in a header or in a shell's command line, so it may hold nothing that is
 * special there. */
static bool is_plain(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (*text <= ' ' || *text > '~' || strchr("\"'\\$`", *text))
			return false;
	return true;
}

static bool set_api(struct target *target, const char *api, const char *from, struct error *err)
{
	bool has_scheme = strncmp(api, "http://", 7) == 0 || strncmp(api, "https://", 8) == 0;
	int n = snprintf(
		target->api, sizeof(target->api), "%s%s", has_scheme ? "" : "http://", api);
	strip_end(target->api, " \t\r\n/");
	if (n >= (int)sizeof(target->api) || !is_plain(target->api))
		return error_set(err, ERROR_INVALID, "%s holds no address", from);
	size_t size = strlen(target->api);
	if (size > 3 && strcmp(target->api + size - 3, "/v1") == 0)
		target->api[size - 3] = '\0';
	return true;
}

static bool set_key(struct target *target, const char *key, const char *from, struct error *err)
{
	int n = snprintf(target->key, sizeof(target->key), "%s", key);
	strip_end(target->key, " \t\r\n");
	if (n >= (int)sizeof(target->key) || !is_plain(target->key))
		return error_set(err, ERROR_INVALID, "%s holds no key", from);
	return true;
}

static char *read_state_file(int dir_fd, const char *name, const char *state, struct error *err)
{
	struct error problem = { 0 };
	char *text = fd_read_file(dir_fd, name, SMALL_FILE, NULL, &problem);
	if (text)
		return text;
	if (problem.os_error == ENOENT) {
		error_set(
			err, ERROR_INVALID, "no daemon runs on '%s': it has no '%s'", state, name);
		error_hint(err, "start one: sandglassd --state %s --listen 127.0.0.1:0", state);
	} else if (problem.os_error == EACCES) {
		error_set(err, ERROR_INVALID, "'%s/%s' may not be read by you", state, name);
		error_hint(err, "be the user who started the daemon, or ask that user for a key");
	} else {
		*err = problem;
		error_context(err, "cannot use the state folder '%s'", state);
	}
	return NULL;
}

bool target_from_state(struct target *target, const char *state, struct error *err)
{
	cleanup_close int dir_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0) {
		error_from_os(err, errno, "cannot open the state folder '%s'", state);
		if (errno == EACCES)
			return error_hint(err, "be the user who started the daemon");
		return error_hint(
			err, "give the folder that sandglassd was started with: --state DIR");
	}
	cleanup_free char *address = read_state_file(dir_fd, "address", state, err);
	if (!address)
		return false;
	cleanup_free char *key = read_state_file(dir_fd, "key", state, err);
	if (!key)
		return false;
	return set_api(target, address, "the state folder's 'address'", err) &&
	       set_key(target, key, "the state folder's 'key'", err);
}

bool target_from_environment(struct target *target, struct error *err)
{
	const char *api = getenv("PANDASTACK_API"), *key = getenv("PANDASTACK_API_KEY");
	if (!api || !*api || !key || !*key) {
		error_set(err, ERROR_INVALID, "%s is not set, and no --state was given",
			!api || !*api ? "PANDASTACK_API" : "PANDASTACK_API_KEY");
		return error_hint(
			err, "give --state DIR, or first: eval \"$(sandglass env --state DIR)\"");
	}
	return set_api(target, api, "PANDASTACK_API", err) &&
	       set_key(target, key, "PANDASTACK_API_KEY", err);
}
