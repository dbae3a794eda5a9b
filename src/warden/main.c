/*
 * sandglass-warden: exec'd by the keeper's child as root of the nursery's user namespace and pid 1
 * of its pid namespace, with the keeper's socket as descriptor 3. It leaves the host's tree at
 * once, and then only handles messages and child exits. Its end is the end of all below it, by the
 * kernel's own rule for pid 1.
 */
#include "base/fd.h"
#include "base/log.h"
#include "jail/lockdown.h"
#include "jail/mounts.h"
#include "jail/process.h"
#include "warden/sandbox.h"
#include "warden/template.h"
#include "warden/warden.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEPER_FD 3

/* Every child: inits, kernels, zygotes, and whatever was cloned onto us unasked. */
static void on_signals(struct loop_source *source, uint32_t events)
{
	struct warden *warden = CONTAINER_OF(source, struct warden, signals);
	struct signalfd_siginfo info;
	while (read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		if (pid <= 0)
			break;
		if (!template_on_exit(warden, pid, status))
			sandbox_on_exit(warden, pid, status);
	}
}

static bool warden_init(struct warden *warden, struct error *err)
{
	sigset_t signals;
	*warden = (struct warden){ .cgroups = CGROUP_TREE_NONE, .init_program = -1 };
	list_init(&warden->templates);
	list_init(&warden->sandboxes);
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	if (!loop_init(&warden->loop, err))
		return false;
	int fd = loop_signal_fd(&signals, err);
	return fd >= 0 &&
	       loop_watch(&warden->loop, &warden->signals, fd, EPOLLIN, on_signals, err) &&
	       keeper_link_start(warden, KEEPER_FD, err);
}

int main(void)
{
	struct error err = { 0 };
	static struct warden warden;
	log_init("warden", LOG_INFO);
	fd_raise_limit();
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0,
		0); /* again: becoming root of the nursery cleared it */
	if (!lockdown_not_dumpable(&err) || !process_keep_power(&err) ||
		!mounts_enter_nursery(&err) || !warden_init(&warden, &err) ||
		!loop_run(&warden.loop, &err)) {
		log_error("warden.ends", NULL, &err);
		return 1;
	}
	return 0; /* pid 1: the kernel ends everything below */
}
