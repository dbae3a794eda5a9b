/* The words clients use for languages, and which of them a sandbox's template speaks. */
#ifndef API_LANGUAGES_H
#define API_LANGUAGES_H

#include "api/sandbox.h"
#include "wire/languages.h"

/* By name or alias; an empty word is Python. False and err (language.unknown), naming those there
 * are. */
bool languages_find(const struct sandbox *sandbox, const char *word, enum language *ret_language,
	struct error *err);
/* An array of the names, of all templates together. */
void languages_write(const struct config *config, const char *key, struct writer *writer);

#endif
