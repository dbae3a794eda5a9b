/*
 * Server-sent events as the clients can read them: one line of ASCII JSON each, "\n" as line end, a
 * blank line behind each. Several may be written into one writer, one after the other.
 */
#ifndef API_SSE_H
#define API_SSE_H

#include "api/call.h"
#include "api/writer.h"

#define SSE_BEAT_MS 10000
#define SSE_NO_ID UINT64_MAX

struct writer sse_writer(void);
/* Begins an event whose data is an object: fields follow, then sse_close. */
void sse_open(struct writer *writer, const char *event, uint64_t id);
void sse_close(struct writer *writer);
/* What stands ahead of an event's data; SSE_END follows it. */
void sse_begin(struct writer *writer, const char *event, uint64_t id);
#define SSE_END "\n\n"
/* A whole event; `json` is an object. */
void sse_json(struct writer *writer, const char *event, uint64_t id, const char *json, size_t size);
/* Begins the answer. */
void sse_start(struct call *call);
/* A comment, for clients that take silence for death. Only where nothing is unsent. */
void sse_beat(struct call *call);

#endif
