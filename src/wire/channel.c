/* See channel.h. */
#include "wire/channel.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

bool wire_pair(int ret_ends[2], struct error *err)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_ends) < 0)
		return error_from_os(err, errno, "cannot make a socket pair");
	return true;
}

bool wire_send(int fd, const void *bytes, size_t size, const int *fds, unsigned fd_count,
	struct error *err)
{
	union {
		char bytes[CMSG_SPACE(WIRE_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec part = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	if (fd_count > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
	}
	ssize_t n = TEMP_FAILURE_RETRY(sendmsg(fd, &message, MSG_NOSIGNAL));
	if (n < 0)
		return error_from_os(err, errno, "cannot send a message");
	return true;
}

static void take_descriptors(struct wire_packet *packet, struct msghdr *message)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
		header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
			if (packet->fd_count < WIRE_FDS)
				packet->fds[packet->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

enum wire_result wire_receive(int fd, struct wire_packet *packet, struct error *err)
{
	union {
		char bytes[CMSG_SPACE(WIRE_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	packet->size = 0;
	packet->fd_count = 0;
	struct iovec part = { .iov_base = packet->bytes, .iov_len = sizeof(packet->bytes) };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes) };
	ssize_t n = TEMP_FAILURE_RETRY(recvmsg(fd, &message, MSG_CMSG_CLOEXEC));
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return WIRE_NOTHING;
	if (n < 0 && errno == ECONNRESET)
		return WIRE_CLOSED;
	if (n < 0) {
		error_from_os(err, errno, "cannot receive a message");
		return WIRE_BAD;
	}
	take_descriptors(packet, &message);
	/* An empty packet looks like a hang-up, but may bring descriptors. */
	if (n == 0 && packet->fd_count == 0)
		return WIRE_CLOSED;
	packet->size = (size_t)n;
	if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
		packet->size < sizeof(struct wire_header)) {
		error_set(err, ERROR_PROTOCOL, "a message was cut or too short");
		wire_packet_deinit(packet);
		return WIRE_BAD;
	}
	return WIRE_GOT;
}

void wire_packet_deinit(struct wire_packet *packet)
{
	for (unsigned i = 0; i < packet->fd_count; i++)
		fd_close(&packet->fds[i]);
	packet->fd_count = 0;
}

int wire_packet_take(struct wire_packet *packet, unsigned index)
{
	return index < packet->fd_count ? fd_take(&packet->fds[index]) : -1;
}
