/*
 * sandglassd: reads arguments and configuration, takes the state folder, opens the socket, finds
 * the templates, and supervises. See keeper.h.
 */
#include "base/fd.h"
#include "base/log.h"
#include "jail/ids.h"
#include "jail/landlock.h"
#include "jail/lockdown.h"
#include "keeper/keeper.h"

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

static const char usage[] =
	"usage: sandglassd --state DIR [--listen HOST:PORT] [--config FILE]\n"
	"\n"
	"  --state DIR         where everything is kept; made if missing\n"
	"  --listen HOST:PORT  default 127.0.0.1:8080; port 0 picks a free one\n"
	"  --config FILE       default DIR/sandglass.json, if there is one\n"
	"  --version           print the version\n"
	"\n"
	"Prints one line `ready http://HOST:PORT` once it serves; logs to stderr; ends on SIGTERM.\n";

struct arguments {
	const char *state, *listen, *config;
};

static int parse(int count, char **words, struct arguments *arguments)
{
	static const struct option options[] = { { "state", required_argument, NULL, 's' },
		{ "listen", required_argument, NULL, 'l' },
		{ "config", required_argument, NULL, 'c' }, { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' }, { 0 } };
	int option;
	while ((option = getopt_long(count, words, "h", options, NULL)) >= 0) {
		if (option == 's')
			arguments->state = optarg;
		else if (option == 'l')
			arguments->listen = optarg;
		else if (option == 'c')
			arguments->config = optarg;
		else if (option == 'v' || option == 'h') {
			fputs(option == 'v' ? SANDGLASS_VERSION "\n" : usage, stdout);
			return 0;
		} else {
			fputs(usage, stderr);
			return 2;
		}
	}
	if (!arguments->state || optind < count) {
		if (optind < count)
			fprintf(stderr, "sandglassd: '%s' is no option\n", words[optind]);
		else
			fputs("sandglassd: --state DIR is missing\n", stderr);
		fputs(usage, stderr);
		return 2;
	}
	return -1;
}

static bool find_own_folder(struct keeper *keeper, struct error *err)
{
	ssize_t n = readlink("/proc/self/exe", keeper->own_folder, sizeof(keeper->own_folder) - 1);
	if (n <= 0)
		return error_from_os(err, errno, "cannot find the own program");
	keeper->own_folder[n] = '\0';
	*strrchr(keeper->own_folder, '/') = '\0';
	return true;
}

static bool open_socket(struct keeper *keeper, const struct addrinfo *at, struct error *err)
{
	int on = 1;
	char host[128], port[16];
	struct sockaddr_storage bound;
	socklen_t size = sizeof(bound);
	keeper->listen_fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (keeper->listen_fd < 0)
		return error_from_os(err, errno, "cannot make a socket");
	setsockopt(keeper->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(keeper->listen_fd, at->ai_addr, at->ai_addrlen) < 0 ||
		listen(keeper->listen_fd, 1024) < 0 ||
		getsockname(keeper->listen_fd, (struct sockaddr *)&bound, &size) < 0) {
		error_from_os(err, errno, "cannot listen on %s:%u", keeper->config.listen_host,
			keeper->config.listen_port);
		return error_hint(
			err, "is another daemon there? --listen 127.0.0.1:0 picks a free port");
	}
	getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port, sizeof(port),
		NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(keeper->address, sizeof(keeper->address), strchr(host, ':') ? "[%s]:%s" : "%s:%s",
		host, port);
	return true;
}

static bool start_listening(struct keeper *keeper, struct error *err)
{
	char port[16], host[sizeof(keeper->config.listen_host)];
	struct addrinfo *found = NULL,
			hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	const char *name = keeper->config.listen_host;
	snprintf(host, sizeof(host), "%s", name[0] == '[' ? name + 1 : name);
	if (name[0] == '[')
		host[strcspn(host, "]")] = '\0';
	snprintf(port, sizeof(port), "%u", keeper->config.listen_port);
	int result = getaddrinfo(host, port, &hints, &found);
	if (result)
		return error_set(err, ERROR_CONFIG, "cannot find the address '%s': %s", host,
			gai_strerror(result));
	bool is_open = open_socket(keeper, found, err);
	freeaddrinfo(found);
	return is_open;
}

/* What the walls need of this host and what is cheap to ask beforehand; the rest is found missing
 * at the first use, which fails just as closed. */
static bool check_host(const struct keeper *keeper, struct error *err)
{
	if (geteuid() != 0)
		return error_set(
			err, ERROR_DEGRADED, "sandglassd has to be started as root so far");
	if (landlock_version() < 1 && !(keeper->config.degraded & LOCKDOWN_WITHOUT_LANDLOCK)) {
		error_set(err, ERROR_DEGRADED, "this kernel has no Landlock");
		return error_hint(err, "boot with lsm=landlock,..., or name \"landlock\" in "
				       "allow_degraded to do without this layer");
	}
	return true;
}

static bool enter_own_mounts(struct error *err)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		return error_from_os(err, errno, "cannot make a mount namespace");
	return true;
}

static bool run(struct keeper *keeper, const struct arguments *arguments, struct error *err)
{
	char path[PATH_MAX];
	const char *config = arguments->config;
	snprintf(path, sizeof(path), "%s/sandglass.json", arguments->state);
	if (!config && access(path, F_OK) == 0)
		config = path;
	fd_raise_limit();
	bool is_good =
		config_load(&keeper->config, config, err) &&
		(!arguments->listen ||
			config_set_listen(&keeper->config, arguments->listen, err)) &&
		check_host(keeper, err) && find_own_folder(keeper, err) &&
		ids_claim(&keeper->config.id_base, &keeper->state.ids_fd, err) &&
		state_open(
			&keeper->state, arguments->state, keeper->config.id_base + IDS_API, err) &&
		images_find(keeper, err) && enter_own_mounts(err) && start_listening(keeper, err) &&
		cgroup_tree_make(&keeper->cgroups,
			keeper->config.id_base + IDS_NURSERY + IDS_NURSERY_ROOT, err) &&
		guard_start(keeper, err) &&
		state_write_address(&keeper->state, keeper->address, err) && supervise(keeper, err);
	guard_end(keeper);
	cgroup_tree_remove(&keeper->cgroups);
	cgroup_tree_deinit(&keeper->cgroups);
	state_close(&keeper->state);
	config_deinit(&keeper->config);
	return is_good;
}

int main(int count, char **words)
{
	static struct keeper keeper = { .listen_fd = -1,
		.guard_fd = -1,
		.cgroups = CGROUP_TREE_NONE,
		.state = { .lock_fd = -1, .ids_fd = -1 },
		.warden = { .fd = -1 },
		.api = { .fd = -1 } };
	struct arguments arguments = { 0 };
	struct error err = { 0 };
	int status = parse(count, words, &arguments);
	if (status >= 0)
		return status;
	log_init("keeper", LOG_INFO);
	if (run(&keeper, &arguments, &err))
		return 0;
	log_error("keeper.ends", NULL, &err);
	fprintf(stderr, "sandglassd: %s\n", err.message);
	if (err.hint[0])
		fprintf(stderr, "  hint: %s\n", err.hint);
	return 1;
}
