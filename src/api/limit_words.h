/*
 * What programs print when a limit of the sandbox refuses them something. Text is no proof: who asks
 * looks at it only where something failed, and at counters where there are some.
 */
#ifndef API_LIMIT_WORDS_H
#define API_LIMIT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef bool (*limit_words)(const char *bytes, size_t size);

bool limit_words_no_space(const char *bytes, size_t size);
/* No further process or thread. */
bool limit_words_no_process(const char *bytes, size_t size);

#endif
