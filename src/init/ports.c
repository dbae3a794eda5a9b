/*
 * See ports.h. The kernel's tables of sockets are the sandbox's own: they name its network
 * namespace's only. Addresses in them are hex words in the machine's order.
 */
#include "init/ports.h"

#include "base/fd.h"
#include "wire/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LISTENING 0x0a
#define TABLE_LINE 512

static bool serves_loopback(const char *address, size_t size)
{
	static const char any6[] = "00000000000000000000000000000000";
	static const char mapped[] = "0000000000000000FFFF00000100007F";
	if (size == 8)
		return memcmp(address, any6, 8) == 0 || memcmp(address, "0100007F", 8) == 0;
	return size == 32 && (memcmp(address, any6, 32) == 0 || memcmp(address, mapped, 32) == 0);
}

uint16_t ports_of_line(const char *line)
{
	char address[40];
	unsigned port, state;
	if (sscanf(line, " %*u: %39[0-9A-F]:%4x %*[0-9A-F]:%*x %2x", address, &port, &state) != 3 ||
		state != LISTENING || port == 0 || !serves_loopback(address, strlen(address)))
		return 0;
	return (uint16_t)port;
}

void ports_add(struct inside_ports_answer *answer, uint16_t port)
{
	uint32_t at = answer->count;
	while (at > 0 && answer->ports[at - 1] >= port)
		at--;
	if (at < answer->count && answer->ports[at] == port)
		return;
	if (at == INSIDE_PORTS_LIMIT)
		return;
	if (answer->count < INSIDE_PORTS_LIMIT)
		answer->count++;
	memmove(&answer->ports[at + 1], &answer->ports[at],
		(answer->count - at - 1) * sizeof(answer->ports[0]));
	answer->ports[at] = port;
}

static bool read_table(struct inside_ports_answer *answer, const char *path)
{
	FILE *table = fopen(path, "re");
	char line[TABLE_LINE];
	if (!table)
		return errno == ENOENT; /* no such protocol here */
	while (fgets(line, sizeof(line), table)) {
		uint16_t port = ports_of_line(line);
		if (port)
			ports_add(answer, port);
	}
	bool is_read = !ferror(table);
	fclose(table);
	return is_read;
}

void ports_serve(int answer_fd)
{
	struct inside_ports_answer answer = { 0 };
	if (!read_table(&answer, "/proc/self/net/tcp") ||
		!read_table(&answer, "/proc/self/net/tcp6"))
		answer.error = INSIDE_FAILED;
	send(answer_fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int connect_to(uint16_t port, int *ret_error)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
			       errno == EINPROGRESS))
		return fd;
	*ret_error = errno;
	fd_close(&fd);
	return -1;
}

void ports_connect(int answer_fd, uint32_t port)
{
	struct inside_handover handover = { .os_error = EINVAL };
	cleanup_close int fd = -1;
	if (port >= 1 && port <= UINT16_MAX)
		fd = connect_to((uint16_t)port, &handover.os_error);
	if (fd >= 0)
		handover.os_error = 0;
	wire_send(answer_fd, &handover, sizeof(handover), &fd, fd >= 0 ? 1 : 0, NULL);
}
