/* See follow.h. The daemon sends a comment every 10 s, so a stream that is silent is a broken one.
 */
#include "cli/follow.h"

#include <stdio.h>
#include <time.h>

#define SILENCE_S 35
#define MOST_TRIES 30
#define PAUSE_S 1

static bool on_bytes(void *data, const char *bytes, size_t size)
{
	return events_take(data, bytes, size);
}

/* One connection. */
static bool attempt(struct daemon *daemon, const struct follow *what, struct events *events,
	struct http_answer *answer, struct error *err)
{
	char id[EVENTS_ID_SIZE];
	snprintf(id, sizeof(id), "%s", events->id);
	struct http_call call = { .method = "GET",
		.path = *id ? what->again : what->path,
		.stop_fd = daemon->signal_fd,
		.on_bytes = on_bytes,
		.on_bytes_data = events,
		.last_id = *id ? id : NULL,
		.silence_s = SILENCE_S };
	events_restart(events);
	return http_call(daemon->client, &call, answer, err);
}

bool follow(struct daemon *daemon, const struct follow *what, struct error *err)
{
	struct events events;
	struct http_answer answer = { 0 };
	bool has_begun = false, is_over = false;
	events_init(&events, what->on_event, what->data);
	for (unsigned tries = 0; !is_over; tries++) {
		*err = (struct error){ 0 };
		is_over = attempt(daemon, what, &events, &answer, err);
		if (answer.is_broken && tries > 0)
			tries = 0;
		has_begun = has_begun || answer.is_broken;
		if (is_over || !has_begun || tries >= MOST_TRIES)
			break;
		if (tries == 0)
			fprintf(stderr, "sandglass %s: the connection broke; trying again\n",
				what->command);
		nanosleep(&(struct timespec){ .tv_sec = PAUSE_S }, NULL);
	}
	events_deinit(&events);
	bool is_good = is_over && (answer.status < 400 || http_answer_error(&answer, err));
	http_answer_deinit(&answer);
	return is_good;
}
