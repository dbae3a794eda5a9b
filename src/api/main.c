/*
 * sandglass-api: the unprivileged process that parses HTTP, JSON and what kernels say. It is
 * started by the keeper with three descriptors (wire/keeper.h), and lives in one loop. It serves
 * once the first warden channel is reconciled; until then clients wait in the kernel's queue.
 */
#include "api/api.h"
#include "api/build_history.h"
#include "api/feed.h"
#include "api/fields.h"
#include "api/journal.h"
#include "api/owners.h"
#include "api/routes.h"
#include "api/sandbox.h"
#include "api/session.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "store/idempotency.h"
#include "store/secrets.h"
#include "store/starts.h"
#include "wire/keeper.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>

#define STREAM_LIMIT ((size_t)1 << 20)
#define HELD_LIMIT ((uint64_t)256 << 20)
#define MAPPED_FROM (256 << 10) /* memory of that size goes back to the system when it is freed */
#define CONNECTIONS 1024u
#define OWN_DESCRIPTORS 64u
#define HOUSEKEEPING_MS 1000
#define STOP_MS 2000
#define KEEP_ENDED_MS ((int64_t)7 * 86400 * 1000)
#define PURGE_EVERY 3600 /* turns of housekeeping */

/* ---- descriptors ---- */

bool api_take_descriptors(struct api *api, unsigned count, struct error *err)
{
	if (api->descriptors + count > api->descriptor_limit) {
		error_set(err, ERROR_HOST_FULL, "this machine takes no more of these now");
		return error_hint(err,
			"kill sandboxes that are not needed, or raise the limit of open files");
	}
	api->descriptors += count;
	return true;
}

void api_return_descriptors(struct api *api, unsigned count)
{
	api->descriptors -= count;
}

/* Most of them are for sandboxes; connections and our own have their share beforehand. */
static unsigned share_descriptors(struct api *api)
{
	unsigned all = (unsigned)MIN(fd_raise_limit(), (size_t)1 << 20);
	unsigned connections = MIN(CONNECTIONS, all / 4);
	unsigned usable = (unsigned)((uint64_t)all * 85 / 100);
	unsigned reserved = connections + OWN_DESCRIPTORS;
	api->descriptor_limit = usable > reserved ? usable - reserved : 0;
	return connections;
}

/* ---- rows of before ---- */

static void load_sandbox(void *context, const struct sandbox_row *row)
{
	struct api *api = context;
	struct error err = { 0 };
	if (!sandbox_new(api, row, &err))
		return log_error("store.sandbox", NULL, &err);
	api->descriptors++;
}

static void load_session(void *context, const struct session_row *row)
{
	struct api *api = context;
	struct error err = { 0 };
	struct sandbox *sandbox = sandbox_find_any(api, &row->sandbox);
	if (sandbox && !session_load(sandbox, row, &err))
		log_error("store.session", sandbox->text, &err);
}

static bool load(struct api *api, struct error *err)
{
	api->store = store_open(api->config.database, err);
	return api->store && starts_count(api->store, &api->start, err) &&
	       secret_row_get(
		       api->store, "preview", api->preview_key, sizeof(api->preview_key), err) &&
	       keys_load(&api->keys, api->store, api->config.keys, api->config.key_count, err) &&
	       sandbox_row_each(api->store, load_sandbox, api, err) &&
	       session_row_each(api->store, load_session, api, err) && build_history_load(api, err);
}

/* ---- housekeeping ---- */

static void purge(struct api *api)
{
	struct error err = { 0 };
	int64_t now_ms = clock_wall_ms();
	if (!sandbox_row_purge(api->store, now_ms - KEEP_ENDED_MS, &err) ||
		!idempotency_row_purge(api->store, now_ms - 2 * 86400 * (int64_t)1000, &err))
		log_error("store.purge", NULL, &err);
	tokens_purge(api);
}

static void on_housekeeping(struct loop_timer *timer)
{
	struct api *api = CONTAINER_OF(timer, struct api, housekeeping);
	static unsigned turn;
	sessions_flush(api);
	keys_flush(&api->keys, api->store);
	if (turn++ % PURGE_EVERY == 0)
		purge(api);
	loop_timer_start(&api->loop, timer, HOUSEKEEPING_MS, on_housekeeping);
}

/* ---- serving ---- */

static bool serve(struct api *api, struct error *err)
{
	struct http_config config = { .loop = &api->loop,
		.listen_fd = API_FD_LISTEN,
		.body_limit = BODY_LIMIT,
		.stream_limit = STREAM_LIMIT,
		.held_limit = HELD_LIMIT,
		.connections = share_descriptors(api),
		.on_head = routes_on_head,
		.on_request = routes_on_request,
		.on_done = routes_on_done,
		.owner = api };
	struct keeper_message ready = { .header = { KEEPER_READY, KEEPER_VERSION, 0 } };
	api->http = http_server_new(&config, err);
	return api->http && wire_send(API_FD_KEEPER, &ready, sizeof(ready), NULL, 0, err);
}

void api_serve(struct api *api)
{
	struct error err = { 0 };
	if (api->http || serve(api, &err))
		return;
	log_error("api.serve", NULL, &err);
	loop_stop(&api->loop);
}

/* ---- the end ---- */

static void on_stop_limit(struct loop_timer *timer)
{
	loop_stop(&CONTAINER_OF(timer, struct api, stop_limit)->loop);
}

