/*
 * _sandglass: the C side of the Python zygote and of the kernels it makes.
 *
 * park(fd) is where a warmed Python stops being Python: a loop in C that takes requests from the warden
 * and clones itself into sandboxes that stand ready. It returns only in a child, which by then has joined
 * the sandbox's namespaces and lost every power; what it returns is the number of cores of the share, and
 * whether somebody waits.
 *
 * A zygote has no capability at all. What lets it into the sandboxes of its template, and into no other, is
 * its uid, which is the owner of their user namespaces. But to join one is for good, and a pid namespace
 * takes that of its user namespace first. So a door is sent: a process that shares the zygote's memory
 * for a moment, joins everything of the sandbox at once, makes the kernel from where it then
 * stands, and ends. It costs no copy of the memory. The kernel comes back to the zygote's own stack by
 * the context that was kept there.
 *
 * Why raw clone and not fork: CLONE_PARENT makes the warden the kernel's parent, and no Python hook
 * runs in the zygote. What fork() of the C library would have mended is mended here: the thread id in
 * the thread's control block (set by the kernel at the address that PR_GET_TID_ADDRESS tells), the
 * robust list, and the registration of restartable sequences, which a door has none of. Why not clone3:
 * its flags lie behind a pointer, so a filter must refuse it whole.
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
#include "python/arenas.h"
#include "python/large_pages.h"
#include "wire/nursery.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define REQUEST_FDS 4
#define DOOR_STACK (64 << 10)
#define RUNNERS "/usr/lib/sandglass/"

/* What a child needs, fetched in the zygote: after clone the less is done the better. */
struct zygote {
	int control_fd;
	void *tid_address;
	void *robust_head;
	size_t robust_size;
	char *door_stack;
};

/* Descriptors 0 /dev/null, 1 and 2 the pipes, 3 the socket. */
static bool arrange_descriptors(const int *fds, struct error *err)
{
	const int keep[] = { fds[1], fds[2], fds[3] };
	if (!process_keep_descriptors(keep, ARRAY_SIZE(keep), err))
		return false;
	if (dup2(4, 1) < 0 || dup2(5, 2) < 0)
		return error_from_os(err, errno, "cannot place the output pipes");
	close(4);
	close(5);
	return true;
}

/* What a process of its own has, in the sandbox that it was made in. */
static bool settle_in_sandbox(struct error *err)
{
	if (setsid() < 0)
		return error_from_os(err, errno, "cannot start a session");
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return error_from_os(err, errno, "cannot leave the keyring");
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool is_placed = null == 0 ? fcntl(0, F_SETFD, 0) == 0
				   : null > 0 && dup2(null, 0) == 0 && close(null) == 0;
	if (!is_placed)
		return error_from_os(err, errno, "cannot open /dev/null");
	return lockdown_dumpable(err) && lockdown_oom_score(err);
}

/* The door had no registration to pass on. Where the C library has none, there is nothing to mend. */
static void mend_rseq(void)
{
	if (__rseq_size == 0)
		return;
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
	syscall(SYS_rseq, area, MAX(__rseq_size, 32u), 0, RSEQ_SIG);
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
	mend_rseq();
	close(0);
	bool is_in = cgroup_enter(groups->fds, groups->fd_count, &err) &&
		     arrange_descriptors(packet->fds, &err) && settle_in_sandbox(&err) &&
		     lockdown_user(request->degraded, &err) && lockdown_enter_workspace(&err) &&
		     lockdown_dumpable(&err);
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

/* What passes between the zygote and the door, which shares its memory. */
struct door {
	const struct zygote *zygote;
	int sandbox; /* pidfd of its init */
	ucontext_t back;
	volatile bool is_kernel; /* set in the kernel's copy of the memory */
	volatile pid_t pid;
	volatile int os_error;
};

/* As fork, but for the parent. The system writes the thread id where the C library keeps it. */
static long clone_kernel(const struct zygote *zygote)
{
	const unsigned long flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
#ifdef __x86_64__
	return syscall(SYS_clone, flags, 0, NULL, zygote->tid_address, 0);
#else
	return syscall(SYS_clone, flags, 0, NULL, 0, zygote->tid_address);
#endif
}

/* On a stack of its own, while the zygote waits. */
static int go_through(void *argument)
{
	struct door *door = argument;
	long pid = -1;
	if (setns(door->sandbox, SECCOMP_JOINED) == 0)
		pid = clone_kernel(door->zygote);
	if (pid == 0) {
		door->is_kernel = true;
		setcontext(&door->back);
		_exit(75);
	}
	door->os_error = pid < 0 ? errno : 0;
	door->pid = (pid_t)pid;
	syscall(SYS_exit, 0); /* without what the C library does at an end: it is the zygote's */
	return 0;
}

/* Clones into the sandbox. 0: in the child, settled; -1 and errno on failure. */
static pid_t make_kernel(const struct zygote *zygote, const struct wire_packet *groups,
	const struct wire_packet *packet, const struct nursery_kernel_request *request)
{
	struct door door = { .zygote = zygote, .sandbox = packet->fds[0], .pid = -1 };
	getcontext(&door.back);
	if (door.is_kernel) {
		enter_or_exit(zygote, groups, packet, request);
		return 0;
	}
	if (clone(go_through, zygote->door_stack + DOOR_STACK,
		    CLONE_VM | CLONE_VFORK | CLONE_PARENT, &door) < 0)
		return -1;
	errno = door.os_error;
	return door.pid;
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
	zygote->door_stack = mmap(NULL, DOOR_STACK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (zygote->door_stack == MAP_FAILED)
		return error_from_os(err, errno, "cannot make a stack");
	if (prctl(PR_GET_TID_ADDRESS, &zygote->tid_address, 0, 0, 0) < 0)
		return error_from_os(err, errno, "cannot find the thread's id");
	if (syscall(SYS_get_robust_list, 0, &zygote->robust_head, &zygote->robust_size) < 0)
		return error_from_os(err, errno, "cannot find the robust list");
	return lockdown_not_dumpable(err);
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
	large_pages_gather();
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

PyMODINIT_FUNC PyInit__sandglass(void)
{
	arenas_gather(); /* before anything is imported that is to lie there */
	return PyModule_Create(&definition);
}
