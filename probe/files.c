/* Files: opening by path, device nodes, terminals, and what a node lets one change. */
#include "probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- open ---- */
static const struct {
	const char *name;
	int flags;
} modes[] = {
	{ "read", O_RDONLY },
	{ "write", O_WRONLY },
	{ "both", O_RDWR },
	{ "append", O_WRONLY | O_APPEND },
	{ "truncate", O_WRONLY | O_TRUNC },
	{ "create", O_WRONLY | O_CREAT },
	{ "path", O_PATH },
	{ "folder", O_RDONLY | O_DIRECTORY },
	{ "temporary", O_RDWR | O_TMPFILE },
};

struct open_attempt {
	const char *path;
	int flags;
};

static long open_path(const void *argument)
{
	const struct open_attempt *a = argument;
	return open(a->path, a->flags | O_NOCTTY | O_NONBLOCK, 0600);
}

static int run_open(int argc, char **argv)
{
	int flags = -1;
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(modes); i++) {
		if (strcmp(argv[1], modes[i].name) == 0)
			flags = modes[i].flags;
	}
	if (flags < 0)
		return 2;
	json_open(NULL, '{');
	for (int i = 2; i < argc; i++) {
		struct open_attempt a = { argv[i], flags };
		try(argv[i], open_path, &a);
	}
	json_close('}');
	return 0;
}

/* ---- mknod ---- */
struct node {
	const char *path;
	mode_t mode;
	dev_t device;
};

static long make_node(const void *argument)
{
	const struct node *node = argument;
	unlink(node->path);
	return mknod(node->path, node->mode | 0666, node->device);
}

static long open_node(const void *argument)
{
	const struct node *node = argument;
	return open(node->path, O_RDONLY | O_NONBLOCK);
}

static int run_mknod(int argc, char **argv)
{
	static const struct {
		const char *name;
		mode_t mode;
		unsigned major, minor;
	} nodes[] = {
		{ "mem", S_IFCHR, 1, 1 },
		{ "null", S_IFCHR, 1, 3 },
		{ "kmsg", S_IFCHR, 1, 11 },
		{ "sda", S_IFBLK, 8, 0 },
		{ "loop0", S_IFBLK, 7, 0 },
		{ "fuse", S_IFCHR, 10, 229 },
		{ "tun", S_IFCHR, 10, 200 },
		{ "kvm", S_IFCHR, 10, 232 },
		{ "whiteout", S_IFCHR, 0, 0 },
		{ "fifo", S_IFIFO, 0, 0 },
		{ "socket", S_IFSOCK, 0, 0 },
	};
	json_open(NULL, '{');
	for (int i = 1; i < argc; i++) {
		json_open(argv[i], '{');
		for (size_t n = 0; n < ARRAY_SIZE(nodes); n++) {
			char path[512], name[64];
			snprintf(path, sizeof(path), "%s/probe-node", argv[i]);
			struct node node = { path, nodes[n].mode,
				makedev(nodes[n].major, nodes[n].minor) };
			try(nodes[n].name, make_node, &node);
			snprintf(name, sizeof(name), "open %s", nodes[n].name);
			if (nodes[n].mode != S_IFIFO)
				try(name, open_node, &node);
			unlink(path);
		}
		json_close('}');
	}
	json_close('}');
	return 0;
}

/* ---- terminals and other ioctls ---- */
struct control {
	int fd;
	unsigned long request;
};

static long make_control(const void *argument)
{
	static char zeros[256];
	const struct control *c = argument;
	return syscall(SYS_ioctl, c->fd, c->request, zeros);
}

static const struct {
	const char *name;
	unsigned long request;
} controls[] = {
	{ "TIOCSTI", 0x5412 },
	{ "TIOCSTI high bit", 0x100005412UL },
	{ "TIOCLINUX", 0x541c },
	{ "TIOCCONS", 0x541d },
	{ "TIOCSETD", 0x5423 },
	{ "TIOCSETD high bit", 0x100005423UL },
	{ "KDSETMODE", 0x4b3a },
	{ "KDSKBENT", 0x4b47 },
	{ "KDMKTONE", 0x4b30 },
	{ "KDSIGACCEPT", 0x4b4e },
	{ "VT_ACTIVATE", 0x5606 },
	{ "VT_OPENQRY", 0x5600 },
	{ "VT_DISALLOCATE", 0x5608 },
	{ "FIFREEZE", 0xc0045877UL },
	{ "FITHAW", 0xc0045878UL },
	{ "FICLONE", 0x40049409UL },
	{ "FICLONERANGE", 0x4020940dUL },
	{ "SIOCSIFFLAGS", 0x8914 },
	{ "SIOCSIFADDR", 0x8916 },
	{ "SIOCSIFHWADDR", 0x8924 },
	{ "SIOCSIFNAME", 0x8923 },
	{ "SIOCSIFMTU", 0x8922 },
};

