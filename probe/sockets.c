/* Sockets: families, protocols, options, netlink, and odd ways of sending. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LAST_FAMILY 46

struct triple {
	int family, type, protocol;
};

/* Without a child: an open socket is simply closed again; a signal would end the probe and be seen.
 */
static int open_errno(int (*make)(const struct triple *), const struct triple *triple)
{
	errno = 0;
	int fd = make(triple);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int make_socket(const struct triple *t)
{
	return socket(t->family, t->type, t->protocol);
}

static int make_pair(const struct triple *t)
{
	int ends[2];
	if (socketpair(t->family, t->type, t->protocol, ends) < 0)
		return -1;
	close(ends[1]);
	return ends[0];
}

static void walk_sockets(const char *key, int (*make)(const struct triple *))
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET,
		SOCK_DCCP, SOCK_PACKET };
	static const int protocols[] = { 0, 1, 2, 3, 6, 17, 33, 41, 46, 47, 50, 51, 58, 103, 115,
		132, 136, 143, 255, 256, 262 };
	int refusals[256] = { 0 };
	json_open(key, '{');
	json_open("opens", '[');
	for (int family = 0; family <= LAST_FAMILY; family++) {
		for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
			for (size_t p = 0; p < ARRAY_SIZE(protocols); p++) {
				struct triple triple = { family, types[t], protocols[p] };
				int error = open_errno(make, &triple);
				if (error)
					refusals[error & 255]++;
				else
					json_format(
						NULL, "%d %d %d", family, types[t], protocols[p]);
			}
		}
	}
	json_close(']');
	json_open("refused", '{');
	for (int error = 1; error < 256; error++) {
		if (refusals[error])
			json_number(errno_name(error), refusals[error]);
	}
	json_close('}');
	json_close('}');
}

static long open_triple(const void *argument)
{
	return make_socket(argument);
}

static void try_named(void)
{
	static const struct {
		const char *name;
		struct triple triple;
	} named[] = {
		{ "ALG", { 38, SOCK_SEQPACKET, 0 } },
		{ "RXRPC", { 33, SOCK_DGRAM, 2 } },
		{ "RDS", { 21, SOCK_SEQPACKET, 0 } },
		{ "VSOCK", { 40, SOCK_STREAM, 0 } },
		{ "TIPC", { 30, SOCK_RDM, 0 } },
		{ "KEY", { 15, SOCK_RAW, 2 } },
		{ "SMC", { 43, SOCK_STREAM, 0 } },
		{ "XDP", { 44, SOCK_RAW, 0 } },
		{ "CAN", { 29, SOCK_RAW, 1 } },
		{ "QIPCRTR", { 42, SOCK_DGRAM, 0 } },
		{ "PACKET", { 17, SOCK_RAW, 0x300 } },
		{ "BLUETOOTH", { 31, SOCK_RAW, 1 } },
		{ "NFC", { 39, SOCK_SEQPACKET, 0 } },
		{ "AX25", { 3, SOCK_DGRAM, 0 } },
		{ "MPTCP", { AF_INET, SOCK_STREAM, 262 } },
		{ "SCTP", { AF_INET, SOCK_STREAM, 132 } },
		{ "UDPLITE", { AF_INET, SOCK_DGRAM, 136 } },
		{ "ICMP", { AF_INET, SOCK_DGRAM, 1 } },
		{ "RAW", { AF_INET, SOCK_RAW, 1 } },
		{ "RAW 255", { AF_INET, SOCK_RAW, 255 } },
		{ "ICMPv6", { AF_INET6, SOCK_DGRAM, 58 } },
		{ "RAW6", { AF_INET6, SOCK_RAW, 58 } },
	};
	json_open("named", '{');
	for (size_t i = 0; i < ARRAY_SIZE(named); i++)
		try(named[i].name, open_triple, &named[i].triple);
	json_close('}');
}

static int run_sockets(int argc, char **argv)
{
	json_open(NULL, '{');
	walk_sockets("socket", make_socket);
	walk_sockets("socketpair", make_pair);
	try_named();
	json_close('}');
	return 0;
}

