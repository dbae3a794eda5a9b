/* Filters of system calls: one of the user's own must loosen nothing. */
#include "probe.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct own_filter {
	uint32_t action; /* for the one call */
	unsigned flags;
	uint32_t number;
	size_t denied; /* which of the denied calls it is */
};

static long install(const struct own_filter *own)
{
	struct sock_filter instructions[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own->number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, own->action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(instructions), .filter = instructions };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, own->flags, &program);
}

static const char *const denied_calls[] = { "unshare", "ptrace", "mount", "setns", "AF_ALG",
	"keyctl" };

/* Returns the errno of a call that the walls deny. */
static int denied(size_t which)
{
	long result = -1;
	errno = 0;
	switch (which) {
	case 0:
		result = unshare(CLONE_NEWUSER);
		break;
	case 1:
		result = syscall(SYS_ptrace, 3 /* PEEKUSER */, 0, 0, 0);
		break;
	case 2:
		result = syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
		break;
	case 3:
		result = syscall(SYS_setns, 0, 0);
		break;
	case 4:
		result = socket(38, SOCK_SEQPACKET, 0);
		break;
	case 5:
		result = syscall(SYS_keyctl, 0, -3, 0);
		break;
	}
	return result < 0 ? errno : 0;
}

static void report_denied(const char *key)
{
	json_open(key, '{');
	for (size_t i = 0; i < ARRAY_SIZE(denied_calls); i++)
		json_text(denied_calls[i], errno_name(denied(i)));
	json_close('}');
}

static void *denied_in_thread(void *key)
{
	report_denied(key);
	return NULL;
}

static int run_denied(int argc, char **argv)
{
	json_open(NULL, '{');
	report_denied("exec");
	json_close('}');
	return 0;
}

/* In a child, since it keeps its filter: the denied calls here and in a thread. */
static void loosened_child(void)
{
	static const struct own_filter allow = { .action = SECCOMP_RET_ALLOW };
	json_open("after own filter", '{');
	report("install", install(&allow));
	report_denied("same process");
	pthread_t thread;
	static char key[] = "new thread";
	if (pthread_create(&thread, NULL, denied_in_thread, key) == 0)
		pthread_join(thread, NULL);
	json_close('}');
}

static void in_child(void (*run)(void))
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		run();
		fflush(stdout);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static long install_only(const void *argument)
{
	return install(argument);
}

static long install_and_call(const void *argument)
{
	const struct own_filter *own = argument;
	if (install(own) < 0)
		return -1;
	int error = denied(own->denied);
	errno = error;
	return error ? -1 : 0;
}

static void try_action(const char *key, uint32_t action)
{
	static const uint32_t numbers[] = { SYS_unshare, SYS_ptrace, SYS_mount, SYS_setns,
		SYS_socket, SYS_keyctl };
	json_open(key, '{');
	for (size_t i = 0; i < ARRAY_SIZE(denied_calls); i++) {
		struct own_filter own = { .action = action, .number = numbers[i], .denied = i };
		try_forked(denied_calls[i], install_and_call, &own);
	}
	json_close('}');
}

static int run_seccomp_loosen(int argc, char **argv)
{
	static const struct own_filter listener = { SECCOMP_RET_ALLOW,
		SECCOMP_FILTER_FLAG_NEW_LISTENER };
	static const struct own_filter all_threads = { SECCOMP_RET_ALLOW,
		SECCOMP_FILTER_FLAG_TSYNC };
	json_open(NULL, '{');
	json_open("install", '{');
	try_forked("listener", install_only, &listener);
	try_forked("all threads", install_only, &all_threads);
	json_close('}');
	report_denied("before");
	in_child(loosened_child);
	try_action("ALLOW", SECCOMP_RET_ALLOW);
	try_action("TRACE", SECCOMP_RET_TRACE);
	try_action("USER_NOTIF", SECCOMP_RET_USER_NOTIF);
	try_action("LOG", SECCOMP_RET_LOG);
	json_close('}');
	return 0;
}

const struct probe_command filter_commands[] = {
	{ "denied", run_denied, "some calls that the walls deny" },
	{ "seccomp-loosen", run_seccomp_loosen, "the same calls after filters of our own" },
	{ 0 },
};
