/* The languages of contexts. Their names are those of template.json, of the API and of
 * warden_kernel. */
#ifndef WIRE_LANGUAGES_H
#define WIRE_LANGUAGES_H

#include <stdbool.h>
#include <stdint.h>

enum language { LANGUAGE_PYTHON, LANGUAGE_BASH, LANGUAGE_NODE, LANGUAGE_COUNT };

#define LANGUAGE_NAME_SIZE 16
#define LANGUAGE_BIT(language) (1u << (language)) /* in a set of languages */

const char *language_name(enum language language);
/* False for a name that is none, or not terminated within LANGUAGE_NAME_SIZE. */
bool language_find(const char *name, enum language *ret_language);

#endif
