/* Changing what is mounted: the old calls, the new ones, and ways around a path. */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers newer than some headers. */
#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define NR_FSPICK 433
#define NR_MOUNT_SETATTR 442
#define NR_OPEN_TREE_ATTR 467
#define TREE_CLONE 1
#define TREE_RECURSIVE 0x8000

static const char *const types[] = { "tmpfs", "proc", "sysfs", "overlay", "fuse", "cgroup",
	"cgroup2", "binfmt_misc", "nfs", "ext4", "devpts", "devtmpfs", "mqueue", "bpf", "debugfs",
	"tracefs", "securityfs", "ramfs", "squashfs", "erofs", "9p", "virtiofs" };

static long mount_type(const void *type)
{
	return mount("probe", "/tmp", type, 0, NULL);
}

static long open_type(const void *type)
{
	return syscall(NR_FSOPEN, type, 0);
}

static long remount_writable(const void *point)
{
	return mount(NULL, point, NULL, MS_REMOUNT, NULL);
}

static long remount_bind_writable(const void *point)
{
	return mount(NULL, point, NULL, MS_REMOUNT | MS_BIND, NULL);
}

static long unmount(const void *point)
{
	return umount2(point, 0);
}

static long unmount_detach(const void *point)
{
	return umount2(point, MNT_DETACH);
}

static long bind_over(const void *point)
{
	return mount("/tmp", point, NULL, MS_BIND | MS_REC, NULL);
}

static long move_away(const void *point)
{
	return mount(point, "/tmp", NULL, MS_MOVE, NULL);
}

static long make_shared(const void *point)
{
	return mount(NULL, point, NULL, MS_SHARED | MS_REC, NULL);
}

static long clone_tree(const void *point)
{
	return syscall(NR_OPEN_TREE, AT_FDCWD, point, TREE_CLONE | TREE_RECURSIVE);
}

static long look_at_tree(const void *point)
{
	return syscall(NR_OPEN_TREE, AT_FDCWD, point, 0);
}

static long clone_tree_attr(const void *point)
{
	struct mount_attr attributes = { 0 };
	return syscall(NR_OPEN_TREE_ATTR, AT_FDCWD, point, TREE_CLONE | TREE_RECURSIVE, &attributes,
		sizeof(attributes));
}

static long clear_read_only(const void *point)
{
	struct mount_attr attributes = { .attr_clr = MOUNT_ATTR_RDONLY };
	return syscall(
		NR_MOUNT_SETATTR, AT_FDCWD, point, TREE_RECURSIVE, &attributes, sizeof(attributes));
}

static long pick(const void *point)
{
	return syscall(NR_FSPICK, AT_FDCWD, point, 0);
}

static const struct {
	const char *name;
	attempt run;
} ways[] = {
	{ "remount", remount_writable },
	{ "remount bind", remount_bind_writable },
	{ "umount", unmount },
	{ "umount detach", unmount_detach },
	{ "bind over", bind_over },
	{ "move", move_away },
	{ "share", make_shared },
	{ "open_tree clone", clone_tree },
	{ "open_tree", look_at_tree },
	{ "open_tree_attr", clone_tree_attr },
	{ "mount_setattr", clear_read_only },
	{ "fspick", pick },
};

static int run_remount(int argc, char **argv)
{
	char **points = argc > 1 ? argv + 1 : mount_points();
	json_open(NULL, '{');
	for (; *points; points++) {
		json_open(*points, '{');
		for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
			try(ways[i].name, ways[i].run, *points);
		json_close('}');
	}
	json_close('}');
	return 0;
}

static long configure(const void *argument)
{
	return syscall(NR_FSCONFIG, 0, 6 /* create */, NULL, NULL, 0);
}

static long mount_made(const void *argument)
{
	return syscall(NR_FSMOUNT, 0, 0, 0);
}

static long attach(const void *argument)
{
	return syscall(NR_MOVE_MOUNT, AT_FDCWD, "/tmp", AT_FDCWD, "/home", 0);
}

static long pivot(const void *argument)
{
	return syscall(SYS_pivot_root, ".", ".");
}

static long change_root(const void *path)
{
	return chroot(path);
}

/* The classic way out: a second root below an open folder, then up from there. */
static long chroot_twice(const void *argument)
{
	mkdir("/tmp/probe-root", 0700);
	int outside = open("/", O_RDONLY | O_DIRECTORY);
	if (chroot("/tmp/probe-root") < 0)
		return -1;
	if (fchdir(outside) < 0)
		return -1;
	for (int i = 0; i < 64; i++) {
		if (chdir("..") < 0)
			return -1;
	}
	return chroot(".");
}

static int run_mount(int argc, char **argv)
{
	json_open(NULL, '{');
	json_open("mount", '{');
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		try(types[i], mount_type, types[i]);
	json_close('}');
	json_open("fsopen", '{');
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		try(types[i], open_type, types[i]);
	json_close('}');
	json_open("others", '{');
	try("fsconfig", configure, NULL);
	try("fsmount", mount_made, NULL);
	try("move_mount", attach, NULL);
	try("pivot_root", pivot, NULL);
	try("chroot", change_root, "/tmp");
	try("chroot twice", chroot_twice, NULL);
	json_close('}');
	json_close('}');
	return 0;
}

/* ---- file handles: a way to an inode without a path ---- */
struct handle {
	struct file_handle head;
	unsigned char bytes[MAX_HANDLE_SZ];
};

static long take_handle(const void *point)
{
	struct handle handle = { .head.handle_bytes = MAX_HANDLE_SZ };
	int mount_id;
	return name_to_handle_at(AT_FDCWD, point, &handle.head, &mount_id, 0);
}

static long open_root_handle(const void *point)
{
	struct handle handle = { .head = { .handle_bytes = 8, .handle_type = 1 } };
	handle.bytes[0] = 2; /* inode 2: the root of ext4 and others */
	int fd = open(point, O_RDONLY | O_NONBLOCK);
	return open_by_handle_at(fd < 0 ? AT_FDCWD : fd, &handle.head, O_RDONLY);
}

static int run_handles(int argc, char **argv)
{
	json_open(NULL, '{');
	for (char **points = mount_points(); *points; points++) {
		json_open(*points, '{');
		try("name_to_handle_at", take_handle, *points);
		try("open_by_handle_at", open_root_handle, *points);
		json_close('}');
	}
	json_close('}');
	return 0;
}

const struct probe_command mount_commands[] = {
	{ "mount", run_mount,
		"every file system type and every call that mounts or changes the root" },
	{ "remount", run_remount, "[POINT...]: remount, unmount, move and clone each mount" },
	{ "handles", run_handles, "file handles of each mount" },
	{ 0 },
};
