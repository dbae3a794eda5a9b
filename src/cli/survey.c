/* See survey.h. */
#include "cli/survey.h"

#include <stdio.h>
#include <string.h>

#define MOST_SANDBOXES 100000

void survey_deinit(struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++)
		json_decref(survey->entries[i].metrics);
	free(survey->entries);
	json_decref(survey->list);
	*survey = (struct survey){ 0 };
}

static int by_age(const void *a, const void *b)
{
	const struct surveyed *one = a, *other = b;
	const char *one_time = surveyed_text(one, "created_at");
	const char *other_time = surveyed_text(other, "created_at");
	int order = strcmp(one_time, other_time);
	return order ? order : strcmp(one->id, other->id);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct surveyed *)a)->id, ((const struct surveyed *)b)->id);
}

static size_t common_size(const char *a, const char *b)
{
	size_t size = 0;
	while (a[size] && a[size] == b[size])
		size++;
	return size;
}

/* As short as is usual, and longer where two begin alike. They are in the order of their ids. */
static void shorten(struct survey *survey)
{
	struct surveyed *entries = survey->entries;
	for (size_t i = 0; i < survey->count; i++) {
		size_t size = DAEMON_SHORT_ID;
		if (i > 0)
			size = MAX(size, common_size(entries[i].id, entries[i - 1].id) + 1);
		if (i + 1 < survey->count)
			size = MAX(size, common_size(entries[i].id, entries[i + 1].id) + 1);
		snprintf(entries[i].short_id, sizeof(entries[i].short_id), "%.*s", (int)size,
			entries[i].id);
	}
}

static bool take_list(struct survey *survey, struct error *err)
{
	size_t i, most = MIN(json_array_size(survey->list), (size_t)MOST_SANDBOXES);
	json_t *sandbox;
	survey->entries = calloc(most + 1, sizeof(*survey->entries));
	if (!survey->entries)
		return error_no_memory(err), false;
	json_array_foreach(survey->list, i, sandbox)
	{
		struct surveyed *entry = &survey->entries[survey->count];
		struct sandbox_id id;
		const char *text = json_string_value(json_object_get(sandbox, "id"));
		if (survey->count == most || !text || !sandbox_id_parse(text, &id))
			continue;
		entry->sandbox = sandbox;
		id_to_text(id.bytes, sizeof(id.bytes), entry->id);
		survey->count++;
	}
	qsort(survey->entries, survey->count, sizeof(*survey->entries), by_id);
	shorten(survey);
	qsort(survey->entries, survey->count, sizeof(*survey->entries), by_age);
	return true;
}

static bool take_metrics(struct survey *survey, struct daemon *daemon, struct error *err)
{
	cleanup_free struct http_get *gets = calloc(survey->count + 1, sizeof(*gets));
	cleanup_free char(*paths)[DAEMON_PATH] = calloc(survey->count + 1, sizeof(*paths));
	if (!gets || !paths)
		return error_no_memory(err), false;
	for (size_t i = 0; i < survey->count; i++) {
		daemon_path(paths[i], survey->entries[i].id, "/metrics");
		gets[i].path = paths[i];
	}
	bool is_good = http_get_many(daemon->client, gets, survey->count, err);
	for (size_t i = 0; i < survey->count; i++) {
		if (gets[i].status == 200)
			survey->entries[i].metrics = json_incref(gets[i].json);
		json_decref(gets[i].json);
	}
	return is_good;
}

bool survey_take(struct survey *survey, struct daemon *daemon, bool with_metrics, struct error *err)
{
	*survey = (struct survey){ 0 };
	if (daemon_get(daemon, "/sandboxes", &survey->list, err) && take_list(survey, err) &&
		(!with_metrics || take_metrics(survey, daemon, err)))
		return true;
	survey_deinit(survey);
	return false;
}

double surveyed_number(const struct surveyed *entry, const char *name)
{
	const json_t *value = json_object_get(entry->metrics, name);
	return json_is_number(value) ? json_number_value(value) : -1;
}

const char *surveyed_text(const struct surveyed *entry, const char *name)
{
	const char *text = json_string_value(json_object_get(entry->sandbox, name));
	return text ? text : "";
}
