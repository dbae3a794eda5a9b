/*
 * The events of a sandbox: what happened to it, one JSON object each, numbered. The latest
 * EVENTS_LIMIT bytes are kept while it lives. Never what user code printed.
 *
 *     struct note note;
 *     writer_text(note_begin(&note, sandbox, "sandbox.paused"), "reason", reason);
 *     note_end(&note);
 */
#ifndef API_SANDBOX_EVENTS_H
#define API_SANDBOX_EVENTS_H

#include "api/sandbox.h"
#include "api/writer.h"

#define EVENTS_LIMIT ((size_t)256 * 1024)

struct note {
	struct sandbox *sandbox;
	struct writer writer;
};

/* Begins an event; the writer takes the members of its payload. */
struct writer *note_begin(struct note *note, struct sandbox *sandbox, const char *type);
void note_end(struct note *note);

/* "limit.hit"; `key` and `id` say what hit it. */
void note_limit(struct sandbox *sandbox, const char *limit, const char *key, const char *id);

#endif