/* ---- options ---- */
struct socket_option {
	const char *name;
	int family, type, level, option;
	const char *value;
	socklen_t size;
};

static long set_option(const void *argument)
{
	const struct socket_option *o = argument;
	int fd = socket(o->family, o->type, 0);
	return fd < 0 ? -1 : setsockopt(fd, o->level, o->option, o->value, o->size);
}

static int run_setsockopt(int argc, char **argv)
{
	static char zeros[512], one[4] = { 1 };
	static struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, 0xffff) };
	static struct sock_fprog program = { 1, all };
	const struct socket_option options[] = {
		{ "TCP_ULP tls", AF_INET, SOCK_STREAM, IPPROTO_TCP, 31, "tls", 3 },
		{ "TCP_ULP espintcp", AF_INET, SOCK_STREAM, IPPROTO_TCP, 31, "espintcp", 8 },
		{ "TCP_ULP smc", AF_INET, SOCK_STREAM, IPPROTO_TCP, 31, "smc", 3 },
		{ "SO_ATTACH_FILTER", AF_INET, SOCK_DGRAM, SOL_SOCKET, 26, (char *)&program,
			sizeof(program) },
		{ "SO_ATTACH_BPF", AF_INET, SOCK_DGRAM, SOL_SOCKET, 50, zeros, 4 },
		{ "SO_ATTACH_REUSEPORT_CBPF", AF_INET, SOCK_DGRAM, SOL_SOCKET, 51, (char *)&program,
			sizeof(program) },
		{ "SO_ATTACH_REUSEPORT_EBPF", AF_INET, SOCK_DGRAM, SOL_SOCKET, 52, zeros, 4 },
		{ "SO_ZEROCOPY", AF_INET, SOCK_STREAM, SOL_SOCKET, 60, one, 4 },
		{ "IP_IPSEC_POLICY", AF_INET, SOCK_DGRAM, IPPROTO_IP, 16, zeros, 168 },
		{ "IP_XFRM_POLICY", AF_INET, SOCK_DGRAM, IPPROTO_IP, 17, zeros, 168 },
		{ "IPV6_IPSEC_POLICY", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, 34, zeros, 168 },
		{ "IPV6_XFRM_POLICY", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, 35, zeros, 168 },
		{ "IPT_SO_SET_REPLACE", AF_INET, SOCK_DGRAM, IPPROTO_IP, 64, zeros, 96 },
		{ "IPT_SO_SET_ADD_COUNTERS", AF_INET, SOCK_DGRAM, IPPROTO_IP, 65, zeros, 96 },
		{ "ARPT_SO_SET_REPLACE", AF_INET, SOCK_DGRAM, IPPROTO_IP, 96, zeros, 96 },
		{ "EBT_SO_SET_ENTRIES", AF_INET, SOCK_DGRAM, IPPROTO_IP, 128, zeros, 96 },
		{ "IP6T_SO_SET_REPLACE", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, 64, zeros, 96 },
		{ "SO_REUSEADDR", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_REUSEADDR, one, 4 },
		{ "SO_KEEPALIVE", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_KEEPALIVE, one, 4 },
		{ "TCP_NODELAY", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_NODELAY, one, 4 },
		{ "IPV6_V6ONLY", AF_INET6, SOCK_STREAM, IPPROTO_IPV6, IPV6_V6ONLY, one, 4 },
	};
	json_open(NULL, '{');
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		try(options[i].name, set_option, &options[i]);
	json_close('}');
	return 0;
}

/* ---- out-of-band bytes on unix sockets, and splices ---- */
static long send_oob(const void *argument)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return -1;
	return send(ends[0], "x", 1, MSG_OOB);
}

static long sendmsg_oob(const void *argument)
{
	int ends[2];
	struct iovec bytes = { (char[]){ "x" }, 1 };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return -1;
	return sendmsg(ends[0], &message, MSG_OOB);
}