static void try_controls(const char *key, int fd)
{
	json_open(key, '{');
	for (size_t i = 0; i < ARRAY_SIZE(controls); i++) {
		struct control c = { fd, controls[i].request };
		try(controls[i].name, make_control, &c);
	}
	json_close('}');
}

static int run_ioctl(int argc, char **argv)
{
	int zero = 0, fd;
	json_open(NULL, '{');
	try_controls("0", 0);
	try_controls("1", 1);
	try_controls("2", 2);
	int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	report("open ptmx", terminal);
	if (terminal >= 0) {
		ioctl(terminal, 0x40045431 /* TIOCSPTLCK */, &zero);
		fd = ioctl(terminal, 0x5441 /* TIOCGPTPEER */, O_RDWR | O_NOCTTY);
		try_controls("own terminal", fd);
		close(fd);
		close(terminal);
	}
	fd = open("/dev/tty", O_RDWR | O_NOCTTY);
	report("open tty", fd);
	if (fd >= 0)
		try_controls("/dev/tty", fd);
	fd = open("/tmp/probe-file", O_CREAT | O_RDWR, 0600);
	try_controls("file", fd);
	close(fd);
	json_close('}');
	return 0;
}

/* ---- what may be done to a node that all sandboxes share ---- */
static long touch_it(const void *path)
{
	return utimensat(AT_FDCWD, path, NULL, 0);
}

static long touch_open(const void *path)
{
	int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -1 : futimens(fd, NULL);
}

static long set_old_time(const void *path)
{
	struct timespec times[2] = { { 1000, 0 }, { 1000, 0 } };
	return utimensat(AT_FDCWD, path, times, 0);
}

static long change_mode(const void *path)
{
	return chmod(path, 0777);
}

static long change_owner(const void *path)
{
	return chown(path, getuid(), getgid());
}

static long set_attribute(const void *path)
{
	return setxattr(path, "user.probe", "x", 1, 0);
}

static long remove_it(const void *path)
{
	return unlink(path);
}

static long rename_it(const void *path)
{
	return rename(path, "/dev/probe-renamed");
}

static long link_it(const void *path)
{
	return link(path, "/tmp/probe-link");
}

static long lease_it(const void *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -1 : fcntl(fd, F_SETLEASE, F_WRLCK);
}

static void try_node(const char *path)
{
	static const struct {
		const char *name;
		attempt run;
	} changes[] = {
		{ "touch", touch_it },
		{ "touch open", touch_open },
		{ "set time", set_old_time },
		{ "chmod", change_mode },
		{ "chown", change_owner },
		{ "xattr", set_attribute },
		{ "unlink", remove_it },
		{ "rename", rename_it },
		{ "link", link_it },
		{ "lease", lease_it },
	};
	json_open(path, '{');
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		try(changes[i].name, changes[i].run, path);
	json_close('}');
}

static int run_touch(int argc, char **argv)
{
	json_open(NULL, '{');
	for (int i = 1; i < argc; i++)
		try_node(argv[i]);
	json_close('}');
	return 0;
}

/* ---- locks: which can be had on each file, at once ---- */
static long lock_it(const void *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -1 : flock(fd, LOCK_EX | LOCK_NB);
}

static int run_locks(int argc, char **argv)
{
	bool is_holding = argc > 1 && strcmp(argv[1], "hold") == 0;
	json_open(NULL, '{');
	for (int i = is_holding ? 2 : 1; i < argc; i++) {
		if (is_holding)
			report(argv[i], lock_it(argv[i]));
		else
			try(argv[i], lock_it, argv[i]);
	}
	json_close('}');
	if (is_holding) {
		putchar('\n');
		fflush(stdout);
		pause();
	}
	return 0;
}

const struct probe_command file_commands[] = {
	{ "open", run_open,
		"MODE PATH...: read write both append truncate create path folder temporary" },
	{ "mknod", run_mknod, "FOLDER...: makes nodes there and opens them" },
	{ "ioctl", run_ioctl,
		"terminal injection and others, on 0, 1, 2, a terminal of our own, a file" },
	{ "touch", run_touch, "PATH...: changes to nodes" },
	{ "locks", run_locks, "[hold] PATH...: takes an exclusive lock on each" },
	{ 0 },
};
