/* Where this program's other files lie: in the source tree it was built in, or where it was
 * installed. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "base/error.h"

#include <stddef.h>

/* The folder with build.py and the templates. */
bool program_templates(char *path, size_t size, struct error *err);
/* $SANDGLASS_CACHE, else ~/.cache/sandglass: where built templates are kept. */
bool program_cache(char *path, size_t size, struct error *err);

#endif
