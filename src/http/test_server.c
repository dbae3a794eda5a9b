/*
 * A server for tests/e2e/test_http_layer.py: one path for each thing the HTTP layer does. It prints
 * its port, and ends at SIGTERM with whatever is in flight.
 *
 * usage: http-test-server [CONNECTIONS [STALL_SECONDS [IDLE_SECONDS]]]
 */
#include "http/server.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define MIB ((size_t)1 << 20)

struct counters {
	unsigned heads, requests, gone, done;
};

struct test_server {
	struct loop loop;
	struct loop_source signals;
	struct counters counters;
};

/* What a request is doing. */
struct task {
	struct http_request *request;
	struct loop_timer timer;
	uint64_t left;  /* bytes or events still to be written */
	uint64_t taken; /* bytes of body */
	uint32_t sum;   /* of the bytes taken */
	unsigned pause_ms;
	bool is_pausing;
};

static struct test_server *server_of(const struct http_request *request)
{
	return http_request_server_owner(request);
}

static uint64_t number(const struct http_request *request, const char *name, uint64_t otherwise)
{
	const char *text = http_request_query(request, name, NULL);
	return text ? strtoull(text, NULL, 10) : otherwise;
}

static bool is_path(const struct http_request *request, const char *word)
{
	const char *segment = http_request_segment(request, 0);
	return segment && strcmp(segment, word) == 0;
}

static void reply_text(struct http_request *request, unsigned status, const char *text)
{
	http_reply(request, status, "text/plain", text, strlen(text));
}

static void put_hex(struct buf *buf, const char *label, const char *bytes, size_t size)
{
	buf_printf(buf, "%s ", label);
	for (size_t i = 0; i < size; i++)
		buf_printf(buf, "%02x", (unsigned char)bytes[i]);
	buf_append_text(buf, "\n");
}

/* ---- whole answers ---- */

static void show_target(struct http_request *request)
{
	cleanup_buf struct buf text = buf_make(MIB);
	put_hex(&text, "path", http_request_path(request), strlen(http_request_path(request)));
	for (unsigned i = 0; i < http_request_segments(request); i++) {
		const char *segment = http_request_segment(request, i);
		put_hex(&text, "segment", segment, strlen(segment));
	}
	size_t size;
	const char *value = http_request_query(request, "q", &size);
	if (value)
		put_hex(&text, "q", value, size);
	http_reply(request, 200, "text/plain", text.bytes, text.size);
}

static void show_head(struct http_request *request)
{
	cleanup_buf struct buf text = buf_make(MIB);
	const char *host = http_request_header(request, "hOsT");
	buf_printf(&text, "method %s\nhost %s\nx-twice %u\nlength %jd\nid %s\n",
		http_request_method(request), host ? host : "none",
		http_request_header_count(request, "X-Twice"),
		(intmax_t)http_request_content_length(request), http_request_id(request));
	http_reply_header(request, "X-Own", "mine");
	http_reply(request, 200, "text/plain", text.bytes, text.size);
}

static void show_counters(struct http_request *request)
{
	const struct counters *counters = &server_of(request)->counters;
	char text[128];
	snprintf(text, sizeof(text), "heads %u\nrequests %u\ngone %u\ndone %u\n", counters->heads,
		counters->requests, counters->gone, counters->done);
	reply_text(request, 200, text);
}

static void echo(struct http_request *request)
{
	size_t size;
	const char *body = http_request_body(request, &size);
	http_reply(request, 200, "application/octet-stream", body, size);
}

/* ---- answers that come later, or never ---- */

static void task_on_gone(struct http_request *request)
{
	struct task *task = http_request_data(request);
	server_of(request)->counters.gone++;
	loop_timer_stop(&task->timer);
	if (http_stream_pending(request) > 0)
		abort(); /* what nobody will read is dropped */
	if (is_path(request, "later") || is_path(request, "sink"))
		reply_text(request, 200, "nobody reads this\n");
	else
		http_stream_end(request);
}

static struct task *task_new(struct http_request *request)
{
	struct task *task = http_request_alloc(request, sizeof(*task));
	task->request = request;
	task->pause_ms = (unsigned)number(request, "ms", 20);
	http_request_set_data(request, task);
	http_request_on_gone(request, task_on_gone);
	return task;
}

static void later_on_due(struct loop_timer *timer)
{
	reply_text(CONTAINER_OF(timer, struct task, timer)->request, 200, "later\n");
}

static void start_later(struct http_request *request)
{
	struct task *task = task_new(request);
	loop_timer_start(&server_of(request)->loop, &task->timer, task->pause_ms, later_on_due);
}

/* ---- streams down ---- */

static void source_pump(struct http_request *request)
{
	static char block[4 * MIB];
	struct task *task = http_request_data(request);
	size_t most = MIN(number(request, "block", 65536), sizeof(block));
	if (!block[0])
		memset(block, 'x', sizeof(block));
	while (task->left > 0) {
		size_t size = MIN(task->left, most);
		if (!http_stream_write(request, block, size))
			return; /* until source_pump is called again */
		task->left -= size;
	}
	if (http_request_query(request, "abort", NULL))
		http_stream_abort(request);
	else
		http_stream_end(request);
}

