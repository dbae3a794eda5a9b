/*
 * `sandglass events`: what happened to a sandbox, or to all. (The module `events` reads the streams
 * they come in.)
 */
#include "cli/command.h"
#include "cli/follow.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/survey.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define MOST_EVENTS 100000
#define LINE_LIMIT ((size_t)1 << 20)

struct happenings {
	const char *state;
	bool is_json, is_followed;
	int64_t tail, since; /* -1: not given */
	struct daemon daemon;
	char id[SANDBOX_ID_TEXT];
};

static const char *text_of(const json_t *event, const char *name)
{
	const char *text = json_string_value(json_object_get(event, name));
	return text ? text : "";
}

/* "name=value", values as JSON unless they are text. */
static void write_payload(struct buf *line, const json_t *payload)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)payload, name, value)
	{
		cleanup_free char *text =
			json_is_string(value) ? strdup(json_string_value(value))
					      : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		buf_printf(line, "  %s=", name);
		if (text)
			human_clean(line, text, strlen(text), HUMAN_PLAIN);
	}
}

static void print_event(const struct happenings *happenings, const json_t *event)
{
	cleanup_buf struct buf line = buf_make(LINE_LIMIT);
	if (happenings->is_json) {
		json_dumpf(event, stdout, JSON_COMPACT);
		putchar('\n');
		return;
	}
	const char *sandbox = text_of(event, "sandbox_id"), *type = text_of(event, "type");
	human_clean(&line, text_of(event, "time"), strlen(text_of(event, "time")), HUMAN_PLAIN);
	buf_append(&line, "  ", 2);
	human_clean(&line, sandbox, strnlen(sandbox, DAEMON_SHORT_ID), HUMAN_PLAIN);
	buf_append(&line, "  ", 2);
	size_t before = line.size;
	human_clean(&line, type, strlen(type), HUMAN_PLAIN);
	buf_printf(&line, "%*s", (int)MAX(0, 16 - (int)(line.size - before)), "");
	write_payload(&line, json_object_get(event, "payload"));
	while (line.size > 0 && line.bytes[line.size - 1] == ' ')
		line.size--;
	printf("%.*s\n", (int)line.size, line.bytes);
}

/* ---- as they come ---- */

static void on_event(void *data, const char *name, const char *json, size_t size)
{
	json_t *event = json_loadb(json, size, JSON_ALLOW_NUL, NULL);
	if (event)
		print_event(data, event);
	fflush(stdout);
	json_decref(event);
}

/* Without an id: of all sandboxes together. */
static void make_path(const struct happenings *happenings, const char *id, bool with_place,
	char path[DAEMON_PATH])
{
	int size = snprintf(path, DAEMON_PATH, "%s%s/events?follow=%s", *id ? "/sandboxes/" : "",
		id, happenings->is_followed ? "true" : "false");
	if (with_place && happenings->since >= 0)
		size += snprintf(path + size, DAEMON_PATH - (size_t)size, "&since=%lld",
			(long long)happenings->since);
	if (with_place && happenings->tail >= 0)
		snprintf(path + size, DAEMON_PATH - (size_t)size, "&tail=%lld",
			(long long)happenings->tail);
}

static bool follow_events(struct happenings *happenings, struct error *err)
{
	char path[DAEMON_PATH], again[DAEMON_PATH];
	make_path(happenings, happenings->id, true, path);
	make_path(happenings, happenings->id, false, again);
	const struct follow what = { "events", path, again, on_event, happenings };
	return follow(&happenings->daemon, &what, err);
}

/* ---- as they stand ---- */

/* Takes the events; prints the last `tail` of them. */
static void print_all(const struct happenings *happenings, json_t *events)
{
	size_t i, count = json_array_size(events), from = 0;
	json_t *event;
	if (happenings->tail >= 0 && count > (size_t)happenings->tail)
		from = count - (size_t)happenings->tail;
	json_t *shown = json_array();
	json_array_foreach(events, i, event)
	{
		if (i >= from && happenings->is_json)
			json_array_append(shown, event);
		else if (i >= from)
			print_event(happenings, event);
	}
	if (happenings->is_json)
		command_print_json("events", json_pack("{s:O}", "events", shown));
	json_decref(shown);
	json_decref(events);
}

