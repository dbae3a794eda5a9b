/* See feed.h. Owners are few, and named by the operator, so a list is enough and is never too long. */
#include "api/feed.h"

#include "api/api.h"
#include "store/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_SHIFT 32 /* those of each start of the api are above those of all before */

struct feed {
	struct list link; /* in api->feeds */
	char owner[OWNER_TEXT];
	struct journal *events; /* a reference */
};

static struct feed *feed_new(struct api *api, const char *owner)
{
	struct feed *feed = calloc(1, sizeof(*feed));
	struct journal *events =
		journal_new(&api->loop, FEED_LIMIT, (api->start << NUMBER_SHIFT) + 1, NULL);
	if (!feed || !events) {
		free(feed);
		journal_unref(events);
		return NULL;
	}
	snprintf(feed->owner, sizeof(feed->owner), "%s", owner);
	feed->events = events;
	list_append(&api->feeds, &feed->link);
	return feed;
}

struct journal *feed_of(struct api *api, const char *owner)
{
	LIST_EACH(&api->feeds, struct feed, link, feed) {
		if (strcmp(feed->owner, owner) == 0)
			return feed->events;
	}
	struct feed *feed = feed_new(api, owner);
	return feed ? feed->events : NULL;
}

/* The event's number in its sandbox, its first member, gives way to that in the feed. */
void feed_append(struct api *api, const char *owner, const char *json, size_t size)
{
	struct journal *events = feed_of(api, owner);
	const char *rest = memchr(json, ',', size);
	cleanup_buf struct buf text = buf_make(FEED_LIMIT);
	if (!events || !rest)
		return;
	if (buf_printf(&text, "{\"id\":%" PRIu64, events->next_number) &&
		buf_append(&text, rest, size - (size_t)(rest - json)))
		journal_append(events, 0, text.bytes, text.size);
}

void feeds_close(struct api *api)
{
	LIST_EACH(&api->feeds, struct feed, link, feed) {
		journal_close(feed->events);
	}
}

void feeds_deinit(struct api *api)
{
	while (!list_is_empty(&api->feeds)) {
		struct feed *feed = LIST_FIRST(&api->feeds, struct feed, link);
		list_remove(&feed->link);
		journal_unref(feed->events);
		free(feed);
	}
}
