/* See languages.h. */
#include "wire/languages.h"

#include "base/macros.h"

#include <string.h>

static const char *const names[] = {
	[LANGUAGE_PYTHON] = "python",
	[LANGUAGE_BASH] = "bash",
	[LANGUAGE_NODE] = "node",
};
_Static_assert(ARRAY_SIZE(names) == LANGUAGE_COUNT, "each language has a name");

const char *language_name(enum language language)
{
	return names[language];
}

bool language_find(const char *name, enum language *ret_language)
{
	for (unsigned i = 0; i < LANGUAGE_COUNT; i++) {
		if (strncmp(name, names[i], LANGUAGE_NAME_SIZE) != 0)
			continue;
		*ret_language = (enum language)i;
		return true;
	}
	return false;
}
