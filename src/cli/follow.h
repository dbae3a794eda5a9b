/* Reading a stream of events to its end, over broken connections. */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/daemon.h"
#include "cli/events.h"

struct follow {
	const char *command; /* for what is said meanwhile */
	const char *path;    /* below /v1, with its query */
	const char *again;   /* the same for when it goes on behind an event */
	events_on_event on_event;
	void *data;
};

/* True when the stream came to its end: what it is about has ended. A connection that breaks is
 * made again, behind the last event that came; false and err when that does not help. */
bool follow(struct daemon *daemon, const struct follow *what, struct error *err);

#endif
