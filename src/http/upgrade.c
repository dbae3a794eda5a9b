/*
 * Handing a connection's socket over to another protocol. The library would keep its own state and
 * a place among its connections for as long as the socket is open; so the socket is duplicated, and
 * the library closes its descriptor at once.
 */
#include "http/private.h"

#include "base/fd.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void tell(struct http_request *request, int fd, const char *bytes, size_t size)
{
	http_on_upgrade on_upgrade = request->on_upgrade;
	request->on_upgrade = NULL;
	if (on_upgrade)
		on_upgrade(request->upgrade_context, fd, bytes, size);
	else
		fd_close(&fd);
}

void upgrade_fail(struct http_request *request)
{
	tell(request, -1, NULL, 0);
}

/* The 101 is out. */
static void on_handover(void *cls, struct MHD_Connection *mhd, void *context, const char *bytes,
	size_t size, MHD_socket library_fd, struct MHD_UpgradeResponseHandle *handle)
{
	struct http_request *request = cls;
	struct http_connection *connection = request->connection;
	bool is_dead = request->is_gone || connection->is_hung_up;
	int fd = is_dead ? -1 : fd_duplicate(library_fd);
	loop_forget(&connection->source); /* it would be told of a descriptor that is closed here */
	connection_set_deadline(connection, 0);
	if (fd >= 0) {
		fd_set_nonblocking(fd, true);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	}
	request->server->calls++;
	tell(request, fd, bytes, size);
	MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
	server_wake(request->server);
}

void http_upgrade(struct http_request *request, const char *protocol, http_on_upgrade on_upgrade,
	void *context)
{
	assert(!request->is_answered && request->content_length == 0);
	http_reply_header(request, "Upgrade", protocol);
	request->is_answered = request->is_finished = true;
	request->status = MHD_HTTP_SWITCHING_PROTOCOLS;
	request->on_upgrade = on_upgrade;
	request->upgrade_context = context;
	if (!request->is_gone) {
		request->response = MHD_create_response_for_upgrade(on_handover, request);
		if (request->response)
			reply_add_headers(request, NULL);
	}
	reply_proceed(request);
}
