/*
 * _sandglass: the C side of the Python zygote and of the kernels it makes.
 *
 * park(fd) is where a warmed Python stops being Python: a loop in C that takes requests from the warden
 * and clones itself into sandboxes that stand ready. It returns only in a child, which by then has joined
 * the sandbox's namespaces and lost every power; what it returns is the number of cores of the share, and
 * whether somebody waits.
 *
 * Why raw clone3 and not fork: CLONE_PARENT makes the warden the kernel's parent, and no Python hook
 * runs in the zygote. What fork() of the C library would have mended is mended here: the thread id in
 * the thread's control block (set by the kernel at the address that PR_GET_TID_ADDRESS tells) and the
 * robust list.
 *
 * A kernel of another language is the same child: inside and locked down, it executes that language's runner
 * in place of returning.
 */
#include "print.h" /* Python's headers come first */

#include "base/fd.h"
#include "base/kernel.h"
#include "jail/cgroup.h"
#include "jail/environment.h"
#include "jail/lockdown.h"
#include "jail/process.h"
#include "jail/seccomp.h"
#include "wire/nursery.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define SETTLED_NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define REQUEST_FDS 4
#define RUNNERS "/usr/lib/sandglass/"

/* What a child needs, fetched in the zygote: after clone the less is done the better. */
struct zygote {
	int control_fd, own_pid_namespace;
	void *tid_address;
	void *robust_head;
	size_t robust_size;
};

/* Descriptors 0 /dev/null, 1 and 2 the pipes, 3 the socket; 4 stays the sandbox's pidfd for now. */
static bool arrange_descriptors(const int *fds, struct error *err)
{
	const int keep[] = { fds[1], fds[0], fds[2], fds[3] };
	if (!process_keep_descriptors(keep, ARRAY_SIZE(keep), err))
		return false;
	if (dup2(5, 1) < 0 || dup2(6, 2) < 0)
		return error_from_os(err, errno, "cannot place the output pipes");
	close(5);
	close(6);
	return true;
}

static bool join_sandbox(struct error *err)
{
	if (setns(4, SETTLED_NAMESPACES) < 0)
		return error_from_os(err, errno, "cannot join the sandbox");
	close(4);
	if (setsid() < 0)
		return error_from_os(err, errno, "cannot start a session");
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return error_from_os(err, errno, "cannot leave the keyring");
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool is_placed = null == 0 ? fcntl(0, F_SETFD, 0) == 0
				   : null > 0 && dup2(null, 0) == 0 && close(null) == 0;
	if (!is_placed)
		return error_from_os(err, errno, "cannot open /dev/null");
	if (chdir("/workspace") < 0)
		return error_from_os(err, errno, "cannot enter /workspace");
	return lockdown_oom_score(err);
}

static _Noreturn void execute_runner(uint32_t language)
{
	static char *const runners[][4] = {
		[LANGUAGE_BASH] = { RUNNERS "bash/sandglass-bash-runner", RUNNERS "bash/setup.sh" },
		[LANGUAGE_NODE] = { RUNNERS "node/sandglass-node-runner", "/usr/bin/node",
			RUNNERS "node/runner.js" },
	};
	if (language < ARRAY_SIZE(runners)) {
		lockdown_signals(); /* Python ignores some, and that would be inherited */
		execve(runners[language][0], runners[language],
			environment_with_image(user_environment));
	}
	dprintf(2, "cannot execute the language's runner: %s", strerror(errno));
	_exit(74);
}

/* The child's way in. On failure it says why on its stderr pipe, which only the warden reads yet. */
static void enter_or_exit(const struct zygote *zygote, const struct wire_packet *groups,
	const struct wire_packet *packet, const struct nursery_kernel_request *request)
{
	struct error err = { 0 };
	syscall(SYS_set_robust_list, zygote->robust_head, zygote->robust_size);
	close(0);
	bool is_in = cgroup_enter(groups->fds, groups->fd_count, &err) &&
		     arrange_descriptors(packet->fds, &err) && join_sandbox(&err) &&
		     lockdown_user(request->degraded, &err) && lockdown_dumpable(&err);
	if (!is_in) {
		dprintf(2, "%s", err.message);
		_exit(70);
	}
	if (request->language == LANGUAGE_PYTHON)
		PyOS_AfterFork_Child();
	if (!seccomp_apply(&err)) {
		dprintf(2, "%s", err.message);
		_exit(71);
	}
	if (request->language != LANGUAGE_PYTHON)
		execute_runner(request->language);
}

