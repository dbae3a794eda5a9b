/*
 * See inside.h. Init takes requests one by one, and its socket holds some 25 of them: of a burst
 * the rest waits here, PARCELS at most, with duplicates of its descriptors.
 */
#include "api/inside.h"

#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define PARCELS GUESTS_LIMIT /* each guest asks once */
#define PARCEL_FDS 5

struct parcel {
	struct list link; /* in sandbox->outbox */
	struct inside_request request;
	int fds[PARCEL_FDS]; /* owned */
	unsigned fd_count;
};

static void parcel_free(struct parcel *parcel)
{
	list_remove(&parcel->link);
	for (unsigned i = 0; i < parcel->fd_count; i++)
		fd_close(&parcel->fds[i]);
	free(parcel);
}

void inside_discard(struct sandbox *sandbox)
{
	loop_forget(&sandbox->outlet);
	while (!list_is_empty(&sandbox->outbox))
		parcel_free(LIST_FIRST(&sandbox->outbox, struct parcel, link));
	sandbox->outbox_count = 0;
}

/* Init may be gone: whoever asked hears of it by the hang-up of the answer socket. */
static void on_outlet(struct loop_source *source, uint32_t events)
{
	struct sandbox *sandbox = CONTAINER_OF(source, struct sandbox, outlet);
	while (!list_is_empty(&sandbox->outbox)) {
		struct parcel *parcel = LIST_FIRST(&sandbox->outbox, struct parcel, link);
		struct error failure = { 0 };
		if (!wire_send(sandbox->init_fd, &parcel->request, sizeof(parcel->request),
			    parcel->fds, parcel->fd_count, &failure)) {
			if (failure.os_error == EAGAIN)
				return;
			return inside_discard(sandbox);
		}
		parcel_free(parcel);
		sandbox->outbox_count--;
	}
	loop_forget(source);
}

static struct parcel *parcel_new(
	const struct inside_request *request, const int *fds, unsigned fd_count)
{
	struct parcel *parcel = calloc(1, sizeof(*parcel));
	if (!parcel)
		return NULL;
	list_init(&parcel->link);
	parcel->request = *request;
	for (; parcel->fd_count < fd_count; parcel->fd_count++) {
		parcel->fds[parcel->fd_count] = fd_duplicate(fds[parcel->fd_count]);
		if (parcel->fds[parcel->fd_count] < 0) {
			parcel_free(parcel);
			return NULL;
		}
	}
	return parcel;
}

static bool keep(struct sandbox *sandbox, const struct inside_request *request, const int *fds,
	unsigned fd_count, struct error *err)
{
	assert(fd_count <= PARCEL_FDS);
	bool is_watched = sandbox->outlet.loop ||
			  (sandbox->outbox_count < PARCELS &&
				  loop_watch(&sandbox->api->loop, &sandbox->outlet,
					  sandbox->init_fd, EPOLLOUT, on_outlet, NULL));
	struct parcel *parcel = is_watched && sandbox->outbox_count < PARCELS
					? parcel_new(request, fds, fd_count)
					: NULL;
	if (!parcel)
		return error_set(err, ERROR_BUSY, "the sandbox takes no further request right now");
	list_append(&sandbox->outbox, &parcel->link);
	sandbox->outbox_count++;
	return true;
}

bool inside_ask(struct sandbox *sandbox, struct inside_request *request, const int *fds,
	unsigned fd_count, struct error *err)
{
	static uint32_t serial;
	struct error failure = { 0 };
	request->version = INSIDE_VERSION;
	request->serial = ++serial;
	if (!list_is_empty(&sandbox->outbox))
		return keep(sandbox, request, fds, fd_count, err);
	if (wire_send(sandbox->init_fd, request, sizeof(*request), fds, fd_count, &failure))
		return true;
	if (failure.os_error == EAGAIN || failure.os_error == ETOOMANYREFS)
		return keep(sandbox, request, fds, fd_count, err);
	return error_set(err, ERROR_SANDBOX_ENDED, "the sandbox is ending");
}

void inside_sweep(struct sandbox *sandbox, uint32_t session)
{
	struct inside_request request = { .op = INSIDE_SWEEP, .session = session };
	if (session > 1 && sandbox->init_fd >= 0)
		inside_ask(sandbox, &request, NULL, 0, NULL);
}

