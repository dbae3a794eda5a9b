/* A command's dealings with a daemon: which one, its answers as JSON, its sandboxes by any
 * unambiguous beginning of their ids. */
#ifndef CLI_DAEMON_H
#define CLI_DAEMON_H

#include "cli/http.h"

#include "base/id.h"

#define DAEMON_LIMIT_S 30L
#define DAEMON_PATH 256
#define DAEMON_SHORT_ID 12

struct daemon {
	struct target target;
	struct http_client *client; /* owned */
	int signal_fd;              /* owned; -1 while signals do what they always do */
};

/* `state` is a state folder, or NULL for what the environment says. */
bool daemon_open(struct daemon *daemon, const char *state, struct error *err);
void daemon_close(struct daemon *daemon);
/* From here on SIGINT, SIGTERM and SIGHUP are read from signal_fd: for commands that have something
 * to put back. With `at_terminal` also SIGWINCH, SIGCONT and SIGTSTP. */
bool daemon_hold_signals(struct daemon *daemon, bool at_terminal, struct error *err);
/* The number of one of the first three that came, or 0. */
int daemon_signal(const struct daemon *daemon);

/* A call whose answer is JSON or nothing: *ret_json (may be NULL) is the caller's. False and err
 * for every refusal, and when it was stopped. */
bool daemon_call(struct daemon *daemon, const char *method, const char *path, json_t *body,
	json_t **ret_json, struct error *err);
bool daemon_get(struct daemon *daemon, const char *path, json_t **ret_json, struct error *err);

/* The sandbox that the word means: a whole id, with or without dashes, or a beginning that only one
 * has. */
bool daemon_find(
	struct daemon *daemon, const char *word, char id[SANDBOX_ID_TEXT], struct error *err);

/* Makes a sandbox; `body` stays the caller's, may be NULL. */
bool daemon_create(
	struct daemon *daemon, json_t *body, char id[SANDBOX_ID_TEXT], struct error *err);
bool daemon_delete(struct daemon *daemon, const char *id, struct error *err);

/* Path of a sandbox or of what is below it ("/exec"). */
void daemon_path(char path[DAEMON_PATH], const char *id, const char *rest);

#endif
