/*
 * What happened to all sandboxes of an owner, those included that have ended or begin later: the
 * same events as each sandbox has, in one journal an owner, with numbers of its own. The latest
 * FEED_LIMIT bytes are kept.
 */
#ifndef API_FEED_H
#define API_FEED_H

#include "api/journal.h"

#define FEED_LIMIT ((size_t)256 * 1024)

struct api;

/* Not the caller's; made at the first call. NULL without memory. */
struct journal *feed_of(struct api *api, const char *owner);
/* An event of one of the owner's sandboxes, as its JSON stands there. */
void feed_append(struct api *api, const char *owner, const char *json, size_t size);
/* The api stops: who follows is not waited for. */
void feeds_close(struct api *api);
void feeds_deinit(struct api *api);

#endif
