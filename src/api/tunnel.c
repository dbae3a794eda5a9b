/* See tunnel.h. A side that is at its end is not watched: it would tell so all the time. */
#include "api/tunnel.h"

#include "http/ring.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE_LIMIT ((size_t)64 << 10)
#define READ_SIZE ((size_t)16 << 10)
#define DESCRIPTORS 2
#define LAST_WORDS_MS 60000 /* one side has said its last, the other is silent */
#define PROBE_AFTER_S 60    /* of silence: is the client's machine still there? */

struct side {
	struct tunnel *tunnel;     /* owner of this */
	struct loop_source source; /* its descriptor is owned; -1: not there yet */
	struct ring queue;         /* what is to be written to it */
	bool has_ended;            /* nothing more comes from it */
	bool is_told;              /* that nothing more comes to it */
};

struct tunnel {
	struct api *api;
	struct guest guest;
	struct side sides[2]; /* client, server */
	struct loop_timer patience;
	bool is_waiting; /* for the client's socket: tunnel_on_upgrade will come */
};

enum { CLIENT, SERVER };

/* ---- guests ---- */

bool proxied_enter(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err)
{
	if (sandbox->proxied >= PROXIED_LIMIT)
		return error_set(err, ERROR_BUSY, "too many requests to its ports are under way");
	if (!guest_enter(guest, sandbox, on_end, err))
		return false;
	sandbox->proxied++;
	return true;
}

void proxied_leave(struct guest *guest)
{
	if (guest->sandbox)
		guest->sandbox->proxied--;
	guest_leave(guest);
}

/* ---- life ---- */

static void tunnel_free(struct tunnel *tunnel)
{
	proxied_leave(&tunnel->guest);
	loop_timer_stop(&tunnel->patience);
	for (unsigned i = 0; i < 2; i++) {
		loop_close(&tunnel->sides[i].source);
		ring_deinit(&tunnel->sides[i].queue);
	}
	api_return_descriptors(tunnel->api, DESCRIPTORS);
	free(tunnel);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	struct tunnel *tunnel = CONTAINER_OF(guest, struct tunnel, guest);
	if (!tunnel->is_waiting)
		tunnel_free(tunnel);
}

/* Who has no say while it stands still is not cut for its silence. */
static void on_pause(struct guest *guest, int64_t lasted_us)
{
	struct tunnel *tunnel = CONTAINER_OF(guest, struct tunnel, guest);
	if (lasted_us < 0)
		loop_timer_halt(&tunnel->patience);
	else
		loop_timer_go_on(&tunnel->api->loop, &tunnel->patience);
}

struct tunnel *tunnel_new(
	struct sandbox *sandbox, int server_fd, const char *bytes, size_t size, struct error *err)
{
	if (!api_take_descriptors(sandbox->api, DESCRIPTORS, err))
		return NULL;
	struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
	if (!tunnel) {
		api_return_descriptors(sandbox->api, DESCRIPTORS);
		return error_no_memory(err);
	}
	tunnel->api = sandbox->api;
	for (unsigned i = 0; i < 2; i++)
		tunnel->sides[i] = (struct side){ .tunnel = tunnel, .source.fd = -1 };
	if (!proxied_enter(&tunnel->guest, sandbox, on_sandbox_end, err) ||
		!ring_put(&tunnel->sides[CLIENT].queue, bytes, size)) {
		tunnel_free(tunnel);
		return NULL;
	}
	tunnel->guest.on_pause = on_pause;
	tunnel->sides[SERVER].source.fd = server_fd;
	tunnel->is_waiting = true;
	return tunnel;
}

/* ---- bytes ---- */

static struct side *other(struct side *side)
{
	return &side->tunnel->sides[side == &side->tunnel->sides[CLIENT] ? SERVER : CLIENT];
}

static void on_ready(struct loop_source *source, uint32_t events);

static bool watch(struct side *side)
{
	int fd = side->source.fd;
	uint32_t events = 0;
	if (!side->has_ended && other(side)->queue.size < QUEUE_LIMIT)
		events |= EPOLLIN;
	if (side->queue.size > 0)
		events |= EPOLLOUT;
	if (events == 0) {
		loop_forget(&side->source);
	} else if (side->source.loop) {
		loop_rewatch(&side->source, events);
	} else if (!loop_watch(
			   &side->tunnel->api->loop, &side->source, fd, events, on_ready, NULL)) {
		side->source.fd = fd;
		return false;
	}
	return true;
}

/* False: broken. */
static bool write_some(struct side *side)
{
	const char *bytes;
	size_t size;
	while ((size = ring_peek(&side->queue, &bytes)) > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(
			send(side->source.fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL));
		if (n < 0)
			return errno == EAGAIN;
		ring_drop(&side->queue, (size_t)n);
	}
	return true;
}

/* False: broken. */
static bool read_some(struct side *side)
{
	char *bytes = side->tunnel->api->frame;
	if (other(side)->queue.size >= QUEUE_LIMIT)
		return true;
	ssize_t n = TEMP_FAILURE_RETRY(recv(side->source.fd, bytes, READ_SIZE, MSG_DONTWAIT));
	if (n < 0)
		return errno == EAGAIN;
	side->has_ended = n == 0;
	return ring_put(&other(side)->queue, bytes, (size_t)n);
}

static void on_patience(struct loop_timer *timer)
{
	tunnel_free(CONTAINER_OF(timer, struct tunnel, patience));
}

/* All that came from the other side is written, and no more will come. */
static void pass_on_end(struct side *side)
{
	if (side->is_told || !other(side)->has_ended || side->queue.size > 0)
		return;
	side->is_told = true;
	shutdown(side->source.fd, SHUT_WR);
}

static void settle(struct tunnel *tunnel)
{
	struct side *sides = tunnel->sides;
	bool is_over = true, is_half_over = false;
	for (unsigned i = 0; i < 2; i++) {
		pass_on_end(&sides[i]);
		is_over = is_over && sides[i].is_told;
		is_half_over = is_half_over || sides[i].is_told;
	}
	if (is_over || !watch(&sides[CLIENT]) || !watch(&sides[SERVER]))
		return tunnel_free(tunnel);
	if (is_half_over)
		loop_timer_start(&tunnel->api->loop, &tunnel->patience, LAST_WORDS_MS, on_patience);
	if (sandbox_is_paused(tunnel->guest.sandbox))
		loop_timer_halt(&tunnel->patience);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
	struct side *side = CONTAINER_OF(source, struct side, source);
	struct tunnel *tunnel = side->tunnel;
	bool is_good = true;
	if (!side->has_ended && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		is_good = read_some(side) && write_some(other(side));
	if (is_good && events & (EPOLLOUT | EPOLLERR))
		is_good = write_some(side);
	if (is_good)
		settle(tunnel);
	else
		tunnel_free(tunnel);
}

static void notice_dead_machine(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ PROBE_AFTER_S }, sizeof(int));
}

void tunnel_on_upgrade(void *context, int fd, const char *bytes, size_t size)
{
	struct tunnel *tunnel = context;
	bool is_kept = tunnel->guest.sandbox && fd >= 0 &&
		       ring_put(&tunnel->sides[SERVER].queue, bytes, size);
	tunnel->sides[CLIENT].source.fd = fd;
	tunnel->is_waiting = false;
	if (!is_kept)
		return tunnel_free(tunnel);
	notice_dead_machine(fd);
	settle(tunnel);
}
