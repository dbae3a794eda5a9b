/* Aligned columns for a terminal or a pipe. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>

#define TABLE_COLUMNS 12

struct table_column {
	const char *heading;
	bool is_right; /* numbers stand at the right */
};

enum table_colour { TABLE_PLAIN, TABLE_GREEN, TABLE_YELLOW, TABLE_BOLD };

struct table;

/* The columns stay the caller's. NULL without memory. */
struct table *table_new(const struct table_column *columns, unsigned count);
struct table *table_free(struct table *table);
CLEANUP_FUNCTION(struct table *, table_free);
/* Adds a row; its cells are copied, without control characters. NULL stands for "-". */
bool table_add(struct table *table, const char *const *cells);
/* Of a cell in the row added last. */
void table_paint(struct table *table, unsigned column, enum table_colour colour);

struct table_style {
	bool has_colour;
	unsigned width;  /* lines are cut there; 0: nowhere */
	unsigned height; /* rows that are shown; 0: all */
};
/* Into the buffer; false where it has no room. */
bool table_write(const struct table *table, const struct table_style *style, struct buf *out);

#endif
