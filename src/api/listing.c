/*
 * GET /fs/dir: entries are turned into JSON as they come, so only the answer itself is held. Names
 * are any bytes: what is no UTF-8 is shown with replacement characters, and said to be. A link to a
 * folder is a link: clients walk down whatever is_dir, and links may lead in circles.
 */
#include "api/answer.h"
#include "api/routes.h"
#include "api/transfer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define ANSWER_LIMIT ((size_t)32 << 20)

static bool is_utf8(const char *bytes, size_t size)
{
	struct utf8 state = { 0 };
	uint32_t character;
	for (size_t i = 0; i < size; i++)
		if (utf8_step(&state, (uint8_t)bytes[i], &character) >= UTF8_BAD)
			return false;
	return state.left == 0;
}

static void write_path(struct transfer *transfer, const char *name, size_t size)
{
	struct utf8 state = { 0 };
	size_t parent = strlen(transfer->path);
	while (parent > 0 && transfer->path[parent - 1] == '/')
		parent--;
	writer_string_begin(&transfer->writer, "path");
	writer_chars(&transfer->writer, &state, transfer->path, parent);
	writer_chars(&transfer->writer, &state, "/", 1);
	writer_chars(&transfer->writer, &state, name, size);
	writer_string_end(&transfer->writer, &state);
}

static void write_entry(
	struct transfer *transfer, const struct inside_entry *entry, const char *name)
{
	struct writer *writer = &transfer->writer;
	transfer->is_cut = transfer->is_cut || (entry->flags & INSIDE_FLAG_MORE) ||
			   writer->buf.size > ANSWER_LIMIT;
	if (writer->buf.size > ANSWER_LIMIT)
		return;
	writer_open(writer, NULL, '{');
	writer_bytes(writer, "name", name, entry->name_size);
	write_path(transfer, name, entry->name_size);
	writer_bool(writer, "is_dir", entry->is_directory && !S_ISLNK(entry->mode));
	if (entry->is_directory && S_ISLNK(entry->mode))
		writer_bool(writer, "target_is_dir", true);
	writer_int(writer, "size", (int64_t)entry->size);
	transfer_write_mode(writer, entry->mode);
	writer_int(writer, "mtime", entry->mtime_s);
	if (!is_utf8(name, entry->name_size))
		writer_bool(writer, "name_is_damaged", true);
	writer_close(writer, '}');
}

/* Turns all whole entries of what has come. */
static void take_entries(struct transfer *transfer)
{
	struct buf *held = &transfer->held;
	size_t at = 0;
	struct inside_entry entry;
	while (held->size - at >= sizeof(entry)) {
		memcpy(&entry, held->bytes + at, sizeof(entry));
		if (held->size - at - sizeof(entry) < entry.name_size)
			break;
		write_entry(transfer, &entry, held->bytes + at + sizeof(entry));
		at += sizeof(entry) + entry.name_size;
	}
	if (at > 0)
		buf_consume(held, at);
}

static void finish(struct transfer *transfer)
{
	struct call *call = transfer->call;
	struct writer *writer = &transfer->writer;
	writer_close(writer, ']');
	if (transfer->is_cut)
		writer_bool(writer, "truncated", true);
	writer_close(writer, '}');
	answer_json(call, 200, writer);
	transfer_free(transfer);
}

static void on_readable(struct transfer *transfer)
{
	char *piece = transfer->api->frame;
	ssize_t n = recv(transfer->socket.fd, piece, sizeof(transfer->api->frame), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 0 && transfer->held.size == 0)
		return finish(transfer);
	if (n <= 0 || !buf_append(&transfer->held, piece, (size_t)n))
		return transfer_break(transfer);
	take_entries(transfer);
	transfer_expect(transfer, TRANSFER_PATIENCE_MS);
}

static void on_head(struct transfer *transfer)
{
	struct writer *writer = &transfer->writer;
	writer_open(writer, NULL, '{');
	writer_text(writer, "path", transfer->path);
	writer_open(writer, "entries", '[');
}

static const struct transfer_kind listing = { .op = INSIDE_LIST,
	.default_path = "/",
	.is_looking = true,
	.on_head = on_head,
	.on_readable = on_readable };

void files_list(struct call *call)
{
	transfer_start(call, &listing, 0);
}
