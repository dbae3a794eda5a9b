/*
 * See sandbox.h. The clock is lazy: use only notes the time; the timer, when it comes, looks
 * whether the sandbox has really been idle for so long, and otherwise starts again for the rest.
 */
#include "api/sandbox.h"

#include "api/inside.h"
#include "api/journal.h"
#include "api/pause.h"
#include "api/run.h"
#include "api/sandbox_events.h"
#include "api/sandbox_log.h"
#include "api/session.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "store/ports.h"

#include <jansson.h>
#include <string.h>

#define COUNT_MS 5000

static void schedule(struct sandbox *sandbox);

/* ---- finding ---- */

static struct sandbox **bucket_of(struct api *api, const struct sandbox_id *id)
{
	uint32_t hash; /* ids are random, so any part of one is a hash */
	memcpy(&hash, id->bytes + 4, sizeof(hash));
	return &api->buckets[hash % API_BUCKETS];
}

struct sandbox *sandbox_find_any(struct api *api, const struct sandbox_id *id)
{
	struct sandbox *sandbox = *bucket_of(api, id);
	while (sandbox && memcmp(sandbox->id.bytes, id->bytes, SANDBOX_ID_SIZE) != 0)
		sandbox = sandbox->bucket_next;
	return sandbox;
}

struct sandbox *sandbox_find(struct api *api, const char *id, const char *owner)
{
	struct sandbox_id parsed;
	if (!sandbox_id_parse(id, &parsed))
		return NULL;
	struct sandbox *sandbox = sandbox_find_any(api, &parsed);
	if (!sandbox || sandbox->state != SANDBOX_RUNNING || strcmp(sandbox->owner, owner) != 0)
		return NULL;
	return sandbox;
}

/* ---- life ---- */

