/* Server-sent events, put together from pieces of any size. */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include "base/buf.h"

#include <stdbool.h>

#define EVENTS_LINE_LIMIT ((size_t)64 << 20) /* above what one result can be */
#define EVENTS_NAME_SIZE 32
#define EVENTS_ID_SIZE 32 /* ours are numbers */

/* `json` is the data of one event, NUL-terminated. */
typedef void (*events_on_event)(void *data, const char *name, const char *json, size_t size);

struct events {
	struct buf line;             /* owned: what of a line has come */
	struct buf text;             /* owned: the data lines of the event so far */
	char name[EVENTS_NAME_SIZE]; /* "message" where it has none */
	char id[EVENTS_ID_SIZE];     /* of the last event that had one; "" before */
	bool has_data;
	events_on_event on_event;
	void *data;
};

void events_init(struct events *events, events_on_event on_event, void *data);
void events_deinit(struct events *events);
/* Another connection goes on: what had come of an event is dropped, its last id stays. */
void events_restart(struct events *events);
/* False when a line or an event is too large. An on_bytes of http_call; `data` is the events. */
bool events_take(void *data, const char *bytes, size_t size);

#endif