static void start_source(struct http_request *request)
{
	struct task *task = task_new(request);
	task->left = number(request, "size", 0);
	bool is_chunked = http_request_query(request, "chunked", NULL) != NULL;
	int64_t size = (int64_t)number(request, "claim", task->left);
	http_stream_on_drain(request, source_pump);
	http_stream_start(request, 200, "application/octet-stream", is_chunked ? -1 : size);
	source_pump(request);
}

static void events_on_due(struct loop_timer *timer)
{
	struct task *task = CONTAINER_OF(timer, struct task, timer);
	char event[64];
	int size = snprintf(event, sizeof(event), "data: %ju\n\n", (uintmax_t)task->left);
	http_stream_write(task->request, event, (size_t)size);
	if (--task->left == 0)
		http_stream_end(task->request);
	else
		loop_timer_start(
			&server_of(task->request)->loop, timer, task->pause_ms, events_on_due);
}

static void start_events(struct http_request *request)
{
	struct task *task = task_new(request);
	task->left = number(request, "n", 3);
	http_stream_start(request, 200, "text/event-stream; charset=utf-8", -1);
	loop_timer_start(&server_of(request)->loop, &task->timer, task->pause_ms, events_on_due);
}

/* ---- streams up ---- */

static void sink_on_due(struct loop_timer *timer)
{
	http_request_resume_body(CONTAINER_OF(timer, struct task, timer)->request);
}

static size_t sink_on_body(struct http_request *request, const char *bytes, size_t size)
{
	struct task *task = http_request_data(request);
	uint64_t refuse_at = number(request, "refuse", UINT64_MAX);
	if (task->taken >= refuse_at) {
		reply_text(request, 507, "full\n");
		return 0;
	}
	if (http_request_query(request, "ms", NULL) && !task->is_pausing) {
		task->is_pausing = true;
		loop_timer_start(
			&server_of(request)->loop, &task->timer, task->pause_ms, sink_on_due);
		return 0;
	}
	task->is_pausing = false;
	size = MIN(size, (size_t)10000);
	for (size_t i = 0; i < size; i++)
		task->sum += (unsigned char)bytes[i];
	task->taken += size;
	return size;
}

static void finish_sink(struct http_request *request)
{
	struct task *task = http_request_data(request);
	char text[64];
	snprintf(text, sizeof(text), "%ju %u\n", (uintmax_t)task->taken, task->sum);
	reply_text(request, 200, text);
}

/* ---- the server ---- */

static void on_head(struct http_request *request)
{
	server_of(request)->counters.heads++;
	if (is_path(request, "refuse")) {
		http_reply_header(request, "WWW-Authenticate", "Bearer");
		reply_text(request, (unsigned)number(request, "status", 401), "refused\n");
	} else if (is_path(request, "sink")) {
		task_new(request);
		http_request_stream_body(request, sink_on_body);
	}
}

static void on_request(struct http_request *request)
{
	static const struct {
		const char *path;
		http_event start;
	} routes[] = {
		{ "target", show_target },
		{ "head", show_head },
		{ "counters", show_counters },
		{ "echo", echo },
		{ "later", start_later },
		{ "source", start_source },
		{ "events", start_events },
		{ "sink", finish_sink },
	};
	server_of(request)->counters.requests++;
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (is_path(request, routes[i].path)) {
			routes[i].start(request);
			return;
		}
	}
	reply_text(request, is_path(request, "hello") ? 200 : 404, "hello\n");
}

static void on_done(struct http_request *request)
{
	struct task *task = http_request_data(request);
	if (task)
		loop_timer_stop(&task->timer);
	server_of(request)->counters.done++;
}

static void on_signal(struct loop_source *source, uint32_t events)
{
	loop_stop(CONTAINER_OF(source, struct test_server, signals)->signals.loop);
}

static int listen_somewhere(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 511) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		abort();
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static int serve(const struct http_config *config, struct test_server *server)
{
	struct error err = { 0 };
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	cleanup_close int signal_fd = loop_signal_fd(&signals, &err);
	CLEANUP(http_server_free) struct http_server *http = http_server_new(config, &err);
	bool is_fine =
		http && signal_fd >= 0 &&
		loop_watch(&server->loop, &server->signals, signal_fd, EPOLLIN, on_signal, &err) &&
		loop_run(&server->loop, &err);
	loop_forget(&server->signals);
	if (!is_fine)
		log_error("test", NULL, &err);
	return is_fine ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct test_server server = { 0 };
	cleanup_close int fd = listen_somewhere();
	if (!loop_init(&server.loop, NULL))
		return 1;
	struct http_config config = {
		.loop = &server.loop,
		.listen_fd = fd,
		.body_limit = MIB,
		.stream_limit = MIB,
		.connections = argc > 1 ? (unsigned)atoi(argv[1]) : 512,
		.stall_seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 0,
		.idle_seconds = argc > 3 ? (unsigned)atoi(argv[3]) : 0,
		.on_head = on_head,
		.on_request = on_request,
		.on_done = on_done,
		.owner = &server,
	};
	int status = serve(&config, &server);
	const struct counters *counters = &server.counters;
	fprintf(stderr, "heads %u done %u gone %u\n", counters->heads, counters->done,
		counters->gone);
	loop_deinit(&server.loop);
	return counters->heads == counters->done ? status : 2;
}
