/*
 * Pid 1 of a sandbox.
 *
 * It never does anything that may block: each request goes to a forked worker, which takes the
 * descriptors along and answers by itself; but a connection inside is begun here, without waiting.
 * What init remembers of a worker is its pid, to bound how many there are of each kind. So a file
 * system call that hangs, a client that does not read or a command that runs for a day hold up
 * nobody else, and init has no state that could go wrong.
 *
 * User code makes orphans as it likes; they are reaped with the rest. A request that is malformed
 * is dropped with its descriptors. When the control socket hangs up, the sandbox goes on without
 * one: its end is the warden's business.
 */
#include "init/serve.h"

#include "base/fd.h"
#include "init/child.h"
#include "init/command.h"
#include "init/files.h"
#include "init/ports.h"
#include "init/request.h"
#include "init/tree.h"
#include "loop/loop.h"
#include "wire/channel.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define WORKERS_A_KIND 128
#define WORKERS (REQUEST_KINDS * WORKERS_A_KIND)

struct worker {
	pid_t pid; /* 0: free */
	enum request_kind kind;
};

struct server {
	const struct serve_config *config; /* not owned */
	struct loop loop;
	struct loop_source control, signals;
	int signal_fd; /* owned */
	struct worker workers[WORKERS];
	unsigned live[REQUEST_KINDS];
};

/* ---- workers ---- */

/* The packet's descriptors and, for a command, the cgroups' are all that is left open. */
static void keep_own_descriptors(
	const struct server *server, const struct wire_packet *packet, enum request_kind kind)
{
	int keep[WIRE_FDS + SERVE_CGROUPS];
	unsigned count = 0;
	for (unsigned i = 0; i < packet->fd_count; i++)
		keep[count++] = packet->fds[i];
	for (unsigned i = 0; kind == REQUEST_COMMAND && i < server->config->cgroup_count; i++)
		keep[count++] = server->config->cgroup_fds[i];
	if (!child_keep_only(keep, count))
		_exit(1);
}

static _Noreturn void work(const struct server *server, struct wire_packet *packet,
	const struct inside_request *request, enum request_kind kind)
{
	const struct serve_config *config = server->config;
	keep_own_descriptors(server, packet, kind);
	switch (kind) {
	case REQUEST_COMMAND:
		command_serve(config, request, packet->fds);
		break;
	case REQUEST_FILES:
		if (!child_act_as_user(config->user_uid, config->user_gid))
			_exit(1);
		if (request->op == INSIDE_PORTS)
			ports_serve(packet->fds[0]);
		else
			files_serve(request, packet->fds[0], config->stall_ms);
		break;
	case REQUEST_SWEEP:
		tree_kill_session((pid_t)request->session);
		break;
	case REQUEST_CONNECT:
	case REQUEST_KINDS:
		break;
	}
	_exit(0);
}

static void remember(struct server *server, pid_t pid, enum request_kind kind)
{
	server->live[kind]++;
	for (size_t i = 0; i < WORKERS; i++)
		if (server->workers[i].pid == 0) {
			server->workers[i] = (struct worker){ .pid = pid, .kind = kind };
			return;
		}
}

static void forget(struct server *server, pid_t pid)
{
	for (size_t i = 0; i < WORKERS; i++)
		if (server->workers[i].pid == pid) {
			server->live[server->workers[i].kind]--;
			server->workers[i].pid = 0;
			return;
		}
}

/* No process for it. A sweep has nobody to tell, so it is made here, without waiting. */
static void refuse(const struct wire_packet *packet, const struct inside_request *request,
	enum request_kind kind)
{
	const struct inside_command_answer command = { .start_error = EAGAIN };
	const struct inside_handover handover = { .os_error = EAGAIN };
	const struct inside_file_answer file = { .error = INSIDE_BUSY, .os_error = EAGAIN };
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	static const struct inside_ports_answer ports = { .error = INSIDE_BUSY };
	if (request->op == INSIDE_TERMINAL)
		send(packet->fds[0], &handover, sizeof(handover), flags);
	else if (request->op == INSIDE_PORTS)
		send(packet->fds[0], &ports, sizeof(ports), flags);
	else if (kind == REQUEST_COMMAND)
		send(packet->fds[0], &command, sizeof(command), flags);
	else if (kind == REQUEST_FILES)
		send(packet->fds[0], &file, sizeof(file), flags);
	else
		tree_kill_session_once((pid_t)request->session);
}

static void handle(struct server *server, struct wire_packet *packet)
{
	enum request_kind kind;
	const struct inside_request *request =
		request_check(packet->bytes, packet->size, packet->fd_count, &kind);
	if (!request)
		return;
	if (kind == REQUEST_CONNECT)
		return ports_connect(packet->fds[0], request->port);
	pid_t pid = server->live[kind] < WORKERS_A_KIND ? fork() : -1;
	if (pid == 0)
		work(server, packet, request, kind);
	if (pid > 0)
		remember(server, pid, kind);
	else
		refuse(packet, request, kind);
}

/* ---- the loop ---- */

static void server_on_request(struct loop_source *source, uint32_t events)
{
	struct server *server = CONTAINER_OF(source, struct server, control);
	struct error err = { 0 };
	struct wire_packet packet;
	enum wire_result result = wire_receive(source->fd, &packet, &err);
	if (result == WIRE_GOT) {
		handle(server, &packet);
		wire_packet_deinit(&packet);
	}
	/* An empty packet looks like the end, too. */
	if (result == WIRE_CLOSED && events & (EPOLLHUP | EPOLLRDHUP))
		loop_forget(source);
}

static void server_on_child(struct loop_source *source, uint32_t events)
{
	struct server *server = CONTAINER_OF(source, struct server, signals);
	struct signalfd_siginfo info[16];
	while (read(source->fd, info, sizeof(info)) > 0)
		;
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
		forget(server, pid);
}

static bool server_init(struct server *server, struct error *err)
{
	const struct serve_config *config = server->config;
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (config->cgroup_count > SERVE_CGROUPS || !fd_set_nonblocking(config->control_fd, true))
		return error_set(err, ERROR_INTERNAL, "cannot use the descriptors given to init");
	if (!loop_init(&server->loop, err))
		return false;
	server->signal_fd = loop_signal_fd(&signals, err);
	return server->signal_fd >= 0 &&
	       loop_watch(&server->loop, &server->signals, server->signal_fd, EPOLLIN,
		       server_on_child, err) &&
	       loop_watch(&server->loop, &server->control, config->control_fd, EPOLLIN | EPOLLRDHUP,
		       server_on_request, err);
}

bool serve(const struct serve_config *config, struct error *err)
{
	static struct server server; /* too large for a stack, and one to a process */
	server = (struct server){ .config = config, .signal_fd = -1, .loop.epoll_fd = -1 };
	bool is_done = server_init(&server, err) && loop_run(&server.loop, err);
	loop_deinit(&server.loop);
	fd_close(&server.signal_fd);
	return is_done;
}
