/* See form.h. No preamble, no nested parts, no transfer encodings: no client sends them. */
#include "api/form.h"

#include "base/id.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_LIMIT 255u
#define HEAD_LIMIT 4096u
#define BOUNDARY_LIMIT 70u /* RFC 2046 */

static bool refuse(struct error *err, const char *text)
{
	return error_set(err, ERROR_INVALID, "the form cannot be read: %s", text);
}

/* The next field, with a name of that size to be filled in; NULL and err. */
static struct form_field *add(struct form *form, size_t name_size, struct error *err)
{
	if (form->count == FORM_FIELDS || name_size == 0 || name_size > NAME_LIMIT) {
		refuse(err, form->count == FORM_FIELDS
				    ? "it has more than 2048 fields"
				    : "a name is empty or longer than 255 bytes");
		return NULL;
	}
	struct form_field *field = &form->fields[form->count];
	*field = (struct form_field){ .name = malloc(name_size + 1) };
	if (!field->name)
		return error_no_memory(err);
	form->count++;
	return field;
}

/* ---- urlencoded ---- */

/* Decodes into `to`, which has room; returns the size, or SIZE_MAX for a broken escape. */
static size_t decode(const char *from, size_t size, char *to)
{
	size_t used = 0;
	for (size_t i = 0; i < size; i++) {
		char character = from[i] == '+' ? ' ' : from[i];
		if (character == '%') {
			if (i + 2 >= size || hex_digit(from[i + 1]) < 0 ||
				hex_digit(from[i + 2]) < 0)
				return SIZE_MAX;
			character = (char)(hex_digit(from[i + 1]) * 16 + hex_digit(from[i + 2]));
			i += 2;
		}
		to[used++] = character;
	}
	return used;
}

static bool take_pair(
	struct form *form, const char *pair, size_t size, char **room, struct error *err)
{
	const char *equals = memchr(pair, '=', size);
	size_t name_size = equals ? (size_t)(equals - pair) : size;
	struct form_field *field = add(form, name_size, err);
	if (!field)
		return false;
	size_t used = decode(pair, name_size, field->name);
	field->bytes = *room;
	field->size = equals ? decode(equals + 1, size - name_size - 1, *room) : 0;
	if (used == SIZE_MAX || field->size == SIZE_MAX || used == 0 ||
		memchr(field->name, '\0', used)) {
		field->name[0] = '\0';
		return refuse(err, "an escape is broken");
	}
	field->name[used] = '\0';
	*room += field->size;
	return true;
}

static bool parse_encoded(struct form *form, const char *body, size_t size, struct error *err)
{
	form->decoded = malloc(size + 1);
	if (!form->decoded)
		return error_no_memory(err), false;
	char *room = form->decoded;
	const char *end = body + size;
	while (body < end) {
		const char *stop = memchr(body, '&', (size_t)(end - body));
		size_t pair = (size_t)((stop ? stop : end) - body);
		if (pair > 0 && !take_pair(form, body, pair, &room, err))
			return false;
		body += pair + 1;
	}
	return true;
}

/* ---- multipart ---- */

struct parts {
	const char *at, *end;
	char mark[4 + BOUNDARY_LIMIT + 1]; /* "\r\n--boundary" */
	size_t mark_size;
};

/* The boundary of the content type, quoted or not. */
static bool read_boundary(struct parts *parts, const char *type)
{
	const char *at = type;
	while ((at = strchr(at, ';'))) {
		at += 1 + strspn(at + 1, " \t");
		if (strncasecmp(at, "boundary=", 9) == 0)
			break;
	}
	if (!at)
		return false;
	at += 9;
	bool is_quoted = *at == '"';
	at += is_quoted;
	size_t size = strcspn(at, is_quoted ? "\"" : "; \t");
	if (size == 0 || size > BOUNDARY_LIMIT || (is_quoted && at[size] != '"'))
		return false;
	memcpy(parts->mark, "\r\n--", 4);
	memcpy(parts->mark + 4, at, size);
	parts->mark_size = size + 4;
	return true;
}

/* Past a parameter whose quoted value may have a semicolon. */
static const char *skip_parameter(const char *at, const char *end)
{
	const char *open = memchr(at, '"', (size_t)(end - at));
	const char *next = memchr(at, ';', (size_t)(end - at));
	const char *close = NULL;
	if (open && (!next || open < next))
		close = memchr(open + 1, '"', (size_t)(end - open - 1));
	return close ? close : at;
}

static bool has_name(const char *at, const char *end, const char *name, size_t size)
{
	return (size_t)(end - at) >= size + 2 && strncasecmp(at, name, size) == 0 &&
	       at[size] == '=' && at[size + 1] == '"';
}

/* The value of a parameter of Content-Disposition: `name="..."`. NULL: it has none. */
static const char *find_parameter(const char *line, size_t size, const char *name, size_t *ret_size)
{
	size_t name_size = strlen(name);
	const char *end = line + size, *at = line;
	while ((at = memchr(at, ';', (size_t)(end - at)))) {
		for (at++; at < end && (*at == ' ' || *at == '\t');)
			at++;
		if (!has_name(at, end, name, name_size)) {
			at = skip_parameter(at, end);
			continue;
		}
		const char *value = at + name_size + 2;
		const char *close = memchr(value, '"', (size_t)(end - value));
		*ret_size = close ? (size_t)(close - value) : 0;
		return close ? value : NULL;
	}
	return NULL;
}

