/*
 * The endpoints of single files: read, write, delete, stat. Contents pass through in pieces, in
 * both directions, never held whole: whoever is slower slows the other.
 */
#include "api/answer.h"
#include "api/routes.h"
#include "api/transfer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PIECES_A_TURN 4

/* ---- read ---- */

static void end_read(struct transfer *transfer)
{
	struct call *call = transfer->call;
	transfer_free(transfer);
	call->is_answered = true;
	http_stream_end(call->request);
}

/* Passes one piece on; false when there is none now, or all is done. */
static bool pass_piece(struct transfer *transfer)
{
	char *piece = transfer->api->frame;
	size_t size = (size_t)MIN(transfer->left, (uint64_t)sizeof(transfer->api->frame));
	ssize_t n = recv(transfer->socket.fd, piece, size, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		transfer_break(transfer);
		return false;
	}
	transfer->left -= (uint64_t)n;
	if (http_stream_write(transfer->call->request, piece, (size_t)n)) {
		if (transfer->left > 0)
			return true;
		end_read(transfer);
		return false;
	}
	if (!buf_append(&transfer->held, piece, (size_t)n)) {
		transfer_break(transfer);
		return false;
	}
	transfer_want(transfer, 0);
	transfer_expect(transfer, 0); /* it is the client's turn */
	return false;
}

static void on_read_readable(struct transfer *transfer)
{
	transfer_expect(transfer, TRANSFER_PATIENCE_MS);
	for (unsigned n = 0; n < PIECES_A_TURN && pass_piece(transfer); n++)
		;
}

static void on_drain(struct http_request *request)
{
	struct call *call = http_request_data(request);
	struct transfer *transfer = call->state;
	if (call->is_answered || !transfer || transfer->held.size == 0)
		return;
	if (!http_stream_write(request, transfer->held.bytes, transfer->held.size))
		return;
	transfer->held.size = 0;
	if (transfer->left == 0)
		return end_read(transfer);
	transfer_want(transfer, EPOLLIN);
	transfer_expect(transfer, TRANSFER_PATIENCE_MS);
}

static void on_read_head(struct transfer *transfer)
{
	struct http_request *request = transfer->call->request;
	transfer->left = transfer->head.size;
	transfer->is_streaming = true;
	http_stream_on_drain(request, on_drain);
	http_stream_start(request, 200, "application/octet-stream", (int64_t)transfer->left);
	if (transfer->left == 0)
		end_read(transfer);
}

static const struct transfer_kind reading = {
	.op = INSIDE_READ, .on_head = on_read_head, .on_readable = on_read_readable
};

void files_read(struct call *call)
{
	transfer_start(call, &reading, 0);
}

/* ---- write ---- */

static void on_write_writable(struct transfer *transfer)
{
	transfer_want(transfer, EPOLLIN);
	transfer_expect(transfer, 0);
	http_request_resume_body(transfer->call->request);
}

/* Takes what the socket takes; nothing means: come again when it takes more. */
static size_t on_body(struct http_request *request, const char *bytes, size_t size)
{
	struct call *call = http_request_data(request);
	struct transfer *transfer = call->state;
	if (!transfer)
		return size; /* it is answered already */
	ssize_t n = send(transfer->socket.fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0)
		return (size_t)n;
	if (errno != EAGAIN) /* init has said why, or will now */
		return size;
	transfer_want(transfer, EPOLLIN | EPOLLOUT);
	transfer_expect(transfer, TRANSFER_PATIENCE_MS);
	return 0;
}

static void on_write_head(struct transfer *transfer)
{
	struct call *call = transfer->call;
	const struct sandbox *sandbox = transfer->guest.sandbox;
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "path", transfer->path);
	transfer_write_name(transfer, &writer);
	writer_int(&writer, "bytes", (int64_t)transfer->head.size);
	transfer_free(transfer); /* the idle time begins here, and the answer tells its end */
	sandbox_write_expiry(sandbox, &writer);
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

/* The body is whole: shutting down our side commits it. */
static void on_body_end(struct call *call)
{
	struct transfer *transfer = call->state;
	if (!transfer)
		return;
	shutdown(transfer->socket.fd, SHUT_WR);
	transfer_want(transfer, EPOLLIN);
	transfer_expect(transfer, TRANSFER_PATIENCE_MS);
}

static const struct transfer_kind writing = {
	.op = INSIDE_WRITE, .on_head = on_write_head, .on_writable = on_write_writable
};

void files_write(struct call *call)
{
	int64_t size = http_request_content_length(call->request);
	struct transfer *transfer =
		transfer_start(call, &writing, size < 0 ? INSIDE_SIZE_UNKNOWN : (uint64_t)size);
	if (!transfer)
		return;
	transfer_expect(transfer, 0); /* the body is the client's turn */
	http_request_stream_body(call->request, on_body);
	call->on_body_end = on_body_end;
}

/* ---- delete, stat ---- */

static void on_delete_head(struct transfer *transfer)
{
	struct call *call = transfer->call;
	transfer_free(transfer);
	answer_empty(call, 204);
}

static const struct transfer_kind deleting = { .op = INSIDE_DELETE, .on_head = on_delete_head };

void files_delete(struct call *call)
{
	transfer_start(call, &deleting, 0);
}

static void on_stat_head(struct transfer *transfer)
{
	struct call *call = transfer->call;
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	transfer_write_name(transfer, &writer);
	writer_text(&writer, "path", transfer->path);
	writer_bool(&writer, "is_dir", S_ISDIR(transfer->head.mode));
	writer_int(&writer, "size", (int64_t)transfer->head.size);
	transfer_write_mode(&writer, transfer->head.mode);
	writer_int(&writer, "mtime", transfer->head.mtime_s);
	writer_close(&writer, '}');
	transfer_free(transfer);
	answer_json(call, 200, &writer);
}

static const struct transfer_kind looking = {
	.op = INSIDE_STAT, .is_looking = true, .files_lead_nowhere = true, .on_head = on_stat_head
};

void files_stat(struct call *call)
{
	transfer_start(call, &looking, 0);
}
