/*
 * See builds.h. A build has ended when the keeper says so; what the builder has said by then is
 * read first, so that the log is whole.
 */
#include "api/builds.h"

#include "api/answer.h"
#include "api/build_history.h"
#include "api/build_request.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "store/builds.h"
#include "wire/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define READ_SIZE 16384

void builds_init(struct builds *builds)
{
	*builds = (struct builds){ 0 };
	list_init(&builds->all);
	list_init(&builds->removals);
}

static void close_output(struct build *build)
{
	loop_forget(&build->output);
	fd_close(&build->output.fd);
}

static void build_free(struct build *build)
{
	close_output(build);
	log_finish(build->log, &build->lines);
	journal_close(build->log);
	journal_unref(build->log);
	fd_close(&build->request_fd);
	list_remove(&build->link);
	free(build);
}

void builds_deinit(struct builds *builds)
{
	while (!list_is_empty(&builds->all))
		build_free(LIST_FIRST(&builds->all, struct build, link));
}

void builds_close(struct builds *builds)
{
	LIST_EACH(&builds->all, struct build, link, build) {
		journal_close(build->log);
		if (build == builds->running)
			build_history_save(build);
	}
}

struct build *builds_find(struct builds *builds, const char *id)
{
	LIST_EACH(&builds->all, struct build, link, build) {
		if (strcmp(build->id, id) == 0)
			return build;
	}
	return NULL;
}

static bool is_open(const struct build *build)
{
	return build->state == BUILD_QUEUED || build->state == BUILD_RUNNING;
}

bool builds_has_open(const struct builds *builds, const char *name)
{
	LIST_EACH(&builds->all, struct build, link, build) {
		if (is_open(build) && strcmp(build->name, name) == 0)
			return true;
	}
	return false;
}

/* ---- the end ---- */

static void start_next(struct api *api);

/* The oldest that have ended are forgotten. */
static void forget_old(struct builds *builds)
{
	unsigned kept = 0;
	LIST_EACH(&builds->all, struct build, link, build) {
		kept += !is_open(build);
	}
	LIST_EACH(&builds->all, struct build, link, build) {
		if (kept > BUILDS_KEPT && !is_open(build)) {
			build_history_forget(build);
			build_free(build);
			kept--;
		}
	}
}

static void end(struct build *build, const char *error)
{
	struct api *api = build->api;
	build->state = error ? BUILD_FAILED : BUILD_DONE;
	build->ended_ms = clock_wall_ms();
	snprintf(build->error, sizeof(build->error), "%s", error ? error : "");
	close_output(build);
	fd_close(&build->request_fd);
	log_finish(build->log, &build->lines);
	if (error && error != build->last_error) /* that one is in the log */
		log_take(build->log, &build->lines, 0, error, strlen(error));
	log_finish(build->log, &build->lines);
	journal_append(build->log, BUILD_LOG_END, "\n", 1);
	journal_close(build->log);
	if (api->builds.running == build)
		api->builds.running = NULL;
	build_history_save(build);
	forget_old(&api->builds);
}

/* ---- what the builder says ---- */

/* The builder's own word for what failed; the tools' words stand above it. */
static void note_error(struct build *build)
{
	static const char mark[] = "error: ";
	const struct list *last = build->log->records.previous;
	if (list_is_empty(&build->log->records))
		return;
	const struct record *record = CONTAINER_OF(last, struct record, link);
	const char *end = record->bytes + record->size;
	for (const char *at = record->bytes; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t size = (size_t)((stop ? stop : end) - at), skip = sizeof(mark) - 1;
		if (size > skip && memcmp(at, mark, skip) == 0)
			snprintf(build->last_error, sizeof(build->last_error), "%.*s",
				(int)(size - skip), at + skip);
		at += size + 1;
	}
}

/* All that is there; false at its end. */
static bool read_output(struct build *build)
{
	char bytes[READ_SIZE];
	for (;;) {
		ssize_t n = read(build->output.fd, bytes, sizeof(bytes));
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		uint64_t number = build->log->next_number;
		log_take(build->log, &build->lines, 0, bytes, (size_t)n);
		if (build->log->next_number != number)
			note_error(build);
	}
}

