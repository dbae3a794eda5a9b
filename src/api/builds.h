/*
 * Builds of templates: a queue, of which the keeper gets one at a time, what the builder says, and
 * how the last ones ended. They are kept in the database too (build_history.h); a build ends with
 * the api that asked for it. See wire/keeper.h.
 */
#ifndef API_BUILDS_H
#define API_BUILDS_H

#include "base/id.h"
#include "base/list.h"
#include "loop/loop.h"
#include "wire/requests.h"

#include "api/sandbox_log.h"

#include <stdbool.h>
#include <stdint.h>

#define BUILDS_WAITING 4u /* beside the one under way */
#define BUILDS_KEPT 32u   /* that have ended */

struct api;
struct build_request;
struct build_row;
struct call;
struct wire_packet;

enum build_state { BUILD_QUEUED, BUILD_RUNNING, BUILD_DONE, BUILD_FAILED };

/* Kinds of a log's records. */
#define BUILD_LOG_LINES 0
#define BUILD_LOG_END 1

struct build {
	struct list link; /* in builds->all */
	struct api *api;  /* not owned */
	char id[SHORT_ID_TEXT];
	char name[TEMPLATE_NAME_SIZE], base[TEMPLATE_NAME_SIZE];
	enum build_state state;
	char error[512];
	int64_t created_ms, started_ms, ended_ms;
	int64_t size_mb, bytes; /* asked for at most; of the image */
	int request_fd;         /* owned; -1 once it is handed on */
	uint32_t serial;
	struct loop_source output; /* its descriptor is owned */
	struct journal *log;       /* a reference */
	struct log_lines lines;
	char last_error[400]; /* the last line of the output that tells one */
};

struct builds {
	struct list all;       /* oldest first */
	struct build *running; /* one of them, or NULL */
	uint32_t last_serial;
	struct list removals; /* of struct removal: templates that the keeper removes */
};

void builds_init(struct builds *builds);
void builds_deinit(struct builds *builds);
/* The api stops: who follows a log is not waited for. What a build under way has said so far is
 * kept. */
void builds_close(struct builds *builds);

/* Takes the request and puts it in line; NULL and err. */
struct build *builds_add(struct api *api, struct build_request *request, struct error *err);
/* One of an earlier api, oldest first, with an empty log. NULL and err. */
struct build *builds_restore(struct api *api, const struct build_row *row, struct error *err);
struct build *builds_find(struct builds *builds, const char *id);
/* Whether one of that name is under way or waits. */
bool builds_has_open(const struct builds *builds, const char *name);
/* Asks the keeper to remove the template; the call is answered when it has. */
void builds_remove_template(struct call *call, const char *name);
/* A word of the keeper; false where it is none about builds. */
bool builds_on_keeper(struct api *api, const struct wire_packet *packet);

#endif
