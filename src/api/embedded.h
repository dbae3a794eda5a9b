/* Files that the program carries: made into embedded.c while building, by openapi/embed.py. */
#ifndef API_EMBEDDED_H
#define API_EMBEDDED_H

#include <stddef.h>

extern const unsigned char embedded_openapi[], embedded_page[], embedded_script[], embedded_style[];
extern const size_t embedded_openapi_size, embedded_page_size, embedded_script_size,
	embedded_style_size;

#endif
