/*
 * Words of bash about a cell: "bash: /proc/3/fd/6: line 2: syntax error ..." names the file in which
 * the runner keeps the cell, since to an interactive shell each source has a name, and there is
 * none that reads as nothing. To who wrote the cell it is "bash: line 2: ...", as of a script.
 */
#ifndef API_BASH_LINES_H
#define API_BASH_LINES_H

#include <stddef.h>
#include <stdint.h>

/* Takes that name out of the lines that begin so; `pid` is the runner's, as seen inside. Returns what
 * is left of the size. bash writes such a line at once, so it lies within one read. */
size_t bash_lines_mend(char *bytes, size_t size, uint32_t pid);

#endif