/* Clones into the sandbox. 0: in the child, settled. */
static pid_t make_kernel(const struct zygote *zygote, const struct wire_packet *groups,
	const struct wire_packet *packet, const struct nursery_kernel_request *request)
{
	struct kernel_clone_args args = {
		.flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
		.child_tid = (uint64_t)(uintptr_t)zygote->tid_address,
	};
	if (setns(packet->fds[0], CLONE_NEWPID) < 0)
		return -1;
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		enter_or_exit(zygote, groups, packet, request);
		return 0;
	}
	int clone_errno = errno;
	if (setns(zygote->own_pid_namespace, CLONE_NEWPID) < 0)
		_exit(72); /* it would make the next kernel in the wrong sandbox */
	errno = clone_errno;
	return (pid_t)pid;
}

static void answer(const struct zygote *zygote, uint32_t serial, pid_t pid, int os_error)
{
	struct nursery_kernel_answer message = {
		.serial = serial, .pid = MAX(pid, 0), .os_error = os_error
	};
	if (!wire_send(zygote->control_fd, &message, sizeof(message), NULL, 0, NULL))
		_exit(0); /* no warden, no zygote */
}

/* One of the two packets of a request; the warden sends nothing else. */
static void receive(const struct zygote *zygote, struct wire_packet *packet, size_t size)
{
	if (wire_receive(zygote->control_fd, packet, NULL) != WIRE_GOT)
		_exit(0);
	if (packet->size != size)
		_exit(73);
}

/* Serves the warden; returns in a child, with what was asked of it. */
static void serve(struct zygote *zygote, struct nursery_kernel_request *ret_request)
{
	for (;;) {
		struct wire_packet groups, packet;
		struct nursery_kernel_groups first;
		receive(zygote, &groups, sizeof(first));
		receive(zygote, &packet, sizeof(*ret_request));
		memcpy(&first, groups.bytes, sizeof(first));
		memcpy(ret_request, packet.bytes, sizeof(*ret_request));
		if (groups.fd_count == 0 || packet.fd_count != REQUEST_FDS ||
			first.serial != ret_request->serial)
			_exit(73);
		pid_t pid = make_kernel(zygote, &groups, &packet, ret_request);
		if (pid == 0)
			return;
		int os_error = pid < 0 ? errno : 0;
		wire_packet_deinit(&groups);
		wire_packet_deinit(&packet);
		answer(zygote, ret_request->serial, pid, os_error);
	}
}

static unsigned count_threads(void)
{
	unsigned count = 0;
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

static bool prepare(struct zygote *zygote, struct error *err)
{
	if (count_threads() != 1)
		return error_set(err, ERROR_INTERNAL, "the zygote has more than one thread");
	zygote->own_pid_namespace = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	if (zygote->own_pid_namespace < 0)
		return error_from_os(err, errno, "cannot open the own pid namespace");
	if (prctl(PR_GET_TID_ADDRESS, &zygote->tid_address, 0, 0, 0) < 0)
		return error_from_os(err, errno, "cannot find the thread's id");
	if (syscall(SYS_get_robust_list, 0, &zygote->robust_head, &zygote->robust_size) < 0)
		return error_from_os(err, errno, "cannot find the robust list");
	uint64_t power = LOCKDOWN_CAP(CAP_SYS_ADMIN);
	return lockdown_not_dumpable(err) && lockdown_capabilities(power, power, err);
}

static PyObject *park(PyObject *module, PyObject *arguments)
{
	struct zygote zygote = { 0 };
	struct error err = { 0 };
	if (!PyArg_ParseTuple(arguments, "i", &zygote.control_fd))
		return NULL;
	if (!prepare(&zygote, &err)) {
		PyErr_SetString(PyExc_OSError, err.message);
		return NULL;
	}
	answer(&zygote, 0, 0, 0);
	struct nursery_kernel_request request;
	serve(&zygote, &request);
	return Py_BuildValue("(II)", request.cpus, request.is_standby);
}

static PyObject *flush_stdio(PyObject *module, PyObject *arguments)
{
	fflush(NULL);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "park", park, METH_VARARGS,
		"park(fd) -> (int, int)\n\nServe the warden on fd; returns in a new kernel only: the "
		"cores of its share, and whether it is made ahead of time." },
	{ "flush_stdio", flush_stdio, METH_NOARGS, "Write out what the C library holds back." },
	{ "print_to", print_to, METH_VARARGS,
		"print_to(out, err)\n\nprint() writes to these streams what a call prints at once." },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_sandglass",
	.m_doc = "The C side of zygote and kernel.",
	.m_size = 0,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__sandglass(void);

/* While Python warms, the one capability it was left lies idle: park() raises it. */
PyMODINIT_FUNC PyInit__sandglass(void)
{
	lockdown_capabilities(LOCKDOWN_CAP(CAP_SYS_ADMIN), 0, NULL);
	return PyModule_Create(&definition);
}
