/* See transfer.h. */
#include "api/transfer.h"

#include "api/answer.h"
#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HELD_LIMIT ((size_t)256 * 1024)

static void on_ready(struct loop_source *source, uint32_t events);

void transfer_free(struct transfer *transfer)
{
	guest_leave(&transfer->guest);
	loop_timer_stop(&transfer->patience);
	if (transfer->socket.fd >= 0)
		api_return_descriptors(transfer->api, 1);
	loop_close(&transfer->socket);
	buf_deinit(&transfer->held);
	writer_deinit(&transfer->writer);
	free(transfer->path);
	if (transfer->call) {
		transfer->call->on_gone = NULL;
		transfer->call->state = NULL;
	}
	free(transfer);
}

void transfer_fail(struct transfer *transfer, const struct error *err)
{
	struct call *call = transfer->call;
	bool is_streaming = transfer->is_streaming;
	transfer_free(transfer);
	if (is_streaming) /* the status is out: all that is left is to cut the connection */
		http_stream_abort(call->request);
	else
		answer_error(call, err);
}

void transfer_break(struct transfer *transfer)
{
	struct error err;
	error_set(&err, ERROR_FILE_FAILED, "the file call was cut off inside the sandbox");
	transfer_fail(transfer, &err);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	transfer_fail(CONTAINER_OF(guest, struct transfer, guest), why);
}

static void on_gone(struct call *call)
{
	struct transfer *transfer = call->state;
	bool is_streaming = transfer->is_streaming;
	transfer_free(transfer);
	call->is_answered = true;
	if (is_streaming)
		http_stream_end(call->request);
	else
		answer_gone(call);
}

static void on_patience(struct loop_timer *timer)
{
	struct error err;
	error_set(&err, ERROR_FILE_FAILED, "the sandbox did not serve the file call in time");
	transfer_fail(CONTAINER_OF(timer, struct transfer, patience), &err);
}

void transfer_expect(struct transfer *transfer, int64_t ms)
{
	if (ms == 0)
		loop_timer_stop(&transfer->patience);
	else
		loop_timer_start(&transfer->api->loop, &transfer->patience, ms, on_patience);
}

void transfer_want(struct transfer *transfer, uint32_t events)
{
	int fd = transfer->socket.fd;
	struct error err = { 0 };
	if (events == 0)
		return loop_forget(&transfer->socket);
	if (transfer->socket.loop)
		return loop_rewatch(&transfer->socket, events);
	if (!loop_watch(&transfer->api->loop, &transfer->socket, fd, events, on_ready, &err)) {
		transfer->socket.fd = fd;
		transfer_expect(
			transfer, 1); /* nothing will come: ends soon, outside this handler */
	}
}

/* ---- starting ---- */

static bool read_path(struct transfer *transfer, struct error *err)
{
	size_t size = 0;
	const char *path = http_request_query(transfer->call->request, "path", &size);
	if (!path && transfer->kind->default_path) {
		path = transfer->kind->default_path;
		size = strlen(path);
	}
	if (!path || size == 0)
		return error_set(err, ERROR_FILE_PATH, "the query has no 'path'");
	if (memchr(path, '\0', size))
		return error_set(err, ERROR_FILE_PATH, "'path' must not hold a NUL");
	if (path[0] != '/') {
		error_set(err, ERROR_FILE_PATH, "'path' must be absolute");
		return error_hint(err, "begin it with '/'; code starts in /workspace");
	}
	if (size >= INSIDE_PATH_SIZE)
		return error_set(err, ERROR_FILE_PATH, "'path' is longer than %d bytes",
			INSIDE_PATH_SIZE - 1);
	transfer->path = strdup(path);
	return transfer->path ? true : (error_no_memory(err), false);
}

