/* All sandboxes of the owner with what they use: for `ps` and `top`. */
#ifndef CLI_SURVEY_H
#define CLI_SURVEY_H

#include "cli/daemon.h"

struct surveyed {
	char id[SANDBOX_ID_TEXT], short_id[SANDBOX_ID_TEXT];
	const json_t *sandbox; /* in the survey's list */
	json_t *metrics;       /* owned; NULL when it ended meanwhile */
};

struct survey {
	json_t *list;             /* owned */
	struct surveyed *entries; /* owned */
	size_t count;
};

/* In the order in which they were made. `with_metrics` asks each for what it uses. */
bool survey_take(
	struct survey *survey, struct daemon *daemon, bool with_metrics, struct error *err);
void survey_deinit(struct survey *survey);

/* A number of the metrics; below 0 when there is none. */
double surveyed_number(const struct surveyed *entry, const char *name);
/* "running", "paused", or what else the daemon says. */
const char *surveyed_text(const struct surveyed *entry, const char *name);
/* Seconds since it was made. */
int64_t surveyed_age(const struct surveyed *entry);

#endif