static void on_output(struct loop_source *source, uint32_t events)
{
	struct build *build = CONTAINER_OF(source, struct build, output);
	if (!read_output(build))
		close_output(build); /* the keeper's word is the end */
}

/* ---- the keeper ---- */

static bool send_order(struct api *api, struct build *build, int out, struct error *err)
{
	struct keeper_order order = {
		.header = { KEEPER_BUILD, KEEPER_VERSION, build->serial },
	};
	const int fds[] = { build->request_fd, out };
	memcpy(order.name, build->name, sizeof(order.name));
	return wire_send(API_FD_KEEPER, &order, sizeof(order), fds, 2, err);
}

static bool start(struct build *build, struct error *err)
{
	int ends[2];
	struct api *api = build->api;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_from_os(err, errno, "cannot make a pipe");
	cleanup_close int out = ends[1];
	build->output.fd = ends[0];
	build->serial = ++api->builds.last_serial;
	return fd_set_nonblocking(ends[0], true) &&
	       loop_watch(&api->loop, &build->output, ends[0], EPOLLIN, on_output, err) &&
	       send_order(api, build, out, err);
}

static struct build *next_queued(struct builds *builds)
{
	LIST_EACH(&builds->all, struct build, link, build) {
		if (build->state == BUILD_QUEUED)
			return build;
	}
	return NULL;
}

static void start_next(struct api *api)
{
	struct build *build;
	struct error err = { 0 };
	while (!api->builds.running && (build = next_queued(&api->builds))) {
		if (start(build, &err)) {
			build->state = BUILD_RUNNING;
			build->started_ms = clock_wall_ms();
			api->builds.running = build;
			fd_close(&build->request_fd);
			build_history_save(build);
		} else {
			log_error("build.start", NULL, &err);
			end(build, "the build cannot be started; the daemon's log says why");
		}
	}
}

static int64_t image_bytes(const struct api *api, const char *name)
{
	const struct template *template = config_template(&api->config, name);
	json_t *about = template ? json_loads(template->json, 0, NULL) : NULL;
	int64_t bytes = json_integer_value(json_object_get(about, "size_bytes"));
	json_decref(about);
	return bytes;
}

static const char *explain(
	const struct build *build, const struct keeper_outcome *outcome, char text[128])
{
	switch (outcome->ending) {
	case KEEPER_FAILED:
		return build->last_error[0] ? build->last_error
					    : "the build failed; its log says why";
	case KEEPER_LATE:
		snprintf(text, 128, "the build took longer than %d minutes",
			KEEPER_BUILD_SECONDS / 60);
		return text;
	case KEEPER_KILLED:
		snprintf(text, 128, "the builder was killed by signal %d", outcome->detail);
		return text;
	case KEEPER_UNSERVED:
		return "the template was built but cannot be served; the daemon's log says why";
	default:
		return "the daemon did not take the build; its log says why";
	}
}

static void on_build_ended(struct build *build, const struct keeper_outcome *outcome)
{
	char text[128];
	struct api *api = build->api;
	if (build->output.fd >= 0)
		read_output(build);
	build->bytes = outcome->ending == KEEPER_DONE ? image_bytes(api, build->name) : 0;
	end(build, outcome->ending == KEEPER_DONE ? NULL : explain(build, outcome, text));
	start_next(api);
}

/* ---- removing a template ---- */

struct removal { /* memory of its request */
	struct list link;
	struct call *call; /* not owned */
	uint32_t serial;
};

static void on_gone(struct call *call)
{
	struct removal *removal = call->state;
	list_remove(&removal->link);
	answer_empty(call, 499);
}

