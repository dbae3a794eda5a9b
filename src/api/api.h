/*
 * The api's one object: what all parts of the process share. It lives in main; everything runs in
 * its loop, in one thread.
 */
#ifndef API_API_H
#define API_API_H

#include "api/auth.h"
#include "api/builds.h"
#include "api/config.h"
#include "api/stats.h"
#include "api/warden.h"
#include "base/list.h"
#include "http/server.h"
#include "loop/loop.h"
#include "store/store.h"

#define API_BUCKETS 4096 /* of the table of sandboxes; a power of two */

struct sandbox;
struct run;

struct api {
	struct loop loop;
	struct config config;
	struct keys keys;
	struct store *store;      /* owned */
	struct http_server *http; /* owned; NULL until the first channel is reconciled */
	struct loop_source keeper;
	struct warden warden;
	struct list sandboxes; /* of struct sandbox: all that live */
	unsigned sandbox_count;
	struct sandbox *buckets[API_BUCKETS];
	struct {
		struct run *buckets[API_BUCKETS]; /* owned by their sandboxes */
		uint64_t bytes;                   /* that all of them keep */
	} runs;
	struct list creations;      /* of struct creation: creates under way */
	struct list dirty_sessions; /* of struct session: rows to be written */
	struct list rates;          /* of struct owner_rate */
	struct list feeds;          /* of struct feed */
	struct builds builds;
	struct loop_timer housekeeping;
	struct loop_timer stop_limit;
	struct stats stats;
	unsigned calls;    /* requests that are not done */
	size_t code_bytes; /* of all cells that are not over */
	unsigned descriptors, descriptor_limit;
	uint32_t last_run;
	uint64_t start;          /* which one it is on this database; the first is 1 */
	uint8_t preview_key[32]; /* seals preview tokens */
	bool is_stopping;
	char frame[65536]; /* scratch of whoever reads right now */
};

/* Numbers of runs differ also from those that an earlier api gave. */
static inline uint32_t api_next_run(struct api *api)
{
	if (++api->last_run == 0)
		api->last_run = 1;
	return api->last_run;
}

/* Accounts for descriptors to come; false (host.full) beyond 85 % of what the process may have. */
bool api_take_descriptors(struct api *api, unsigned count, struct error *err);
void api_return_descriptors(struct api *api, unsigned count);
/* The first warden channel is reconciled: serve, and tell the keeper. Later calls do nothing. */
void api_serve(struct api *api);
/* Called when a request is done: ends a stop that waits for it. */
void api_call_ended(struct api *api);

#endif