static bool print_of_one(struct happenings *happenings, struct error *err)
{
	char path[DAEMON_PATH];
	json_t *answer = NULL;
	make_path(happenings, happenings->id, true, path);
	if (!daemon_get(&happenings->daemon, path, &answer, err))
		return false;
	print_all(happenings, json_incref(json_object_get(answer, "events")));
	json_decref(answer);
	return true;
}

struct happening {
	json_t *event; /* not owned */
};

static int by_time(const void *a, const void *b)
{
	const json_t *one = ((const struct happening *)a)->event;
	const json_t *other = ((const struct happening *)b)->event;
	int order = strcmp(text_of(one, "time"), text_of(other, "time"));
	json_int_t one_id = json_integer_value(json_object_get(one, "id"));
	json_int_t other_id = json_integer_value(json_object_get(other, "id"));
	return order ? order : (one_id > other_id) - (one_id < other_id);
}

/* All events of several answers, in the order of their times. */
static json_t *merge(const struct http_get *gets, size_t count)
{
	size_t total = 0, n = 0, k;
	json_t *event, *merged = json_array();
	for (size_t i = 0; i < count; i++)
		total += json_array_size(json_object_get(gets[i].json, "events"));
	cleanup_free struct happening *sorted = calloc(total + 1, sizeof(*sorted));
	for (size_t i = 0; sorted && i < count; i++) {
		json_array_foreach(json_object_get(gets[i].json, "events"), k, event)
		{
			sorted[n++].event = event;
		}
	}
	if (sorted)
		qsort(sorted, n, sizeof(*sorted), by_time);
	for (size_t i = 0; i < n; i++)
		json_array_append(merged, sorted[i].event);
	return merged;
}

static bool print_of_all(struct happenings *happenings, struct error *err)
{
	struct survey survey;
	if (!survey_take(&survey, &happenings->daemon, false, err))
		return false;
	cleanup_free struct http_get *gets = calloc(survey.count + 1, sizeof(*gets));
	cleanup_free char(*paths)[DAEMON_PATH] = calloc(survey.count + 1, sizeof(*paths));
	bool is_good = gets && paths ? true : (error_no_memory(err), false);
	for (size_t i = 0; i < survey.count && is_good; i++) {
		make_path(happenings, survey.entries[i].id, true, paths[i]);
		gets[i].path = paths[i];
	}
	is_good = is_good && http_get_many(happenings->daemon.client, gets, survey.count, err);
	if (is_good)
		print_all(happenings, merge(gets, survey.count));
	for (size_t i = 0; gets && i < survey.count; i++)
		json_decref(gets[i].json);
	survey_deinit(&survey);
	return is_good;
}

static int perform(struct happenings *happenings, const char *word)
{
	struct error err = { 0 };
	bool is_good = daemon_open(&happenings->daemon, happenings->state, &err);
	if (is_good && !word && happenings->is_followed)
		is_good = follow_events(happenings, &err);
	else if (is_good && !word)
		is_good = print_of_all(happenings, &err);
	else if (is_good)
		is_good = daemon_find(&happenings->daemon, word, happenings->id, &err) &&
			  (happenings->is_followed ? follow_events(happenings, &err)
						   : print_of_one(happenings, &err));
	daemon_close(&happenings->daemon);
	return is_good ? command_end("events") : command_fail("events", &err);
}

int events_command(int argc, char **argv)
{
	struct happenings happenings = { .tail = -1, .since = -1 };
	const struct option_spec specs[] = { OPTION_STATE(&happenings.state),
		OPTION_JSON(&happenings.is_json),
		{ "follow", 'f', OPTION_FLAG, &happenings.is_followed },
		{ "tail", 'n', OPTION_NUMBER, &happenings.tail, 0, MOST_EVENTS },
		{ "since", 0, OPTION_NUMBER, &happenings.since, 0, INT64_C(1) << 53 } };
	int first = options_parse("events", argc, argv, specs, ARRAY_SIZE(specs), 1);
	if (first < 0)
		return EXIT_MISUSED;
	return perform(&happenings, first < argc ? argv[first] : NULL);
}