bool inside_pair(int type, int ret_ends[2], struct error *err)
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret_ends) < 0)
		return error_from_os(err, errno, "cannot make a socket pair");
	fd_set_nonblocking(ret_ends[0], true);
	return true;
}

bool inside_ask_watched(struct sandbox *sandbox, struct inside_request *request,
	struct loop_source *source, loop_on_ready on_answer, struct error *err)
{
	int pair[2];
	source->fd = -1;
	if (!inside_pair(SOCK_SEQPACKET, pair, err))
		return false;
	bool is_asked = inside_ask(sandbox, request, &pair[1], 1, err) &&
			loop_watch(&sandbox->api->loop, source, pair[0], EPOLLIN, on_answer, err);
	source->fd = pair[0];
	close(pair[1]);
	return is_asked;
}

/* Init is ours; yet what comes out of a sandbox is looked at before it is used. */
static bool is_of_kind(int fd, enum inside_gift_kind kind)
{
	int number = 0;
	socklen_t size = sizeof(number);
	if (kind == INSIDE_GIFT_TERMINAL)
		return ioctl(fd, TIOCGPTN, &number) == 0;
	return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &number, &size) == 0 &&
	       number == IPPROTO_TCP;
}

bool inside_receive(int answer_fd, enum inside_gift_kind kind, struct inside_gift *ret)
{
	struct wire_packet packet;
	struct inside_handover handover = { .os_error = EPIPE };
	*ret = (struct inside_gift){ .fd = -1, .os_error = EPIPE };
	enum wire_result result = wire_receive(answer_fd, &packet, NULL);
	if (result != WIRE_GOT)
		return result != WIRE_NOTHING;
	if (packet.size == sizeof(handover))
		memcpy(&handover, packet.bytes, sizeof(handover));
	ret->os_error = handover.os_error;
	ret->fd = wire_packet_take(&packet, 0);
	wire_packet_deinit(&packet);
	if (ret->os_error == 0 && ret->fd >= 0 && is_of_kind(ret->fd, kind))
		return fd_set_nonblocking(ret->fd, true);
	ret->os_error = ret->os_error ? ret->os_error : EPIPE;
	fd_close(&ret->fd);
	return true;
}

bool inside_error(uint32_t code, int os_error, const char *path, struct error *err)
{
	switch (code) {
	case INSIDE_NOT_FOUND:
		return error_set(err, ERROR_FILE_NOT_FOUND, "'%.180s' does not exist", path);
	case INSIDE_IS_DIRECTORY:
		return error_set(err, ERROR_FILE_IS_DIRECTORY, "'%.180s' is a folder", path);
	case INSIDE_NOT_DIRECTORY:
		return error_set(err, ERROR_FILE_NOT_DIRECTORY,
			"'%.180s' is no folder, or leads through a file", path);
	case INSIDE_FORBIDDEN:
		return error_set(err, ERROR_FILE_FORBIDDEN,
			"the sandbox's user may not do that with '%.180s'", path);
	case INSIDE_SPECIAL:
		return error_set(err, ERROR_FILE_SPECIAL,
			"'%.180s' is neither an ordinary file nor a folder", path);
	case INSIDE_LOOP:
		return error_set(
			err, ERROR_FILE_LOOP, "'%.180s' goes through too many links", path);
	case INSIDE_BAD_PATH:
		return error_set(err, ERROR_FILE_PATH,
			"'%.180s' is too long, or a name in it is: 255 bytes", path);
	case INSIDE_NO_SPACE:
		error_set(err, ERROR_FILE_NO_SPACE,
			"no space for '%.180s': the sandbox's files limit is reached", path);
		return error_hint(err, "delete files, or create a sandbox with larger "
				       "limits.files_mb or limits.inodes");
	case INSIDE_ABORTED:
		return error_set(err, ERROR_INVALID,
			"the upload of '%.180s' was not complete; nothing was changed", path);
	case INSIDE_BUSY:
		error_set(
			err, ERROR_BUSY, "the sandbox has no process left to serve '%.180s'", path);
		return error_hint(err, "its limit of processes is reached; end some of them");
	}
	error_set(err, ERROR_FILE_FAILED, "cannot do that with '%.180s': %s", path,
		os_error > 0 ? strerrordesc_np(os_error) : "the call was cut off");
	return false;
}
