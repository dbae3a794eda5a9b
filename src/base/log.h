/*
 * The log: one JSON object a line on stderr, with `time, level, process, event, sandbox,
 * request, message`.
 * Only the programs' own folders (keeper, warden, init's none, api) call it; library code returns
 * errors. Never put a user's bytes (code, output, file names) into a message.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"
#include "base/macros.h"

enum log_level { LOG_DEBUG_LEVEL, LOG_INFO, LOG_WARNING, LOG_ERROR };

/* `process` must live for ever: "keeper", "warden", "api". */
void log_init(const char *process, enum log_level least);
/* `event` is a short stable word ("sandbox.ended"); `sandbox` may be NULL. */
void log_write(enum log_level level, const char *event, const char *sandbox, const char *format,
	...) PRINTF_LIKE(4, 5);
/* Lines name that request until this is called again; NULL: none. The text must live so long. */
void log_set_request(const char *id);
/* That one; NULL. */
const char *log_request(void);
/* The error's message, hint and errno. */
void log_error(const char *event, const char *sandbox, const struct error *err);

#endif