/* The metadata without what is secret; NULL without memory. */
static char *without_secrets(const char *metadata)
{
	if (!strstr(metadata, "\"secret."))
		return strdup(metadata);
	json_t *object = json_loads(metadata, 0, NULL);
	const char *key;
	json_t *value;
	void *next;
	json_object_foreach_safe(object, next, key, value)
	{
		if (strncmp(key, "secret.", 7) == 0)
			json_object_del(object, key);
	}
	char *text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

struct sandbox *sandbox_new(struct api *api, const struct sandbox_row *row, struct error *err)
{
	struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	char *metadata = strdup(row->metadata), *shown = without_secrets(row->metadata);
	struct journal *log = journal_new(&api->loop, LOG_LIMIT, 1, NULL);
	struct journal *events = journal_new(&api->loop, EVENTS_LIMIT, 1, NULL);
	if (!sandbox || !metadata || !shown || !log || !events) {
		free(sandbox);
		free(metadata);
		free(shown);
		journal_unref(log);
		journal_unref(events);
		return error_no_memory(err);
	}
	*sandbox = (struct sandbox){ .api = api,
		.id = row->id,
		.metadata = metadata,
		.shown_metadata = shown,
		.log = log,
		.events = events,
		.ttl_seconds = row->ttl_seconds,
		.created_ms = row->created_ms,
		.is_persistent = row->is_persistent,
		.limits = row->limits,
		.cell_seconds = row->cell_seconds,
		.init_fd = -1 };
	id_to_text(row->id.bytes, SANDBOX_ID_SIZE, sandbox->text);
	memcpy(sandbox->owner, row->owner, sizeof(sandbox->owner));
	memcpy(sandbox->template_name, row->template_name, sizeof(sandbox->template_name));
	list_init(&sandbox->outbox);
	list_init(&sandbox->guests);
	list_init(&sandbox->sessions);
	list_init(&sandbox->runs);
	list_init(&sandbox->deletions);
	list_init(&sandbox->pause_waiters);
	struct sandbox **bucket = bucket_of(api, &sandbox->id);
	sandbox->bucket_next = *bucket;
	*bucket = sandbox;
	list_append(&api->sandboxes, &sandbox->link);
	api->sandbox_count++;
	return sandbox;
}

#define EVENTS_START_SHIFT 32

/* After a restart of this process ids go on where no earlier one can have been. */
static void note_start(struct sandbox *sandbox)
{
	struct note note;
	if (sandbox->is_listed) {
		sandbox->events->next_number = sandbox->api->start << EVENTS_START_SHIFT;
		sandbox->log->end_place = log_start_place(sandbox->api->start);
	}
	struct writer *writer = note_begin(
		&note, sandbox, sandbox->is_listed ? "sandbox.recovered" : "sandbox.running");
	writer_text(writer, "template", sandbox->template_name);
	note_end(&note);
}

/* The last word: who follows comes to its end. */
static void note_over(struct sandbox *sandbox, const char *reason)
{
	struct note note;
	writer_text(note_begin(&note, sandbox, "sandbox.deleted"), "reason", reason);
	note_end(&note);
	journal_close(sandbox->events);
	journal_close(sandbox->log);
}

void sandbox_start(struct sandbox *sandbox, int init_fd)
{
	inside_discard(sandbox);
	fd_close(&sandbox->init_fd);
	fd_set_nonblocking(init_fd, true);
	sandbox->init_fd = init_fd;
	sandbox->state = SANDBOX_RUNNING;
	note_start(sandbox);
	sandbox_touch(sandbox);
	schedule(sandbox);
}

static void unlink_sandbox(struct sandbox *sandbox)
{
	struct sandbox **place = bucket_of(sandbox->api, &sandbox->id);
	while (*place != sandbox)
		place = &(*place)->bucket_next;
	*place = sandbox->bucket_next;
	list_remove(&sandbox->link);
	sandbox->api->sandbox_count--;
}

void sandbox_free(struct sandbox *sandbox)
{
	sandbox->state = SANDBOX_ENDING; /* who leaves now does not start its clock again */
	unlink_sandbox(sandbox);
	loop_timer_stop(&sandbox->reaper);
	warden_cancel(&sandbox->counting);
	warden_cancel(&sandbox->pausing);
	while (!list_is_empty(&sandbox->sessions))
		session_free(LIST_FIRST(&sandbox->sessions, struct session, link));
	runs_end(sandbox);
	api_return_descriptors(sandbox->api, 1);
	inside_discard(sandbox);
	fd_close(&sandbox->init_fd);
	journal_close(sandbox->log);
	journal_unref(sandbox->log);
	journal_close(sandbox->events);
	journal_unref(sandbox->events);
	free(sandbox->metadata);
	free(sandbox->shown_metadata);
	free(sandbox);
}

/* Whoever is at work in it is answered now, whatever the warden does later. */
static void dismiss(struct sandbox *sandbox)
{
	struct error why;
	error_set(&why, ERROR_SANDBOX_ENDED, "the sandbox ended while the call ran");
	pause_on_end(sandbox, &why);
	while (!list_is_empty(&sandbox->guests)) {
		struct guest *guest = LIST_FIRST(&sandbox->guests, struct guest, link);
		guest_on_end on_end = guest->on_end;
		guest_leave(guest);
		on_end(guest, &why);
	}
	while (!list_is_empty(&sandbox->sessions))
		session_free(LIST_FIRST(&sandbox->sessions, struct session, link));
	runs_end(sandbox);
}

static void wind_up(struct sandbox *sandbox, const char *reason)
{
	struct error err = { 0 };
	sandbox->state = SANDBOX_ENDING;
	loop_timer_stop(&sandbox->reaper);
	dismiss(sandbox);
	note_over(sandbox, reason);
	stats_count_end(&sandbox->api->stats, reason);
	inside_discard(sandbox);
	fd_close(&sandbox->init_fd);
	if (!sandbox_row_end(sandbox->api->store, &sandbox->id, reason, &err) ||
		!port_row_delete_all(sandbox->api->store, &sandbox->id, &err))
		log_error("store.sandbox", sandbox->text, &err);
	log_write(LOG_INFO, "sandbox.ended", sandbox->text, "ended: %s", reason);
}

void sandbox_end(struct sandbox *sandbox, const char *reason)
{
	struct warden_release release = { .sandbox = sandbox->id };
	if (sandbox->state == SANDBOX_ENDING)
		return;
	warden_tell(&sandbox->api->warden, WARDEN_RELEASE, &release, sizeof(release));
	wind_up(sandbox, reason);
}

void sandbox_on_ended(struct sandbox *sandbox, const char *reason)
{
	if (sandbox->state != SANDBOX_ENDING)
		wind_up(sandbox, reason);
	sandboxes_on_ended(sandbox);
	sandbox_free(sandbox);
}

static void on_counted(
	struct warden_request *request, struct wire_packet *packet, const struct error *err)
{
	struct sandbox *sandbox = CONTAINER_OF(request, struct sandbox, counting);
	const struct warden_usage *usage = packet ? (const void *)packet->bytes : NULL;
	if (!usage || packet->header.op != WARDEN_USAGE_ANSWER)
		return;
	sandbox->oom_kills = usage->oom_kills;
	sandbox->forks_refused = usage->pids_refused;
}

void sandbox_count_kills(struct sandbox *sandbox)
{
	struct warden_release message = { .sandbox = sandbox->id };
	struct error err = { 0 };
	if (sandbox->counting.warden)
		return;
	if (!warden_ask(&sandbox->api->warden, &sandbox->counting, WARDEN_USAGE, &message,
		    sizeof(message), COUNT_MS, on_counted, &err))
		log_error("warden.usage", sandbox->text, &err);
}

/* ---- the idle clock ---- */

/* What a paused sandbox holds does not go on, so it does not keep it from being idle. */
static bool is_busy(const struct sandbox *sandbox)
{
	return sandbox->busy > 0 && !sandbox_is_paused(sandbox);
}

static int64_t due_us(const struct sandbox *sandbox)
{
	return sandbox->idle_since_us + sandbox->ttl_seconds * 1000000;
}

static void on_due(struct loop_timer *timer)
{
	struct sandbox *sandbox = CONTAINER_OF(timer, struct sandbox, reaper);
	if (sandbox->is_persistent || is_busy(sandbox))
		return; /* guest_leave, sandbox_set_life and _set_pause schedule again */
	if (clock_monotonic_us() < due_us(sandbox))
		return schedule(sandbox);
	sandbox_end(sandbox, "idle");
}

static void schedule(struct sandbox *sandbox)
{
	if (sandbox->state != SANDBOX_RUNNING || sandbox->is_persistent)
		return loop_timer_stop(&sandbox->reaper);
	loop_timer_start_at(&sandbox->api->loop, &sandbox->reaper, due_us(sandbox), on_due);
}

static void begin_idle(struct sandbox *sandbox)
{
	sandbox->idle_since_us = clock_monotonic_us();
	sandbox->idle_since_ms = clock_wall_ms();
}

void sandbox_touch(struct sandbox *sandbox)
{
	if (!sandbox_is_paused(sandbox))
		begin_idle(sandbox);
}

void sandbox_set_pause(struct sandbox *sandbox, enum sandbox_pause pause)
{
	sandbox->pause = pause;
	begin_idle(sandbox);
	schedule(sandbox);
}

void sandbox_set_life(struct sandbox *sandbox, int64_t ttl_seconds, bool is_persistent)
{
	sandbox->ttl_seconds = ttl_seconds;
	sandbox->is_persistent = is_persistent;
	schedule(sandbox);
}

int64_t sandbox_idle_seconds(const struct sandbox *sandbox)
{
	if (is_busy(sandbox))
		return 0;
	return (clock_monotonic_us() - sandbox->idle_since_us) / 1000000;
}

void sandbox_write_expiry(const struct sandbox *sandbox, struct writer *writer)
{
	char text[CLOCK_TEXT_SIZE];
	if (sandbox->is_persistent)
		return;
	int64_t from_ms = is_busy(sandbox) ? clock_wall_ms() : sandbox->idle_since_ms;
	clock_text(from_ms + sandbox->ttl_seconds * 1000, text);
	writer_text(writer, "expires_at", text);
}

bool sandbox_takes_work(const struct sandbox *sandbox, struct error *err)
{
	if (!sandbox_is_paused(sandbox))
		return true;
	error_set(err, ERROR_SANDBOX_NOT_RUNNING, "the sandbox is paused");
	return error_hint(err,
		"'sandglass resume %.12s' or POST /v1/sandboxes/%s/resume lets it go on",
		sandbox->text, sandbox->text);
}

static bool enter(struct guest *guest, struct sandbox *sandbox, unsigned *count,
	guest_on_end on_end, struct error *err)
{
	if (*count >= GUESTS_LIMIT)
		return error_set(err, ERROR_BUSY, "too many calls are at work in this sandbox");
	*guest = (struct guest){ .sandbox = sandbox, .on_end = on_end };
	list_append(&sandbox->guests, &guest->link);
	++*count;
	return true;
}

bool guest_enter(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err)
{
	return sandbox_takes_work(sandbox, err) &&
	       enter(guest, sandbox, &sandbox->busy, on_end, err);
}

bool guest_look_from_outside(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err)
{
	if (!enter(guest, sandbox, &sandbox->looking, on_end, err))
		return false;
	guest->is_looking = true;
	return true;
}

bool guest_look(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err)
{
	return sandbox_takes_work(sandbox, err) &&
	       guest_look_from_outside(guest, sandbox, on_end, err);
}

void guest_leave(struct guest *guest)
{
	struct sandbox *sandbox = guest->sandbox;
	if (!sandbox)
		return;
	guest->sandbox = NULL;
	list_remove(&guest->link);
	if (guest->is_looking) {
		sandbox->looking--;
		return;
	}
	sandbox_touch(sandbox);
	if (--sandbox->busy == 0)
		schedule(sandbox);
}

/* ---- as the API shows it ---- */

static void write_limits(
	const struct wire_limits *limits, uint32_t cell_seconds, struct writer *writer)
{
	char cpus[24];
	snprintf(cpus, sizeof(cpus), "%g", limits->cpu_milli / 1000.0);
	writer_open(writer, "limits", '{');
	writer_int(writer, "memory_mb", (int64_t)(limits->memory_bytes >> 20));
	writer_raw(writer, "cpus", cpus);
	writer_int(writer, "processes", limits->processes);
	writer_int(writer, "files_mb", (int64_t)(limits->files_bytes >> 20));
	writer_int(writer, "inodes", limits->inodes);
	writer_int(writer, "cell_seconds", cell_seconds);
	writer_close(writer, '}');
}

static void write_fields(const struct sandbox_row *row, const char *status, struct writer *writer)
{
	char id[SANDBOX_ID_TEXT], created[CLOCK_TEXT_SIZE];
	id_to_text(row->id.bytes, SANDBOX_ID_SIZE, id);
	clock_text(row->created_ms, created);
	writer_text(writer, "id", id);
	writer_text(writer, "template", row->template_name);
	writer_text(writer, "status", status);
	writer_int(writer, "cpu", MAX((row->limits.cpu_milli + 999) / 1000, 1u));
	writer_int(writer, "memory_mb", (int64_t)(row->limits.memory_bytes >> 20));
	writer_text(writer, "created_at", created);
	writer_raw(writer, "metadata", row->metadata);
	writer_int(writer, "ttl_seconds", row->ttl_seconds);
	writer_bool(writer, "persistent", row->is_persistent);
	write_limits(&row->limits, row->cell_seconds, writer);
}

void sandbox_write_row(const struct sandbox_row *row, const char *status, struct writer *writer)
{
	writer_open(writer, NULL, '{');
	write_fields(row, status, writer);
	writer_close(writer, '}');
}

struct sandbox_row sandbox_to_row(const struct sandbox *sandbox)
{
	struct sandbox_row row = { .id = sandbox->id,
		.metadata = sandbox->metadata,
		.ttl_seconds = sandbox->ttl_seconds,
		.created_ms = sandbox->created_ms,
		.is_persistent = sandbox->is_persistent,
		.limits = sandbox->limits,
		.cell_seconds = sandbox->cell_seconds };
	memcpy(row.owner, sandbox->owner, sizeof(row.owner));
	memcpy(row.template_name, sandbox->template_name, sizeof(row.template_name));
	return row;
}

void sandbox_write(const struct sandbox *sandbox, struct writer *writer, bool shows_secrets)
{
	struct sandbox_row row = sandbox_to_row(sandbox);
	if (!shows_secrets)
		row.metadata = sandbox->shown_metadata;
	writer_open(writer, NULL, '{');
	bool stands_still = sandbox->pause == SANDBOX_PAUSED || sandbox->pause == SANDBOX_RESUMING;
	write_fields(&row, stands_still ? "paused" : "running", writer);
	sandbox_write_expiry(sandbox, writer);
	writer_close(writer, '}');
}