static long sendmmsg_oob(const void *argument)
{
	int ends[2];
	struct iovec bytes = { (char[]){ "x" }, 1 };
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &bytes, .msg_iovlen = 1 } };
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return -1;
	return sendmmsg(ends[0], &message, 1, MSG_OOB);
}

static long receive_oob(const void *argument)
{
	char byte;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return -1;
	return recv(ends[0], &byte, 1, MSG_OOB | MSG_DONTWAIT);
}

static long splice_to_socket(const void *argument)
{
	int ends[2], pipe_ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || pipe(pipe_ends) < 0)
		return -1;
	if (write(pipe_ends[1], "x", 1) != 1)
		return -1;
	return splice(pipe_ends[0], NULL, ends[0], NULL, 1, 0);
}

static long vmsplice_pages(const void *argument)
{
	int ends[2];
	struct iovec bytes = { (char[]){ "x" }, 1 };
	return pipe(ends) < 0 ? -1 : vmsplice(ends[1], &bytes, 1, 0);
}

static long tee_pipe(const void *argument)
{
	int from[2], to[2];
	if (pipe(from) < 0 || pipe(to) < 0 || write(from[1], "x", 1) != 1)
		return -1;
	return tee(from[0], to[1], 1, 0);
}

static int run_sending(int argc, char **argv)
{
	json_open(NULL, '{');
	try("send OOB", send_oob, NULL);
	try("sendmsg OOB", sendmsg_oob, NULL);
	try("sendmmsg OOB", sendmmsg_oob, NULL);
	try("recv OOB", receive_oob, NULL);
	try("vmsplice", vmsplice_pages, NULL);
	try("tee", tee_pipe, NULL);
	try("splice to socket", splice_to_socket, NULL);
	json_close('}');
	return 0;
}

/* ---- netlink ---- */
struct change {
	struct nlmsghdr head;
	char body[256];
};

/* Sends one request and returns the kernel's answer as errno. */
static long ask(struct change *change)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[512];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -1;
	change->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, change, change->head.nlmsg_len, 0) < 0)
		return -1;
	ssize_t n = recv(fd, &answer, sizeof(answer), 0);
	close(fd);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(answer.error)) ||
		answer.head.nlmsg_type != NLMSG_ERROR)
		return 0;
	errno = -answer.error.error;
	return errno ? -1 : 0;
}

static void put_attribute(struct change *change, uint16_t type, const void *value, uint16_t size)
{
	struct rtattr *attribute =
		(struct rtattr *)((char *)change + NLMSG_ALIGN(change->head.nlmsg_len));
	attribute->rta_type = type;
	attribute->rta_len = (uint16_t)RTA_LENGTH(size);
	memcpy(RTA_DATA(attribute), value, size);
	change->head.nlmsg_len =
		NLMSG_ALIGN(change->head.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
}

static long link_down(const void *argument)
{
	struct change change = { .head = { .nlmsg_type = RTM_NEWLINK,
					 .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)) } };
	struct ifinfomsg link = { .ifi_index = 1, .ifi_change = IFF_UP };
	memcpy(change.body, &link, sizeof(link));
	return ask(&change);
}

static long link_add(const void *argument)
{
	struct change change = { .head = { .nlmsg_type = RTM_NEWLINK,
					 .nlmsg_flags = NLM_F_CREATE,
					 .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)) } };
	put_attribute(&change, 3 /* name */, "probe0", 7);
	return ask(&change);
}

static long address_add(const void *argument)
{
	struct change change = { .head = { .nlmsg_type = RTM_NEWADDR,
					 .nlmsg_flags = NLM_F_CREATE,
					 .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)) } };
	struct ifaddrmsg address = { .ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = 1 };
	struct in_addr value = { htonl(0x0a010203) };
	memcpy(change.body, &address, sizeof(address));
	put_attribute(&change, 2 /* local */, &value, sizeof(value));
	return ask(&change);
}