/* What clients escape in a quoted name: '"', CR and LF, as %22, %0D, %0A. */
static bool copy_name(struct form_field *field, const char *from, size_t size)
{
	size_t used = 0;
	for (size_t i = 0; i < size; i++) {
		char character = from[i];
		if (character == '%' && i + 2 < size && strncmp(from + i, "%22", 3) == 0) {
			character = '"';
			i += 2;
		}
		if ((unsigned char)character < 0x20)
			return false;
		field->name[used++] = character;
	}
	field->name[used] = '\0';
	return used > 0;
}

/* One header of a part; only the one that names it counts. */
static bool read_header(struct form *form, struct form_field **field, const char *line, size_t size,
	struct error *err)
{
	static const char disposition[] = "content-disposition:";
	size_t name_size = 0;
	if (size < sizeof(disposition) - 1 ||
		strncasecmp(line, disposition, sizeof(disposition) - 1) != 0)
		return true;
	const char *name = find_parameter(line, size, "name", &name_size);
	if (*field || !name)
		return refuse(err, "a part has no name, or two");
	*field = add(form, name_size, err);
	if (!*field)
		return false;
	(*field)->name[0] = '\0';
	if (!copy_name(*field, name, name_size))
		return refuse(err, "a name has control characters");
	(*field)->is_file = find_parameter(line, size, "filename", &name_size);
	return true;
}

/* From the part's first header to the blank line behind its last; NULL and err. */
static struct form_field *read_head(struct form *form, struct parts *parts, struct error *err)
{
	struct form_field *field = NULL;
	const char *limit =
		parts->end - parts->at > HEAD_LIMIT ? parts->at + HEAD_LIMIT : parts->end;
	for (;;) {
		const char *line = parts->at;
		const char *stop = memmem(line, (size_t)(limit - line), "\r\n", 2);
		if (!stop)
			return refuse(err, "the head of a part has no end"), NULL;
		parts->at = stop + 2;
		if (stop == line)
			break;
		if (!read_header(form, &field, line, (size_t)(stop - line), err))
			return NULL;
	}
	if (!field)
		refuse(err, "a part has no name");
	return field;
}

/* Behind a boundary: "\r\n" begins a part, "--" ends the form. */
static bool is_last(const struct parts *parts)
{
	return parts->end - parts->at >= 2 && memcmp(parts->at, "--", 2) == 0;
}

static bool parse_parts(struct form *form, struct parts *parts, struct error *err)
{
	size_t first = parts->mark_size - 2;
	if ((size_t)(parts->end - parts->at) < first ||
		memcmp(parts->at, parts->mark + 2, first) != 0)
		return refuse(err, "it does not begin with its boundary");
	parts->at += first;
	while (!is_last(parts)) {
		if (parts->end - parts->at < 2 || memcmp(parts->at, "\r\n", 2) != 0)
			return refuse(err, "a boundary is cut");
		parts->at += 2;
		struct form_field *field = read_head(form, parts, err);
		if (!field)
			return false;
		const char *stop = memmem(
			parts->at, (size_t)(parts->end - parts->at), parts->mark, parts->mark_size);
		if (!stop)
			return refuse(err, "a part has no end");
		field->bytes = parts->at;
		field->size = (size_t)(stop - parts->at);
		parts->at = stop + parts->mark_size;
	}
	return true;
}

/* ---- either ---- */

static bool is_type(const char *type, const char *name)
{
	size_t size = type ? strcspn(type, "; \t") : 0;
	return size == strlen(name) && strncasecmp(type, name, size) == 0;
}

static bool parse(
	struct form *form, const char *type, const char *body, size_t size, struct error *err)
{
	struct parts parts = { .at = body, .end = body + size };
	form->fields = calloc(FORM_FIELDS, sizeof(*form->fields));
	if (!form->fields)
		return error_no_memory(err), false;
	if (is_type(type, "application/x-www-form-urlencoded"))
		return parse_encoded(form, body, size, err);
	if (!is_type(type, "multipart/form-data"))
		return error_set(err, ERROR_MEDIA_TYPE,
			"the body must be a form: application/x-www-form-urlencoded or "
			"multipart/form-data");
	return read_boundary(&parts, type) ? parse_parts(form, &parts, err)
					   : refuse(err, "the content type names no boundary");
}

bool form_parse(
	struct form *form, const char *type, const char *body, size_t size, struct error *err)
{
	*form = (struct form){ 0 };
	if (parse(form, type, body, size, err))
		return true;
	form_deinit(form);
	return false;
}

void form_deinit(struct form *form)
{
	for (size_t i = 0; i < form->count; i++)
		free(form->fields[i].name);
	free(form->fields);
	free(form->decoded);
	*form = (struct form){ 0 };
}
