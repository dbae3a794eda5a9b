/* See follow.h. The daemon sends a comment every 10 s, so a stream that is silent is a broken one.
 */
#include "cli/follow.h"

#include <stdio.h>
#include <time.h>

#define SILENCE_S 35
#define MOST_TRIES 30
#define LEAST_PAUSE_MS 100L
#define MOST_PAUSE_MS 1600L

/* One connection. */
static bool attempt(struct daemon *daemon, const struct follow *what, struct events *events,
	struct http_answer *answer, struct error *err)
{
	char id[EVENTS_ID_SIZE];
	snprintf(id, sizeof(id), "%s", events->id);
	struct http_call call = { .method = "GET",
		.path = *id ? what->again : what->path,
		.stop_fd = daemon->signal_fd,
		.on_bytes = events_take,
		.on_bytes_data = events,
		.last_id = *id ? id : NULL,
		.silence_s = SILENCE_S };
	events_restart(events);
	return http_call(daemon->client, &call, answer, err);
}

/* Longer from time to time; what broke it is mostly over soon. */
static void rest(const struct follow *what, unsigned tries)
{
	long ms = MIN(LEAST_PAUSE_MS << MIN(tries, 10u), MOST_PAUSE_MS);
	const struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	if (tries == 0)
		fprintf(stderr, "sandglass %s: the connection broke; trying again\n",
			what->command);
	nanosleep(&pause, NULL);
}

bool follow(struct daemon *daemon, const struct follow *what, struct error *err)
{
	struct events events;
	struct http_answer answer = { 0 };
	bool is_over = false, may_try = true, has_begun = false;
	events_init(&events, what->on_event, what->data);
	for (unsigned tries = 0; !is_over && may_try; tries++) {
		*err = (struct error){ 0 };
		http_answer_deinit(&answer);
		is_over = attempt(daemon, what, &events, &answer, err) &&
			  (answer.status < 500 || !has_begun);
		has_begun = has_begun || answer.is_broken;
		if (answer.is_broken)
			tries = 0;
		may_try = has_begun && tries < MOST_TRIES;
		if (!is_over && may_try)
			rest(what, tries);
	}
	events_deinit(&events);
	bool is_good = is_over && (answer.status < 400 || http_answer_error(&answer, err));
	http_answer_deinit(&answer);
	return is_good;
}
