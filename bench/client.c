/*
 * The measuring client: plain sockets, one kept connection, one write a request, so that what is
 * measured is the daemon and not a client library.
 *
 *   client HOST PORT KEY
 *
 * It reads commands from standard input and answers each with one line of JSON:
 *
 *   first CODE    POST sandboxes, POST sessions, POST run; the sandbox is killed afterwards,
 * untimed open          a sandbox and a session that stay again CODE    POST run in the session of
 * `open` close         kills the sandbox of `open`
 *
 *   {"us": 5120, "parts": [1900, 2100, 1120]}  or  {"error": "..."}
 *
 * CODE is one line; the answer has to hold `"exit":0` and the text "2", since fast and wrong is no
 * result.
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

/* One request and its answer; false with `problem` unless the status is 2xx. */
static bool call(const char *method, const char *path, const char *body)
{
	static char request[ANSWER_LIMIT];
	if (!connect_once())
		return false;
	int size = snprintf(request, sizeof(request),
		"%s /v1%s HTTP/1.1\r\nHost: %s:%u\r\nAuthorization: Bearer %s\r\nContent-Type: "
		"application/json\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		method, path, the_client.host, the_client.port, the_client.key, strlen(body), body);
	if (size >= (int)sizeof(request) || !send_all(request, (size_t)size))
		return false;
	size_t used = 0;
	the_client.answer[0] = '\0';
	do {
		ssize_t n = recv(the_client.fd, the_client.answer + used,
			sizeof(the_client.answer) - 1 - used, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail("the connection ended");
		used += (size_t)n;
		the_client.answer[used] = '\0';
		if (used == sizeof(the_client.answer) - 1)
			return fail("the answer is too long");
	} while (!is_whole(used));
	if (strncmp(the_client.answer, "HTTP/1.1 2", 10) == 0)
		return true;
	snprintf(the_client.problem, sizeof(the_client.problem), "%s: %.120s", path,
		the_client.body);
	return false;
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

static bool open_sandbox(struct place *place)
{
	return call("POST", "/sandboxes", "{\"template\":\"code-interpreter\"}") &&
	       take_id(place->sandbox);
}

static bool open_session(struct place *place)
{
	char path[2 * ID_SIZE];
	snprintf(path, sizeof(path), "/sandboxes/%s/repl/sessions", place->sandbox);
	return call("POST", path, "{\"language\":\"python\"}") && take_id(place->session);
}

static bool run(const struct place *place, const char *code)
{
	static char body[8192];
	char path[4 * ID_SIZE];
	size_t used = (size_t)snprintf(body, sizeof(body), "{\"code\":\"");
	for (; *code && used < sizeof(body) - 8; code++) {
		if (*code == '"' || *code == '\\')
			body[used++] = '\\';
		body[used++] = *code;
	}
	memcpy(body + used, "\"}", 3);
	snprintf(path, sizeof(path), "/sandboxes/%s/repl/sessions/%s/run", place->sandbox,
		place->session);
	if (!call("POST", path, body))
		return false;
	if (!strstr(the_client.body, "\"exit\":0") && !strstr(the_client.body, "\"exit\": 0"))
		return fail("the code failed");
	if (!strstr(the_client.body, "\"2\""))
		return fail("the result is not 2");
	return true;
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
	bool is_made = open_sandbox(&place);
	times[1] = now_us();
	bool is_done = is_made && open_session(&place);
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

static void do_again(const struct place *place, const char *code)
{
	int64_t start = now_us();
	if (run(place, code))
		printf("{\"us\": %lld}\n", (long long)(now_us() - start));
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
		else if (strncmp(line, "again ", 6) == 0)
			do_again(&kept, line + 6);
		else if (strcmp(line, "open") == 0 && open_sandbox(&kept) && open_session(&kept))
			printf("{\"sandbox\": \"%s\"}\n", kept.sandbox);
		else if (strcmp(line, "close") == 0 && end(&kept))
			printf("{}\n");
		else
			say_problem();
	}
	return 0;
}
