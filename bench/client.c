/*
 * The measuring client: plain sockets, one kept connection, one write a request, so that what is
 * measured is the daemon and not a client library.
 *
 *   client HOST PORT KEY
 *
 * It reads commands from standard input and answers each with one line of JSON:
 *
 *   first CODE       POST sandboxes, POST sessions, POST run; the sandbox is killed afterwards,
 * untimed open [LANGUAGE [LIMITS]]  a sandbox and a session that stay; LIMITS as JSON again CODE
 * POST run in the session of `open` stream CODE      the same, until the first event of its output
 * is here exec COMMAND     POST exec in the sandbox of `open` put BYTES        PUT fs of a file of
 * that size there, and get BYTES reads it again fetch PATH       GET of any server's PATH, without
 * a key close            kills the sandbox of `open`
 *
 *   {"us": 5120, "parts": [1900, 2100, 1120]}  or  {"error": "..."}
 *
 * CODE is one line; the answer has to hold `"exit":0` and the text 2 as its value or its
 * output, since fast and wrong is no result.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_LIMIT (1u << 20)
#define HEAD_SIZE (4u << 10)
#define ID_SIZE 64

static struct {
	const char *host, *key;
	uint16_t port;
	int fd; /* -1: not connected */
	char answer[ANSWER_LIMIT];
	char *body; /* in answer */
	char problem[256];
} the_client = { .fd = -1 };

static int64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool fail(const char *text)
{
	snprintf(the_client.problem, sizeof(the_client.problem), "%s", text);
	if (the_client.fd >= 0)
		close(the_client.fd);
	the_client.fd = -1;
	return false;
}

