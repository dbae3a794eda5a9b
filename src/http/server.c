/*
 * The server: libmicrohttpd's daemon without a thread, driven by our loop through its epoll
 * descriptor, and what it knows of each connection.
 *
 * The library stops watching a connection while it is suspended, which is while the owner works on
 * an answer: just when it matters that the client hangs up. So each socket is watched here too,
 * edge triggered, for hang-up and for the first bytes of a head. Its one timeout a connection
 * restarts with every byte; it serves for idle connections and for readers that stopped reading.
 * The shorter limits, for a head and for a body that stalls, are timers of ours. A connection that
 * is to end is shut down here, and the library finds it dead.
 */
#include "http/private.h"

#include "base/clock.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

/* Turns of the library in a row before the rest of the loop has its own. */
#define MOST_TURNS 16
/* With nothing but a piece of a chunk's head that is larger than its buffer, 0.9.75 is always busy
 * and gets nowhere. So after turns in which it called none of our functions it is let run only now
 * and then; the connection ends when its body has stalled for long enough. */
#define MOST_QUIET_TURNS 2
#define QUIET_PAUSE_MS 2
/* Bytes may be reported after the library has answered them: within this time of an answer they
 * are not taken for the beginning of another head. */
#define ECHO_MS 1000
#define SPARED_MS 1000 /* an idle connection that is so new is not closed for another */

/* ---- turns of the library ---- */

static void settle_due(struct http_server *server)
{
	while (!list_is_empty(&server->due)) {
		struct http_request *request =
			LIST_FIRST(&server->due, struct http_request, due_link);
		list_remove(&request->due_link);
		request_settle(request);
	}
}

static void server_on_due(struct loop_timer *timer);

/* When the library wants to run next, or -1. */
static int64_t library_delay_ms(struct http_server *server)
{
	MHD_UNSIGNED_LONG_LONG delay_ms;
	if (server->is_woken)
		return 0;
	if (MHD_get_timeout(server->daemon, &delay_ms) != MHD_YES)
		return -1;
	return (int64_t)MIN(delay_ms, (MHD_UNSIGNED_LONG_LONG)3600000);
}

static void server_run(struct http_server *server)
{
	int64_t delay_ms = 0;
	unsigned quiet_turns = 0;
	server->is_running = true;
	for (unsigned turn = 0; turn < MOST_TURNS && delay_ms == 0; turn++) {
		unsigned calls = server->calls;
		server->is_woken = false;
		MHD_run(server->daemon);
		settle_due(server);
		delay_ms = library_delay_ms(server);
		quiet_turns = server->calls == calls ? quiet_turns + 1 : 0;
		if (delay_ms == 0 && quiet_turns > MOST_QUIET_TURNS && !server->is_woken)
			delay_ms = QUIET_PAUSE_MS;
	}
	server->is_running = false;
	if (delay_ms >= 0)
		loop_timer_start(server->config.loop, &server->timer, delay_ms, server_on_due);
	else
		loop_timer_stop(&server->timer);
}

static void server_on_due(struct loop_timer *timer)
{
	server_run(CONTAINER_OF(timer, struct http_server, timer));
}

static void server_on_library(struct loop_source *source, uint32_t events)
{
	server_run(CONTAINER_OF(source, struct http_server, library));
}

void server_wake(struct http_server *server)
{
	server->is_woken = true;
	if (!server->is_running && !server->is_ending) /* long due: before the loop waits again */
		loop_timer_start_at(server->config.loop, &server->timer, 0, server_on_due);
}

/* ---- connections ---- */

static void connection_on_stall(struct loop_timer *timer)
{
	struct http_connection *connection = CONTAINER_OF(timer, struct http_connection, stall);
	shutdown(connection->source.fd, SHUT_RDWR);
}

void connection_set_deadline(struct http_connection *connection, unsigned seconds)
{
	const struct http_config *config = &connection->server->config;
	if (seconds && config->stall_seconds)
		seconds = config->stall_seconds;
	if (seconds)
		loop_timer_start(
			config->loop, &connection->stall, seconds * 1000, connection_on_stall);
	else
		loop_timer_stop(&connection->stall);
}

static void connection_on_hang_up(struct http_connection *connection)
{
	struct http_request *request = connection->request;
	connection->is_hung_up = true;
	if (request && request->is_finished)
		return; /* its answer may still be read, by a client that only sends no more */
	shutdown(connection->source.fd, SHUT_RDWR);
	if (request && request->has_head)
		request_lose(request);
}

static void connection_on_ready(struct loop_source *source, uint32_t events)
{
	struct http_connection *connection = CONTAINER_OF(source, struct http_connection, source);
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		connection_on_hang_up(connection);
		return;
	}
	if (connection->request || connection->stall.loop)
		return;
	if (clock_monotonic_ms() - connection->answered_ms > ECHO_MS)
		connection_set_deadline(connection, HTTP_STALL_SECONDS);
}

void connection_set_busy(struct http_connection *connection)
{
	list_remove(&connection->idle_link);
}

static void set_idle(struct http_connection *connection)
{
	list_remove(&connection->idle_link);
	list_append(&connection->server->idle, &connection->idle_link);
	connection->idle_ms = clock_monotonic_ms();
}

static void make_room(struct http_server *server);

static void on_room(struct loop_timer *timer)
{
	make_room(CONTAINER_OF(timer, struct http_server, room));
}