void api_call_ended(struct api *api)
{
	if (api->is_stopping && api->calls == 0)
		loop_timer_start(&api->loop, &api->stop_limit, 0, on_stop_limit);
}

static void stop(struct api *api)
{
	api->is_stopping = true;
	LIST_EACH(&api->sandboxes, struct sandbox, link, sandbox) {
		journal_close(sandbox->log); /* who follows one is not waited for */
		journal_close(sandbox->events);
	}
	feeds_close(api);
	builds_close(&api->builds);
	loop_timer_start(&api->loop, &api->stop_limit, STOP_MS, on_stop_limit);
	api_call_ended(api);
}

/* ---- the keeper ---- */

/* Templates and keys are others now. What cannot be read changes nothing. */
static void renew_config(struct api *api, int fd)
{
	struct config fresh;
	struct error err = { 0 };
	if (!config_read(&fresh, fd, &err)) {
		log_error("config.renew", NULL, &err);
	} else {
		config_renew(&api->config, &fresh);
		if (!keys_load(
			    &api->keys, api->store, api->config.keys, api->config.key_count, &err))
			log_error("config.renew", NULL, &err);
	}
	config_deinit(&fresh);
}

static void handle_keeper(struct api *api, struct wire_packet *packet)
{
	int fd = wire_packet_take(packet, 0);
	if (fd < 0 && builds_on_keeper(api, packet))
		return;
	if (packet->header.version != KEEPER_VERSION ||
		packet->size != sizeof(struct keeper_message))
		log_write(LOG_ERROR, "keeper.message", NULL,
			"the keeper speaks version %u, this api %u", packet->header.version,
			KEEPER_VERSION);
	else if (packet->header.op == KEEPER_WARDEN && fd >= 0)
		return warden_connect(&api->warden, fd);
	else if (packet->header.op == KEEPER_STOP)
		stop(api);
	else if (packet->header.op == KEEPER_CONFIG && fd >= 0)
		renew_config(api, fd);
	fd_close(&fd);
}

static void on_keeper(struct loop_source *source, uint32_t events)
{
	struct api *api = CONTAINER_OF(source, struct api, keeper);
	struct wire_packet packet;
	struct error err = { 0 };
	enum wire_result result = wire_receive(source->fd, &packet, &err);
	if (result == WIRE_NOTHING)
		return;
	if (result != WIRE_GOT)
		_exit(1); /* without a keeper nothing here is of use */
	handle_keeper(api, &packet);
	wire_packet_deinit(&packet);
}

/* ---- start ---- */

static void init(struct api *api)
{
	api->stats.started_ms = clock_wall_ms();
	list_init(&api->sandboxes);
	list_init(&api->creations);
	list_init(&api->dirty_sessions);
	list_init(&api->rates);
	list_init(&api->feeds);
	builds_init(&api->builds);
	warden_init(&api->warden, api);
	id_random(&api->last_run, sizeof(api->last_run));
	uint32_t seed;
	id_random(&seed, sizeof(seed));
	json_object_seed(seed | 1); /* there is no /dev/urandom here */
	share_descriptors(api);
}

static bool start(struct api *api, struct error *err)
{
	init(api);
	if (!config_read(&api->config, API_FD_CONFIG, err) || !loop_init(&api->loop, err) ||
		!load(api, err) || !fd_set_nonblocking(API_FD_KEEPER, true))
		return false;
	close(API_FD_CONFIG);
	loop_timer_start(&api->loop, &api->housekeeping, 0, on_housekeeping);
	return loop_watch(&api->loop, &api->keeper, API_FD_KEEPER, EPOLLIN, on_keeper, err);
}

/* The daemon stops as a whole: its sandboxes go with it, for that reason and no other. */
static void end_rows(struct api *api)
{
	struct error err = { 0 };
	bool is_good = store_begin(api->store, &err);
	LIST_EACH(&api->sandboxes, struct sandbox, link, sandbox)
		is_good = is_good &&
			  sandbox_row_end(api->store, &sandbox->id, "daemon_stopped", &err);
	if (!is_good || !store_commit(api->store, &err))
		log_error("store.stop", NULL, &err);
}

/* After a failure rows stay as they are: what the warden still has is found again by the next api.
 */
static void finish(struct api *api, bool is_stopped)
{
	if (api->store) {
		sessions_flush(api);
		keys_flush(&api->keys, api->store);
	}
	if (is_stopped)
		end_rows(api);
	api->http = http_server_free(api->http);
	builds_deinit(&api->builds);
	warden_deinit(&api->warden);
	while (!list_is_empty(&api->sandboxes))
		sandbox_free(LIST_FIRST(&api->sandboxes, struct sandbox, link));
	feeds_deinit(api);
	store_close(api->store);
	keys_deinit(&api->keys);
	owners_deinit(api);
	config_deinit(&api->config);
	loop_deinit(&api->loop);
}

int main(void)
{
	static struct api api;
	struct error err = { 0 };
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* of a terminal: the keeper gets it too, and ends all in order */
	mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
	log_init("api", LOG_INFO);
	bool is_good = start(&api, &err) && loop_run(&api.loop, &err);
	if (!is_good)
		log_error("api.start", NULL, &err);
	is_good = is_good && api.is_stopping;
	finish(&api, is_good);
	return is_good ? 0 : 1;
}