static bool connect_once(void)
{
	if (the_client.fd >= 0)
		return true;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(the_client.port) };
	if (inet_pton(AF_INET, the_client.host, &address.sin_addr) != 1)
		return fail("the host is no IPv4 address");
	the_client.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;
	setsockopt(the_client.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(the_client.fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return fail("cannot connect");
	return true;
}

static bool send_all(const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = send(the_client.fd, bytes, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail("cannot send");
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

/* The value of a header in the head of the answer; NULL if it is not there. */
static const char *header(const char *name)
{
	size_t size = strlen(name);
	for (const char *line = strchr(the_client.answer, '\n'); line && line[1] != '\r';
		line = strchr(line + 1, '\n'))
		if (strncasecmp(line + 1, name, size) == 0 && line[1 + size] == ':')
			return line + size + 2;
	return NULL;
}

/* Is the answer, of which `used` bytes are here, whole? Sets body once the head is. */
static bool is_whole(size_t used)
{
	char *end = strstr(the_client.answer, "\r\n\r\n");
	if (!end)
		return false;
	the_client.body = end + 4;
	size_t have = used - (size_t)(the_client.body - the_client.answer);
	const char *length = header("Content-Length");
	if (length)
		return have >= strtoul(length, NULL, 10);
	if (header("Transfer-Encoding")) /* the chunks' sizes stay in the text; nobody minds */
		return have >= 5 && strcmp(the_client.answer + used - 5, "0\r\n\r\n") == 0;
	return true; /* 204 */
}

/* `size` is that of the body, which follows if it is not in `body`. */
static bool ask(const char *method, const char *path, const char *body, size_t size)
{
	static char request[ANSWER_LIMIT];
	if (!connect_once())
		return false;
	int length = snprintf(request, sizeof(request),
		"%s /v1%s HTTP/1.1\r\nHost: %s:%u\r\nAuthorization: Bearer %s\r\nContent-Type: "
		"application/%s\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		method, path, the_client.host, the_client.port, the_client.key,
		body ? "json" : "octet-stream", size, body ? body : "");
	return length < (int)sizeof(request) && send_all(request, (size_t)length);
}

/* At most `limit` bytes more. */
static bool receive(size_t *used, size_t limit)
{
	ssize_t n;
	size_t room = sizeof(the_client.answer) - 1 - *used;
	do
		n = recv(the_client.fd, the_client.answer + *used, limit < room ? limit : room, 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return fail("the connection ended");
	*used += (size_t)n;
	the_client.answer[*used] = '\0';
	return *used < sizeof(the_client.answer) - 1 || fail("the answer is too long");
}

/* Until the answer is whole, or has `text` in it. False with `problem` unless the status is 2xx. */
static bool listen_until(const char *path, const char *text, size_t *used)
{
	do {
		if (!receive(used, ANSWER_LIMIT))
			return false;
	} while (!is_whole(*used) && !(text && strstr(the_client.answer, text)));
	if (strncmp(the_client.answer, "HTTP/1.1 2", 10) == 0)
		return true;
	snprintf(the_client.problem, sizeof(the_client.problem), "%s: %.120s", path,
		the_client.body);
	return false;
}

/* One request and its answer. */
static bool call(const char *method, const char *path, const char *body)
{
	size_t used = 0;
	the_client.answer[0] = '\0';
	return ask(method, path, body, strlen(body)) && listen_until(path, NULL, &used);
}

static bool take_id(char id[ID_SIZE])
{
	const char *at = strstr(the_client.body, "\"id\"");
	at = at ? strchr(at + 4, '"') : NULL;
	size_t size = at ? strspn(at + 1, "0123456789abcdef-") : 0;
	if (size == 0 || size >= ID_SIZE)
		return fail("no id in the answer");
	memcpy(id, at + 1, size);
	id[size] = '\0';
	return true;
}

struct place {
	char sandbox[ID_SIZE], session[ID_SIZE];
};

static bool open_sandbox(struct place *place, const char *limits)
{
	char body[512];
	snprintf(body, sizeof(body), "{\"template\":\"code-interpreter\",\"limits\":%s}", limits);
	return call("POST", "/sandboxes", body) && take_id(place->sandbox);
}

static bool open_session(struct place *place, const char *language)
{
	char path[2 * ID_SIZE], body[64];
	snprintf(path, sizeof(path), "/sandboxes/%s/repl/sessions", place->sandbox);
	snprintf(body, sizeof(body), "{\"language\":\"%s\"}", language);
	return call("POST", path, body) && take_id(place->session);
}

/* A JSON object with one text, and what else is given, into a buffer that lasts. */
static const char *object(const char *name, const char *text, const char *more)
{
	static char body[8192];
	size_t used = (size_t)snprintf(body, sizeof(body), "{\"%s\":\"", name);
	for (; *text && used < sizeof(body) - 64; text++) {
		if (*text == '"' || *text == '\\')
			body[used++] = '\\';
		body[used++] = *text;
	}
	snprintf(body + used, sizeof(body) - used, "\"%s}", more);
	return body;
}

static void write_run_path(char *path, size_t size, const struct place *place)
{
	snprintf(path, size, "/sandboxes/%s/repl/sessions/%s/run", place->sandbox, place->session);
}

static bool has(const char *text, const char *problem)
{
	return strstr(the_client.body, text) || fail(problem);
}

static bool run(const struct place *place, const char *code)
{
	char path[4 * ID_SIZE];
	write_run_path(path, sizeof(path), place);
	return call("POST", path, object("code", code, "")) &&
	       has("\"exit\":0", "the code failed") &&
	       (strstr(the_client.body, "\"2\\n\"") || has("\"2\"", "the result is not 2"));
}

/* Notes when the first event of output was here. */
static bool stream(const struct place *place, const char *code, int64_t *seen_us)
{
	char path[4 * ID_SIZE];
	size_t used = 0;
	write_run_path(path, sizeof(path), place);
	the_client.answer[0] = '\0';
	const char *body = object("code", code, ",\"stream\":true");
	if (!ask("POST", path, body, strlen(body)) || !listen_until(path, "event: stdout", &used) ||
		!has("event: stdout", "no output was streamed"))
		return false;
	*seen_us = now_us();
	return is_whole(used) || listen_until(path, NULL, &used);
}

static bool execute(const struct place *place, const char *command)
{
	char path[4 * ID_SIZE];
	snprintf(path, sizeof(path), "/sandboxes/%s/exec", place->sandbox);
	return call("POST", path, object("cmd", command, "")) &&
	       has("\"exit_code\":0", "the command failed");
}

/* ---- files ---- */

static bool put(const struct place *place, size_t size)
{
	static char bytes[256 << 10];
	char path[2 * ID_SIZE];
	size_t used = 0;
	snprintf(path, sizeof(path), "/sandboxes/%s/fs?path=/workspace/big", place->sandbox);
	the_client.answer[0] = '\0';
	bool is_sent = ask("PUT", path, NULL, size);
	for (size_t sent = 0, part; is_sent && sent < size; sent += part) {
		part = size - sent < sizeof(bytes) ? size - sent : sizeof(bytes);
		is_sent = send_all(bytes, part);
	}
	return is_sent && listen_until(path, NULL, &used);
}

/* Reads and drops the body, whose length the head tells, and gives the length back. */
static bool drop_body(size_t *ret_size)
{
	static char bytes[256 << 10];
	size_t used = 0;
	while (!strstr(the_client.answer, "\r\n\r\n"))
		if (!receive(&used, HEAD_SIZE))
			return false;
	const char *length = header("Content-Length");
	if (strncmp(the_client.answer + 8, " 200", 4) != 0 || !length)
		return fail("no 200 with a length");
	*ret_size = strtoul(length, NULL, 10);
	size_t have =
		used - (size_t)(strstr(the_client.answer, "\r\n\r\n") + 4 - the_client.answer);
	while (have < *ret_size) {
		ssize_t n = recv(the_client.fd, bytes, sizeof(bytes), 0);
		if (n <= 0)
			return fail("the body was cut");
		have += (size_t)n;
	}
	return true;
}

static bool get(const struct place *place, size_t size)
{
	char path[2 * ID_SIZE];
	size_t got = 0;
	snprintf(path, sizeof(path), "/sandboxes/%s/fs?path=/workspace/big", place->sandbox);
	the_client.answer[0] = '\0';
	return ask("GET", path, "", 0) && drop_body(&got) && (got == size || fail("another size"));
}

static bool fetch(const char *path)
{
	char request[512];
	size_t got;
	int size = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s:%u\r\n\r\n",
		path, the_client.host, the_client.port);
	the_client.answer[0] = '\0';
	return size < (int)sizeof(request) && connect_once() && send_all(request, (size_t)size) &&
	       drop_body(&got);
}

static bool end(const struct place *place)
{
	char path[2 * ID_SIZE];
	snprintf(path, sizeof(path), "/sandboxes/%s", place->sandbox);
	return call("DELETE", path, "");
}

static void say_problem(void)
{
	for (char *at = the_client.problem; *at; at++)
		if (*at == '"' || *at == '\\' || *at < ' ')
			*at = '\'';
	printf("{\"error\": \"%s\"}\n", the_client.problem);
}

static void do_first(const char *code)
{
	struct place place;
	if (!connect_once()) {
		say_problem();
		return;
	}
	int64_t times[4] = { now_us() };
	bool is_made = open_sandbox(&place, "{}");
	times[1] = now_us();
	bool is_done = is_made && open_session(&place, "python");
	times[2] = now_us();
	is_done = is_done && run(&place, code);
	times[3] = now_us();
	if (is_done)
		printf("{\"us\": %lld, \"parts\": [%lld, %lld, %lld]}\n",
			(long long)(times[3] - times[0]), (long long)(times[1] - times[0]),
			(long long)(times[2] - times[1]), (long long)(times[3] - times[2]));
	else
		say_problem();
	if (is_made)
		end(&place);
}

static bool open_both(struct place *place, char *arguments)
{
	char *limits = strchr(arguments, ' ');
	if (limits)
		*limits++ = '\0';
	return open_sandbox(place, limits ? limits : "{}") &&
	       open_session(place, *arguments ? arguments : "python");
}

/* All but `first`: timed as a whole, `stream` until its first event. */
static void do_one(struct place *kept, char *line)
{
	char *rest = strchr(line, ' ');
	rest = rest ? *rest = '\0', rest + 1 : line + strlen(line);
	int64_t start = now_us(), seen = 0;
	bool is_done = !strcmp(line, "again")    ? run(kept, rest)
		       : !strcmp(line, "stream") ? stream(kept, rest, &seen)
		       : !strcmp(line, "exec")   ? execute(kept, rest)
		       : !strcmp(line, "put")    ? put(kept, strtoul(rest, NULL, 10))
		       : !strcmp(line, "get")    ? get(kept, strtoul(rest, NULL, 10))
		       : !strcmp(line, "fetch")  ? fetch(rest)
		       : !strcmp(line, "close")  ? end(kept)
		       : !strcmp(line, "open")   ? open_both(kept, rest)
						 : fail("unknown command");
	if (is_done)
		printf("{\"us\": %lld}\n", (long long)((seen ? seen : now_us()) - start));
	else
		say_problem();
}

int main(int argc, char **argv)
{
	static char line[4096];
	struct place kept = { 0 };
	if (argc != 4) {
		fprintf(stderr, "usage: client HOST PORT KEY\n");
		return 2;
	}
	the_client.host = argv[1];
	the_client.port = (uint16_t)atoi(argv[2]);
	the_client.key = argv[3];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "first ", 6) == 0)
			do_first(line + 6);
		else
			do_one(&kept, line);
	}
	return 0;
}