/* So that nobody keeps others out with connections that do nothing: when few are left, those that
 * were idle for longest make room. A new one has a moment to bring its request. */
static void make_room(struct http_server *server)
{
	unsigned most = server->config.connections, wanted = most - most / 8;
	int64_t due_ms = clock_monotonic_ms() - SPARED_MS;
	for (unsigned n = server->connection_count; n > wanted; n--) {
		if (list_is_empty(&server->idle))
			return;
		struct http_connection *oldest =
			LIST_FIRST(&server->idle, struct http_connection, idle_link);
		if (oldest->idle_ms > due_ms)
			return loop_timer_start(server->config.loop, &server->room,
				oldest->idle_ms - due_ms, on_room);
		list_remove(&oldest->idle_link);
		shutdown(oldest->source.fd, SHUT_RDWR);
	}
}

static struct http_connection *connection_new(
	struct http_server *server, struct MHD_Connection *mhd)
{
	struct http_connection *connection = calloc(1, sizeof(*connection));
	if (!connection)
		return NULL;
	*connection = (struct http_connection){ .server = server, .mhd = mhd };
	list_init(&connection->idle_link);
	int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	if (!loop_watch(server->config.loop, &connection->source, fd,
		    EPOLLIN | EPOLLRDHUP | EPOLLET, connection_on_ready, NULL)) {
		free(connection);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	connection_set_deadline(connection, HTTP_STALL_SECONDS);
	server->connection_count++;
	set_idle(connection);
	make_room(server);
	return connection;
}

static void connection_free(struct http_connection *connection)
{
	if (!connection)
		return;
	loop_forget(&connection->source);
	loop_timer_stop(&connection->stall);
	list_remove(&connection->idle_link);
	connection->server->connection_count--;
	free(connection);
}

/* ---- what the library calls ---- */

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = cls;
	server->calls++;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = connection_new(server, mhd);
		return;
	}
	connection_free(*context);
	*context = NULL;
	server->is_woken = true; /* it only listens for the next one when it runs again */
}

static struct http_connection *connection_of(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* A request line was read: the earliest moment to know of a request, and the only one at which
 * its target is as it was sent. */
static void *on_request_line(void *cls, const char *target, struct MHD_Connection *mhd)
{
	struct http_connection *connection = connection_of(mhd);
	if (!connection)
		return NULL;
	connection->server->calls++;
	connection->request = request_new(connection, target);
	if (!connection->stall.loop)
		connection_set_deadline(connection, HTTP_STALL_SECONDS);
	return connection->request;
}

/* Nothing is to be decoded before us. */
static size_t on_unescape(void *cls, struct MHD_Connection *mhd, char *text)
{
	return text ? strlen(text) : 0;
}

static void on_completed(
	void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
	struct http_connection *connection = connection_of(mhd);
	struct http_request *request = *context;
	*context = NULL;
	if (!request)
		return;
	connection->server->calls++;
	connection->request = NULL;
	connection->answered_ms = clock_monotonic_ms();
	if (connection->is_hung_up) /* the library misses a hang-up that came with the last bytes */
		shutdown(connection->source.fd, SHUT_RDWR);
	connection_set_deadline(connection, 0);
	set_idle(connection);
	request_on_completed(request, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* ---- life of a server ---- */

static struct MHD_Daemon *start_library(struct http_server *server)
{
	const struct http_config *config = &server->config;
	unsigned idle_seconds = config->idle_seconds ? config->idle_seconds : HTTP_IDLE_SECONDS;
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_UPGRADE, 0, NULL, NULL, request_on_access,
		server, MHD_OPTION_LISTEN_SOCKET, config->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
		config->connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONNECTION_MEMORY,
		MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
		MHD_OPTION_URI_LOG_CALLBACK, on_request_line, server, MHD_OPTION_UNESCAPE_CALLBACK,
		on_unescape, server, MHD_OPTION_END);
}

struct http_server *http_server_new(const struct http_config *config, struct error *err)
{
	CLEANUP(http_server_free) struct http_server *server = calloc(1, sizeof(*server));
	if (!server)
		return error_no_memory(err);
	server->config = *config;
	list_init(&server->requests);
	list_init(&server->idle);
	list_init(&server->due);
	server->daemon = start_library(server);
	if (!server->daemon) {
		error_set(err, ERROR_INTERNAL, "cannot start the HTTP server");
		return NULL;
	}
	int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	if (!loop_watch(config->loop, &server->library, fd, EPOLLIN, server_on_library, err))
		return NULL;
	server_wake(server); /* the library begins to listen when it first runs */
	return TAKE(&server);
}

static void stop_library(struct http_server *server)
{
	MHD_quiesce_daemon(server->daemon); /* leaves the listening socket to its owner */
	LIST_EACH(&server->requests, struct http_request, link, request)
		if (request->connection)
			request_wake(request); /* the library aborts over suspended connections */
	MHD_stop_daemon(server->daemon);
}

struct http_server *http_server_free(struct http_server *server)
{
	if (!server)
		return NULL;
	assert(!server->is_running);
	server->is_ending = true;
	LIST_EACH(&server->requests, struct http_request, link, request)
		request_lose(request);
	loop_forget(&server->library);
	loop_timer_stop(&server->timer);
	loop_timer_stop(&server->room);
	if (server->daemon)
		stop_library(server);
	LIST_EACH(&server->requests, struct http_request, link, request)
		request_settle(request);
	loop_timer_stop(&server->timer);
	free(server);
	return NULL;
}
