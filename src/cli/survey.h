/* All sandboxes of the owner with what they use: for `ps` and `top`. */
#ifndef CLI_SURVEY_H
#define CLI_SURVEY_H

#include "cli/daemon.h"
#include "cli/table.h"

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

/* A column of a table of sandboxes. What comes behind the state is a figure, and stands at the
 * right. */
struct survey_column {
	const char *heading;
	enum {
		SURVEY_ID, /* as short as tells them apart */
		SURVEY_FULL_ID,
		SURVEY_TEXT,  /* `name` of the sandbox */
		SURVEY_STATE, /* the same, in colour */
		SURVEY_AGE,
		SURVEY_IDLE,
		SURVEY_EXPIRES,
		SURVEY_PERCENT, /* `name` of the metrics, as the next two */
		SURVEY_BYTES,
		SURVEY_COUNT
	} kind;
	const char *name;
};
/* False where the buffer has no room, or memory is short. */
bool survey_write_table(const struct survey *survey, const struct survey_column *columns,
	unsigned count, const struct table_style *style, struct buf *out);

#endif
