/* The table of a survey: how each column's figure is read and written. See survey.h. */
#include "cli/survey.h"

#include "cli/human.h"

#include "base/clock.h"

#include <string.h>

/* Seconds since it was made. */
static int64_t age_s(const struct surveyed *entry)
{
	int64_t made_ms = human_time_ms(surveyed_text(entry, "created_at"));
	return made_ms < 0 ? -1 : MAX((clock_wall_ms() - made_ms) / 1000, 0);
}

/* Seconds until it ends of itself; -1: never. */
static int64_t left_s(const struct surveyed *entry)
{
	int64_t end_ms = human_time_ms(surveyed_text(entry, "expires_at"));
	return end_ms < 0 ? -1 : MAX((end_ms - clock_wall_ms() + 500) / 1000, 0);
}

/* The idle time is what of the whole has gone by. */
static int64_t idle_s(const struct surveyed *entry)
{
	json_int_t whole = json_integer_value(json_object_get(entry->sandbox, "ttl_seconds"));
	int64_t left = left_s(entry);
	return left < 0 ? -1 : MAX(whole - left, 0);
}

static const char *age_text(int64_t seconds, char text[HUMAN_SIZE])
{
	human_age(seconds, text);
	return text;
}

/* A figure of the metrics; NULL when there is none. */
static const char *figure_text(
	const struct surveyed *entry, const struct survey_column *column, char text[HUMAN_SIZE])
{
	double number = surveyed_number(entry, column->name);
	if (number < 0)
		return NULL;
	if (column->kind == SURVEY_BYTES)
		human_bytes(number, text);
	else
		snprintf(text, HUMAN_SIZE, column->kind == SURVEY_PERCENT ? "%.1f%%" : "%.0f",
			number);
	return text;
}

static const char *cell_text(
	const struct surveyed *entry, const struct survey_column *column, char text[HUMAN_SIZE])
{
	switch (column->kind) {
	case SURVEY_ID:
		return entry->short_id;
	case SURVEY_FULL_ID:
		return entry->id;
	case SURVEY_TEXT:
	case SURVEY_STATE:
		return surveyed_text(entry, column->name);
	case SURVEY_AGE:
		return age_text(age_s(entry), text);
	case SURVEY_IDLE:
		return age_text(idle_s(entry), text);
	case SURVEY_EXPIRES:
		return left_s(entry) < 0 ? "never" : age_text(left_s(entry), text);
	default:
		return figure_text(entry, column, text);
	}
}

static bool add_row(struct table *table, const struct surveyed *entry,
	const struct survey_column *columns, unsigned count)
{
	char texts[TABLE_COLUMNS][HUMAN_SIZE];
	const char *cells[TABLE_COLUMNS];
	bool is_running = strcmp(surveyed_text(entry, "status"), "running") == 0;
	for (unsigned i = 0; i < count; i++)
		cells[i] = cell_text(entry, &columns[i], texts[i]);
	if (!table_add(table, cells))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (columns[i].kind == SURVEY_STATE)
			table_paint(table, i, is_running ? TABLE_GREEN : TABLE_YELLOW);
	return true;
}

bool survey_write_table(const struct survey *survey, const struct survey_column *columns,
	unsigned count, const struct table_style *style, struct buf *out)
{
	struct table_column headings[TABLE_COLUMNS];
	count = MIN(count, TABLE_COLUMNS);
	for (unsigned i = 0; i < count; i++)
		headings[i] =
			(struct table_column){ columns[i].heading, columns[i].kind > SURVEY_STATE };
	CLEANUP(table_free) struct table *table = table_new(headings, count);
	bool is_good = table;
	for (size_t i = 0; i < survey->count && is_good; i++)
		is_good = add_row(table, &survey->entries[i], columns, count);
	return is_good && table_write(table, style, out);
}
