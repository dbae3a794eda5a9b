/* See events.h. Lines end with "\n" or "\r\n"; comments and retry times are skipped. */
#include "cli/events.h"

#include <stdio.h>
#include <string.h>

void events_init(struct events *events, events_on_event on_event, void *data)
{
	*events = (struct events){ .line = buf_make(EVENTS_LINE_LIMIT),
		.text = buf_make(EVENTS_LINE_LIMIT),
		.name = "message",
		.on_event = on_event,
		.data = data };
}

void events_deinit(struct events *events)
{
	buf_deinit(&events->line);
	buf_deinit(&events->text);
}

void events_restart(struct events *events)
{
	events->line.size = 0;
	events->text.size = 0;
	events->has_data = false;
	strcpy(events->name, "message");
}

static bool dispatch(struct events *events)
{
	const char *text = buf_text(&events->text);
	if (events->has_data && text)
		events->on_event(events->data, events->name, text, events->text.size);
	bool is_whole = text || !events->has_data;
	events->text.size = 0;
	events->has_data = false;
	strcpy(events->name, "message");
	return is_whole;
}

/* What stands behind "field:" and one blank; NULL when the line is another field. */
static const char *value_of(const char *line, const char *field)
{
	size_t size = strlen(field);
	if (strncmp(line, field, size) != 0)
		return NULL;
	if (line[size] == '\0')
		return line + size;
	if (line[size] != ':')
		return NULL;
	return line + size + 1 + (line[size + 1] == ' ');
}

static bool take_line(struct events *events)
{
	struct buf *line = &events->line;
	if (line->size > 0 && line->bytes[line->size - 1] == '\r')
		line->size--;
	const char *text = buf_text(line), *value;
	if (!text)
		return false;
	if (line->size == 0)
		return dispatch(events);
	if ((value = value_of(text, "event"))) {
		snprintf(events->name, sizeof(events->name), "%s", value);
	} else if ((value = value_of(text, "id"))) {
		snprintf(events->id, sizeof(events->id), "%s", value);
	} else if ((value = value_of(text, "data"))) {
		size_t size = line->size - (size_t)(value - text);
		if (events->has_data && !buf_append(&events->text, "\n", 1))
			return false;
		events->has_data = true;
		if (!buf_append(&events->text, value, size))
			return false;
	}
	line->size = 0;
	return true;
}

bool events_take(void *data, const char *bytes, size_t size)
{
	struct events *events = data;
	while (size > 0) {
		const char *end = memchr(bytes, '\n', size);
		size_t part = end ? (size_t)(end - bytes) : size;
		if (!buf_append(&events->line, bytes, part))
			return false;
		if (!end)
			return true;
		if (!take_line(events))
			return false;
		events->line.size = 0;
		bytes += part + 1;
		size -= part + 1;
	}
	return true;
}
