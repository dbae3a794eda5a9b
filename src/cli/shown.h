/* What a streamed run shows: its events, printed as they come. */
#ifndef CLI_SHOWN_H
#define CLI_SHOWN_H

#include "cli/figures.h"

#include <jansson.h>

struct shown {
	struct figures *figures;    /* not owned */
	void (*before)(void *data); /* called ahead of the first output; may be NULL */
	void *data;
	json_t *displays; /* owned: those that may still be updated, by their ids */
	bool has_output, has_ended;
	int status;       /* the exit status, when it has ended */
	struct error err; /* a figure that could not be saved */
};

void shown_init(struct shown *shown, struct figures *figures);
void shown_deinit(struct shown *shown);
/* An events_on_event. */
void shown_on_event(void *data, const char *name, const char *json, size_t size);

#endif