void builds_remove_template(struct call *call, const char *name)
{
	struct error err = { 0 };
	struct builds *builds = &call->api->builds;
	struct removal *removal = http_request_alloc(call->request, sizeof(*removal));
	struct keeper_order order = {
		.header = { KEEPER_REMOVE, KEEPER_VERSION, ++builds->last_serial },
	};
	snprintf(order.name, sizeof(order.name), "%s", name);
	if (!removal)
		error_no_memory(&err);
	if (!removal || !wire_send(API_FD_KEEPER, &order, sizeof(order), NULL, 0, &err))
		return answer_error(call, &err);
	*removal = (struct removal){ .call = call, .serial = order.header.serial };
	list_append(&builds->removals, &removal->link);
	call->state = removal;
	call->on_gone = on_gone;
}

static void on_removed(struct removal *removal, const struct keeper_outcome *outcome)
{
	struct error err = { 0 };
	struct call *call = removal->call;
	list_remove(&removal->link);
	call->on_gone = NULL;
	if (outcome->ending == KEEPER_DONE)
		return answer_empty(call, 204);
	if (outcome->ending == KEEPER_MISSING)
		error_set(&err, ERROR_TEMPLATE_NOT_FOUND, "no such template");
	else
		error_set(&err, ERROR_TEMPLATE_IN_USE, "the template is being built");
	answer_error(call, &err);
}

bool builds_on_keeper(struct api *api, const struct wire_packet *packet)
{
	struct keeper_outcome outcome;
	struct build *running = api->builds.running;
	if (packet->header.op != KEEPER_OUTCOME || packet->size != sizeof(outcome) ||
		packet->header.version != KEEPER_VERSION)
		return false;
	memcpy(&outcome, packet->bytes, sizeof(outcome));
	if (running && running->serial == outcome.header.serial) {
		on_build_ended(running, &outcome);
		return true;
	}
	LIST_EACH(&api->builds.removals, struct removal, link, removal) {
		if (removal->serial == outcome.header.serial) {
			on_removed(removal, &outcome);
			break;
		}
	}
	return true;
}

/* ---- one more ---- */

static bool check_room(const struct builds *builds, struct error *err)
{
	unsigned waiting = 0;
	LIST_EACH(&builds->all, struct build, link, build) {
		waiting += build->state == BUILD_QUEUED;
	}
	if (waiting < BUILDS_WAITING)
		return true;
	error_set(err, ERROR_BUILD_LIMIT, "%u builds wait already", waiting);
	return error_hint(err, "one is built at a time; GET /v1/templates/builds tells which");
}

static struct build *build_new(
	struct api *api, const char *name, const char *base, int64_t created_ms, struct error *err)
{
	struct build *build = calloc(1, sizeof(*build));
	struct journal *log = journal_new(&api->loop, LOG_LIMIT, 1, NULL);
	if (!build || !log) {
		free(build);
		journal_unref(log);
		return error_no_memory(err);
	}
	*build = (struct build){ .api = api,
		.created_ms = created_ms,
		.request_fd = -1,
		.output = { .fd = -1 },
		.log = log };
	snprintf(build->name, sizeof(build->name), "%s", name);
	snprintf(build->base, sizeof(build->base), "%s", base);
	list_append(&api->builds.all, &build->link);
	return build;
}

struct build *builds_restore(struct api *api, const struct build_row *row, struct error *err)
{
	struct build *build = build_new(api, row->name, row->base, row->created_ms, err);
	if (!build)
		return NULL;
	memcpy(build->id, row->id, sizeof(build->id));
	memcpy(build->error, row->error, sizeof(build->error));
	build->state = MIN(row->state, (unsigned)BUILD_FAILED);
	build->started_ms = row->started_ms;
	build->ended_ms = row->ended_ms;
	build->size_mb = row->size_mb;
	build->bytes = row->bytes;
	return build;
}

struct build *builds_add(struct api *api, struct build_request *request, struct error *err)
{
	uint8_t id[SHORT_ID_SIZE];
	if (!check_room(&api->builds, err))
		return NULL;
	struct build *build = build_new(api, request->name, request->base, clock_wall_ms(), err);
	if (!build)
		return NULL;
	id_random(id, sizeof(id));
	id_to_text(id, sizeof(id), build->id);
	build->size_mb = request->size_mb;
	build->request_fd = fd_take(&request->fd);
	build_history_save(build);
	start_next(api);
	return build;
}
