/* See sandbox_events.h. */
#include "api/sandbox_events.h"

#include "api/feed.h"
#include "api/journal.h"
#include "base/clock.h"

#include <string.h>

struct writer *note_begin(struct note *note, struct sandbox *sandbox, const char *type)
{
	char time[CLOCK_TEXT_SIZE];
	*note = (struct note){ .sandbox = sandbox, .writer = writer_make() };
	struct writer *writer = &note->writer;
	clock_text(clock_wall_ms(), time);
	writer_open(writer, NULL, '{');
	writer_int(writer, "id", (int64_t)sandbox->events->next_number);
	writer_text(writer, "time", time);
	writer_text(writer, "sandbox_id", sandbox->text);
	writer_text(writer, "type", type);
	writer_open(writer, "payload", '{');
	return writer;
}

void note_end(struct note *note)
{
	struct writer *writer = &note->writer;
	writer_close(writer, '}');
	writer_close(writer, '}');
	const struct buf *text = &writer->buf;
	if (!writer->is_failed) {
		journal_append(note->sandbox->events, 0, text->bytes, text->size);
		feed_append(note->sandbox->api, note->sandbox->owner, text->bytes, text->size);
	}
	writer_deinit(writer);
}

void note_limit(struct sandbox *sandbox, const char *limit, const char *key, const char *id)
{
	struct note note;
	sandbox->api->stats.memory_kills += strcmp(limit, "memory") == 0;
	struct writer *writer = note_begin(&note, sandbox, "limit.hit");
	writer_text(writer, "limit", limit);
	writer_text(writer, key, id);
	note_end(&note);
}
