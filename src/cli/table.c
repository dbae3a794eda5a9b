/* See table.h. Widths are counted in characters; all of a table is held until it is written. */
#include "cli/table.h"

#include "cli/human.h"

#include <string.h>

#define GAP 2
#define MOST_CELL ((size_t)4096)
#define BLANKS "                                                                "

struct cell {
	char *text; /* owned */
	enum table_colour colour;
};

struct table {
	const struct table_column *columns; /* not owned */
	unsigned count;
	unsigned widths[TABLE_COLUMNS];
	struct cell *cells; /* owned; a row after the other */
	size_t rows, capacity;
};

static unsigned width_of(const char *text)
{
	unsigned width = 0;
	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

struct table *table_new(const struct table_column *columns, unsigned count)
{
	struct table *table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	*table = (struct table){ .columns = columns, .count = MIN(count, TABLE_COLUMNS) };
	for (unsigned i = 0; i < table->count; i++)
		table->widths[i] = width_of(columns[i].heading);
	return table;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->rows * table->count; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table);
	return NULL;
}

static char *clean_copy(const char *text)
{
	struct buf buf = buf_make(MOST_CELL);
	text = text ? text : "-";
	if (human_clean(&buf, text, strnlen(text, MOST_CELL / 2), HUMAN_PLAIN) && buf_text(&buf) &&
		buf.bytes)
		return buf.bytes;
	buf_deinit(&buf);
	return strdup("");
}

static bool make_room(struct table *table)
{
	if (table->rows < table->capacity)
		return true;
	size_t capacity = table->capacity ? 2 * table->capacity : 16;
	struct cell *cells = reallocarray(table->cells, capacity * table->count, sizeof(*cells));
	if (!cells)
		return false;
	table->cells = cells;
	table->capacity = capacity;
	return true;
}

bool table_add(struct table *table, const char *const *cells)
{
	if (!make_room(table))
		return false;
	struct cell *row = &table->cells[table->rows * table->count];
	bool is_good = true;
	for (unsigned i = 0; i < table->count; i++) {
		row[i] = (struct cell){ .text = clean_copy(cells[i]) };
		is_good = is_good && row[i].text;
		if (row[i].text)
			table->widths[i] = MAX(table->widths[i], width_of(row[i].text));
	}
	table->rows++;
	return is_good;
}

void table_paint(struct table *table, unsigned column, enum table_colour colour)
{
	table->cells[(table->rows - 1) * table->count + column].colour = colour;
}

static bool write_blanks(struct buf *out, unsigned count)
{
	for (; count > sizeof(BLANKS) - 1; count -= sizeof(BLANKS) - 1)
		if (!buf_append_text(out, BLANKS))
			return false;
	return buf_append(out, BLANKS, count);
}

/* At most `room` characters of the text; *room becomes what is left. */
static bool write_cut(struct buf *out, const char *text, unsigned *room)
{
	size_t size = 0;
	while (text[size] && (*room > 0 || ((unsigned char)text[size] & 0xc0) == 0x80))
		*room -= ((unsigned char)text[size++] & 0xc0) != 0x80;
	return buf_append(out, text, size);
}

static bool write_cell(struct buf *out, const struct cell *cell, bool has_colour, unsigned *room)
{
	static const char *const codes[] = { "", "\033[32m", "\033[33m", "\033[1m" };
	if (!has_colour || cell->colour == TABLE_PLAIN)
		return write_cut(out, cell->text, room);
	return buf_append_text(out, codes[cell->colour]) && write_cut(out, cell->text, room) &&
	       buf_append_text(out, "\033[0m");
}

static bool write_row(const struct table *table, const struct table_style *style,
	const struct cell *row, struct buf *out)
{
	unsigned room = style->width ? style->width : 1u << 20;
	bool is_good = true;
	for (unsigned i = 0; i < table->count && is_good && room > 0; i++) {
		bool is_right = table->columns[i].is_right, is_last = i + 1 == table->count;
		unsigned blanks = table->widths[i] - width_of(row[i].text);
		unsigned before = MIN(room, is_right ? blanks : 0);
		room -= before;
		is_good = write_blanks(out, before) &&
			  write_cell(out, &row[i], style->has_colour, &room);
		unsigned after = is_last ? 0 : MIN(room, GAP + (is_right ? 0 : blanks));
		room -= after;
		is_good = is_good && write_blanks(out, after);
	}
	return is_good && buf_append(out, "\n", 1);
}

bool table_write(const struct table *table, const struct table_style *style, struct buf *out)
{
	struct cell headings[TABLE_COLUMNS];
	for (unsigned i = 0; i < table->count; i++)
		headings[i] = (struct cell){ (char *)table->columns[i].heading, TABLE_BOLD };
	bool is_good = write_row(table, style, headings, out);
	size_t rows = style->height ? MIN(table->rows, (size_t)style->height) : table->rows;
	for (size_t i = 0; i < rows && is_good; i++)
		is_good = write_row(table, style, &table->cells[i * table->count], out);
	return is_good;
}