static long route_add(const void *argument)
{
	struct change change = { .head = { .nlmsg_type = RTM_NEWROUTE,
					 .nlmsg_flags = NLM_F_CREATE,
					 .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)) } };
	struct rtmsg route = {
		.rtm_family = AF_INET, .rtm_table = 254, .rtm_protocol = 3, .rtm_type = 1
	};
	int index = 1;
	memcpy(change.body, &route, sizeof(route));
	put_attribute(&change, 4 /* output interface */, &index, sizeof(index));
	return ask(&change);
}

static long qdisc_add(const void *argument)
{
	struct change change = { .head = { .nlmsg_type = RTM_NEWQDISC,
					 .nlmsg_flags = NLM_F_CREATE,
					 .nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)) } };
	struct tcmsg qdisc = { .tcm_ifindex = 1, .tcm_parent = 0xffffffff };
	memcpy(change.body, &qdisc, sizeof(qdisc));
	put_attribute(&change, 1 /* kind */, "pfifo", 6);
	return ask(&change);
}

static long netlink_protocol(const void *argument)
{
	return socket(AF_NETLINK, SOCK_RAW, (int)*(const long *)argument);
}

static int run_netlink(int argc, char **argv)
{
	struct if_nameindex *links = if_nameindex();
	json_open(NULL, '{');
	json_open("protocols", '{');
	for (long protocol = 0; protocol <= 22; protocol++) {
		char name[32];
		snprintf(name, sizeof(name), "%ld", protocol);
		try(name, netlink_protocol, &protocol);
	}
	json_close('}');
	json_open("links", '[');
	for (struct if_nameindex *link = links; link && link->if_index; link++)
		json_text(NULL, link->if_name);
	json_close(']');
	json_open("changes", '{');
	try("link down", link_down, NULL);
	try("link add", link_add, NULL);
	try("address add", address_add, NULL);
	try("route add", route_add, NULL);
	try("qdisc add", qdisc_add, NULL);
	json_close('}');
	json_close('}');
	return 0;
}

/* ---- reaching somebody ---- */
struct place {
	const char *host, *port;
	int type;
};

static long connect_to(const void *argument)
{
	const struct place *place = argument;
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)atoi(place->port)) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = six.sin6_port };
	bool is_six = strchr(place->host, ':');
	if (inet_pton(is_six ? AF_INET6 : AF_INET, place->host,
		    is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr) != 1)
		return -1;
	int fd = socket(is_six ? AF_INET6 : AF_INET, place->type, 0);
	if (fd < 0)
		return -1;
	return is_six ? connect(fd, (struct sockaddr *)&six, sizeof(six))
		      : connect(fd, (struct sockaddr *)&four, sizeof(four));
}

static int run_connect(int argc, char **argv)
{
	json_open(NULL, '{');
	for (int i = 1; i + 1 < argc; i += 2) {
		struct place place = { argv[i], argv[i + 1], SOCK_STREAM };
		char name[128];
		snprintf(name, sizeof(name), "%s %s", argv[i], argv[i + 1]);
		try(name, connect_to, &place);
	}
	json_close('}');
	return 0;
}

/* An argument that begins with '@' is an abstract name. */
static long connect_unix(const void *argument)
{
	const char *name = argument;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t size = strlen(name);
	if (size >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, name, size);
	if (name[0] == '@')
		address.sun_path[0] = 0;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	return fd < 0 ? -1
		      : connect(fd, (struct sockaddr *)&address,
				(socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
}

static int run_connect_unix(int argc, char **argv)
{
	json_open(NULL, '{');
	for (int i = 1; i < argc; i++)
		try(argv[i], connect_unix, argv[i]);
	json_close('}');
	return 0;
}

const struct probe_command socket_commands[] = {
	{ "sockets", run_sockets,
		"families by types by protocols, and the ill-famed ones by name" },
	{ "setsockopt", run_setsockopt,
		"options that open odd parts of the kernel, and ordinary ones" },
	{ "sending", run_sending, "out-of-band bytes, vmsplice, tee, splice" },
	{ "netlink", run_netlink, "protocols, links, and changes to the network" },
	{ "connect", run_connect, "HOST PORT...: TCP connections" },
	{ "connect-unix", run_connect_unix, "NAME...: unix sockets by path or @abstract name" },
	{ 0 },
};
