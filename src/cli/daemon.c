/* See daemon.h. */
#include "cli/daemon.h"

#include "base/fd.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

bool daemon_open(struct daemon *daemon, const char *state, struct error *err)
{
	*daemon = (struct daemon){ .signal_fd = -1 };
	signal(SIGPIPE, SIG_DFL); /* `| head` ends a command without a word */
	if (!(state ? target_from_state(&daemon->target, state, err)
		    : target_from_environment(&daemon->target, err)))
		return false;
	daemon->client = http_client_new(&daemon->target, err);
	return daemon->client;
}

void daemon_close(struct daemon *daemon)
{
	daemon->client = http_client_free(daemon->client);
	fd_close(&daemon->signal_fd);
}

bool daemon_hold_signals(struct daemon *daemon, bool at_terminal, struct error *err)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT, SIGTSTP };
	sigset_t signals;
	sigemptyset(&signals);
	for (size_t i = 0; i < (at_terminal ? ARRAY_SIZE(numbers) : 3); i++)
		sigaddset(&signals, numbers[i]);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	daemon->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return daemon->signal_fd >= 0 || error_from_os(err, errno, "cannot listen for signals");
}

int daemon_signal(const struct daemon *daemon)
{
	struct signalfd_siginfo info;
	while (read(daemon->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
			info.ssi_signo == SIGHUP)
			return (int)info.ssi_signo;
	return 0;
}

void daemon_path(char path[DAEMON_PATH], const char *id, const char *rest)
{
	snprintf(path, DAEMON_PATH, "/sandboxes/%s%s", id, rest);
}

bool daemon_call(struct daemon *daemon, const char *method, const char *path, json_t *body,
	json_t **ret_json, struct error *err)
{
	struct http_answer answer;
	struct http_call call = { .method = method,
		.path = path,
		.body = body,
		.stop_fd = -1,
		.limit_s = DAEMON_LIMIT_S };
	if (ret_json)
		*ret_json = NULL;
	if (!http_call(daemon->client, &call, &answer, err))
		return false;
	bool is_good = answer.status < 400 || http_answer_error(&answer, err);
	if (is_good && ret_json) {
		*ret_json = json_incref(answer.json);
		is_good = answer.json || error_set(err, ERROR_INTERNAL,
						 "the daemon's answer to %s is no JSON", path);
	}
	http_answer_deinit(&answer);
	return is_good;
}

bool daemon_get(struct daemon *daemon, const char *path, json_t **ret_json, struct error *err)
{
	return daemon_call(daemon, "GET", path, NULL, ret_json, err);
}

/* ---- ids ---- */

/* Lower digits without dashes; false when it is no beginning of an id. */
static bool normalize(const char *word, char digits[SANDBOX_ID_TEXT])
{
	size_t size = 0;
	for (; *word; word++) {
		if (*word == '-' && size > 0)
			continue;
		if (!isxdigit((unsigned char)*word) || size == SANDBOX_ID_TEXT - 1)
			return false;
		digits[size++] = (char)tolower((unsigned char)*word);
	}
	digits[size] = '\0';
	return size > 0;
}

/* Copies the id only if it is one: it becomes part of paths. */
static bool copy_id(const json_t *sandbox, char id[SANDBOX_ID_TEXT])
{
	const char *text = json_string_value(json_object_get(sandbox, "id"));
	struct sandbox_id parsed;
	if (!text || strlen(text) != SANDBOX_ID_TEXT - 1 || !sandbox_id_parse(text, &parsed))
		return false;
	memcpy(id, text, SANDBOX_ID_TEXT);
	return true;
}

static unsigned match(const json_t *list, const char *digits, char id[SANDBOX_ID_TEXT])
{
	unsigned found = 0;
	size_t i;
	json_t *sandbox;
	json_array_foreach(list, i, sandbox)
	{
		char candidate[SANDBOX_ID_TEXT];
		if (!copy_id(sandbox, candidate) || strncmp(candidate, digits, strlen(digits)) != 0)
			continue;
		memcpy(id, candidate, SANDBOX_ID_TEXT);
		found++;
	}
	return found;
}

bool daemon_find(
	struct daemon *daemon, const char *word, char id[SANDBOX_ID_TEXT], struct error *err)
{
	char digits[SANDBOX_ID_TEXT];
	json_t *list = NULL;
	if (!normalize(word, digits)) {
		error_set(err, ERROR_INVALID, "'%.40s' is no id of a sandbox", word);
		return error_hint(err, "sandglass ps lists them");
	}
	if (strlen(digits) == SANDBOX_ID_TEXT - 1)
		return memcpy(id, digits, SANDBOX_ID_TEXT);
	if (!daemon_get(daemon, "/sandboxes", &list, err))
		return false;
	unsigned found = match(list, digits, id);
	json_decref(list);
	if (found == 1)
		return true;
	if (found > 1)
		error_set(err, ERROR_INVALID, "'%s' is the beginning of %u ids", digits, found);
	else
		error_set(err, ERROR_INVALID, "no sandbox of yours has an id that begins with '%s'",
			digits);
	return error_hint(err, "sandglass ps lists them");
}

/* ---- life ---- */

bool daemon_create(struct daemon *daemon, json_t *body, char id[SANDBOX_ID_TEXT], struct error *err)
{
	json_t *made = NULL;
	if (!daemon_call(daemon, "POST", "/sandboxes", body, &made, err))
		return false;
	bool is_good = copy_id(made, id) ||
		       error_set(err, ERROR_INTERNAL, "the daemon's answer has no usable id");
	json_decref(made);
	return is_good;
}

bool daemon_delete(struct daemon *daemon, const char *id, struct error *err)
{
	char path[DAEMON_PATH];
	daemon_path(path, id, "");
	return daemon_call(daemon, "DELETE", path, NULL, NULL, err);
}