static bool ask(struct transfer *transfer, uint64_t size, struct error *err)
{
	struct inside_request request = { .op = transfer->kind->op, .size = size };
	struct sandbox *sandbox = transfer->call->sandbox;
	int pair[2];
	if (!inside_pair(SOCK_STREAM, pair, err))
		return false;
	transfer->socket.fd = pair[0];
	memcpy(request.path, transfer->path, strlen(transfer->path) + 1);
	bool is_asked = inside_ask(sandbox, &request, &pair[1], 1, err);
	close(pair[1]);
	return is_asked;
}

static bool enter(struct transfer *transfer, struct error *err)
{
	struct sandbox *sandbox = transfer->call->sandbox;
	return transfer->kind->is_looking
		       ? guest_look(&transfer->guest, sandbox, on_sandbox_end, err)
		       : guest_enter(&transfer->guest, sandbox, on_sandbox_end, err);
}

static bool begin(struct transfer *transfer, uint64_t size, struct error *err)
{
	if (!read_path(transfer, err) || !api_take_descriptors(transfer->api, 1, err))
		return false;
	if (!enter(transfer, err) || !ask(transfer, size, err)) {
		if (transfer->socket.fd < 0)
			api_return_descriptors(transfer->api, 1);
		return false;
	}
	transfer_want(transfer, EPOLLIN);
	transfer_expect(transfer, TRANSFER_PATIENCE_MS);
	return true;
}

struct transfer *transfer_start(struct call *call, const struct transfer_kind *kind, uint64_t size)
{
	struct error err = { 0 };
	struct transfer *transfer = calloc(1, sizeof(*transfer));
	if (!transfer) {
		error_no_memory(&err);
		answer_error(call, &err);
		return NULL;
	}
	*transfer = (struct transfer){ .kind = kind,
		.api = call->api,
		.call = call,
		.socket.fd = -1,
		.held = buf_make(HELD_LIMIT),
		.writer = writer_make() };
	call->state = transfer;
	call->on_gone = on_gone;
	if (begin(transfer, size, &err))
		return transfer;
	transfer_fail(transfer, &err);
	return NULL;
}

/* ---- the answer's head ---- */

/* True when it is there, whole. */
static bool receive_head(struct transfer *transfer)
{
	char *place = (char *)&transfer->head + transfer->head_size;
	size_t missing = sizeof(transfer->head) - transfer->head_size;
	ssize_t n = recv(transfer->socket.fd, place, missing, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		transfer_break(transfer);
		return false;
	}
	transfer->head_size += (size_t)n;
	return transfer->head_size == sizeof(transfer->head);
}

static void take_head(struct transfer *transfer)
{
	struct error err;
	if (!receive_head(transfer))
		return;
	uint32_t code = transfer->head.error;
	if (code == INSIDE_OK)
		return transfer->kind->on_head(transfer);
	if (code == INSIDE_NOT_DIRECTORY && transfer->kind->files_lead_nowhere)
		code = INSIDE_NOT_FOUND;
	inside_error(code, transfer->head.os_error, transfer->path, &err);
	transfer_fail(transfer, &err);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
	struct transfer *transfer = CONTAINER_OF(source, struct transfer, socket);
	if ((events & EPOLLOUT) && transfer->kind->on_writable)
		transfer->kind->on_writable(transfer);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	if (transfer->head_size < sizeof(transfer->head))
		take_head(transfer);
	else if (transfer->kind->on_readable)
		transfer->kind->on_readable(transfer);
}

/* ---- for answers ---- */

void transfer_write_name(const struct transfer *transfer, struct writer *writer)
{
	const char *path = transfer->path;
	size_t end = strlen(path);
	while (end > 1 && path[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	if (begin == end) /* the root */
		begin--;
	writer_bytes(writer, "name", path + begin, end - begin);
}

void transfer_write_mode(struct writer *writer, uint32_t mode)
{
	const char *letter = S_ISDIR(mode) ? "d" : S_ISLNK(mode) ? "l" : S_ISREG(mode) ? "f" : "o";
	writer_text(writer, "mode", letter);
}
