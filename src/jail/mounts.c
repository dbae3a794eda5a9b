/*
 * See mounts.h. Roots are left by pivot_root and detach, never by chroot, which keeps a way back. A
 * new root is built on a fresh tmpfs or overlay no sandbox ever wrote, so acting by path is safe
 * here.
 */
#include "jail/mounts.h"

#include "base/fd.h"
#include "jail/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define DEV_SHM_BYTES "67108864"

/* ---- small steps ---- */

static bool make_folder(const char *path, mode_t mode, struct error *err)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return error_from_os(err, errno, "cannot make the folder '%s'", path);
	if (chmod(path, mode) < 0) /* whatever the umask was */
		return error_from_os(err, errno, "cannot set the mode of '%s'", path);
	return true;
}

static bool make_folder_for(const char *path, mode_t mode, uid_t owner, struct error *err)
{
	if (!make_folder(path, mode, err))
		return false;
	if (chown(path, owner, owner) < 0)
		return error_from_os(err, errno, "cannot give '%s' to user %u", path, owner);
	return true;
}

/* A file to bind something over. */
static bool make_file(const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	return fd >= 0 || error_from_os(err, errno, "cannot make '%s'", path);
}

static bool mount_at(const char *type, const char *path, unsigned long flags, const char *options,
	struct error *err)
{
	if (mount(type, path, type, flags, options) < 0)
		return error_from_os(err, errno, "cannot mount %s at '%s'", type, path);
	return true;
}

static bool bind_at(const char *source, const char *path, unsigned long flags, struct error *err)
{
	if (mount(source, path, NULL, MS_BIND, NULL) < 0 ||
		mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | flags, NULL) < 0)
		return error_from_os(err, errno, "cannot show '%s' at '%s'", source, path);
	return true;
}

static bool attach(int mount_fd, const char *path, struct error *err)
{
	if (syscall(SYS_move_mount, mount_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return error_from_os(err, errno, "cannot attach a mount at '%s'", path);
	return true;
}

/* Makes `path` the root, lets go of the old one. */
static bool pivot_to(const char *path, struct error *err)
{
	char cwd[PATH_MAX];
	if (chdir(path) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return error_from_os(err, errno, "cannot make '%s' the root", path);
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return error_from_os(err, errno, "cannot let go of the old root");
	long n = syscall(SYS_getcwd, cwd, sizeof(cwd));
	if (n < 1 || cwd[0] != '/')
		return error_set(err, ERROR_INTERNAL, "the new root is not where it should be");
	return true;
}

static bool make_private(struct error *err)
{
	if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		return error_from_os(err, errno, "cannot keep mounts private");
	return true;
}

/* ---- services ---- */

/* A folder of libraries as the host has it: a link stays a link. */
static bool show_libraries(const char *path, struct error *err)
{
	char target[PATH_MAX], link[PATH_MAX];
	struct stat found;
	snprintf(target, sizeof(target), "/tmp%s", path);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	if (n > 0) {
		link[n] = '\0';
		if (symlink(link, target) < 0)
			return error_from_os(err, errno, "cannot make the link '%s'", target);
		return true;
	}
	if (stat(path, &found) < 0)
		return true;
	return make_folder(target, 0755, err) &&
	       bind_at(path, target, MS_RDONLY | MS_NOSUID | MS_NODEV, err);
}

/* What a dynamically linked program needs, below /tmp, the root to be. */
static bool show_loader(struct error *err)
{
	static const char *const libraries[] = { "/usr/lib", "/usr/lib64", "/lib", "/lib64" };
	if (!make_folder("/tmp/usr", 0755, err) || !make_folder("/tmp/etc", 0755, err))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		if (!show_libraries(libraries[i], err))
			return false;
	return make_file("/tmp/etc/ld.so.cache", err) &&
	       bind_at("/etc/ld.so.cache", "/tmp/etc/ld.so.cache", MS_RDONLY | MS_NOSUID, err);
}

bool mounts_enter_service(const char *state, struct error *err)
{
	umask(022);
	/* The state folder may lie below /tmp, which is covered next. */
	cleanup_close int state_fd =
		(int)syscall(SYS_open_tree, AT_FDCWD, state, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (state_fd < 0)
		return error_from_os(err, errno, "cannot open '%s'", state);
	if (!make_private(err) || !mount_at("tmpfs", "/tmp", MS_NOSUID, "mode=0755,size=1m", err) ||
		!make_folder("/tmp/state", 0755, err) || !attach(state_fd, "/tmp/state", err))
		return false;
	if (mount(NULL, "/tmp/state", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		    NULL) < 0)
		return error_from_os(err, errno, "cannot close the state folder");
	if (!show_loader(err))
		return false;
#ifdef __SANITIZE_ADDRESS__ /* its runtime reads the process's own maps */
	if (!make_folder("/tmp/proc", 0755, err) ||
		!mount_at("proc", "/tmp/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, err))
		return false;
#endif
	return pivot_to("/tmp", err);
}

/* ---- nursery ---- */

static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = { { "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 },
	{ "urandom", 1, 9 }, { "tty", 5, 0 } };

/* Binds a device node of the host; what is found there must be that very device. */
static bool bind_node(const char *from, const char *to, unsigned major_number,
	unsigned minor_number, struct error *err)
{
	struct stat found;
	if (!make_file(to, err) || !bind_at(from, to, MS_RDONLY | MS_NOSUID | MS_NOEXEC, err))
		return false;
	if (stat(to, &found) < 0 || !S_ISCHR(found.st_mode) ||
		found.st_rdev != makedev(major_number, minor_number))
		return error_set(err, ERROR_INTERNAL, "'%s' is not the device it should be", from);
	return true;
}

static bool bind_nodes(const char *from, const char *to, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		char source[PATH_MAX], target[PATH_MAX];
		snprintf(source, sizeof(source), "%s/%s", from, nodes[i].name);
		snprintf(target, sizeof(target), "%s/%s", to, nodes[i].name);
		if (!bind_node(source, target, nodes[i].major, nodes[i].minor, err))
			return false;
	}
	return true;
}

bool mounts_enter_nursery(struct error *err)
{
	static const char *const folders[] = { "proc", "dev", "t", "r", "z", "s", "n" };
	umask(022);
	/* /tmp is only the place to stand on: it is covered in this namespace alone. */
	if (!make_private(err) || !mount_at("tmpfs", "/tmp", MS_NOSUID, "mode=0755,size=1m", err))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char path[32];
		snprintf(path, sizeof(path), "/tmp/%s", folders[i]);
		if (!make_folder(path, 0755, err))
			return false;
	}
	if (!mount_at("proc", "/tmp/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, err))
		return error_hint(err,
			"a new /proc needs one that is fully visible: in a container, "
			"unmask /proc (docker: --security-opt systempaths=unconfined)");
#ifdef __SANITIZE_ADDRESS__ /* init cannot be static then, and is exec'd here */
	if (!show_loader(err))
		return false;
#endif
	return bind_nodes("/dev", "/tmp/dev", err) && pivot_to("/tmp", err);
}

bool mounts_attach_image(int mount_fd, const char *place, struct error *err)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "/t/%s", place);
	return make_folder(path, 0755, err) && attach(mount_fd, path, err);
}

void mounts_detach_image(const char *place)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "/t/%s", place);
	umount2(path, MNT_DETACH);
	rmdir(path);
}

bool mounts_attach_layer(int mount_fd, struct error *err)
{
	return attach(mount_fd, "/r", err);
}

/* ---- zygote ---- */

bool mounts_enter_zygote(const char *template_name, struct error *err)
{
	char image[PATH_MAX];
	snprintf(image, sizeof(image), "/t/%s", template_name);
	if (!make_private(err) || mount(image, "/z", NULL, MS_BIND, NULL) < 0)
		return error_from_os(err, errno, "cannot show the image to its zygote");
	if (mount("/r/usr/lib/sandglass", "/z/usr/lib/sandglass", NULL, MS_BIND, NULL) < 0)
		return error_from_os(err, errno, "cannot show the runner to the zygote");
	/* Its pid namespace is the nursery's: it sees itself there, and nobody else's command line. */
	return mount_at("proc", "/z/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible",
		       err) &&
	       mount_at("tmpfs", "/z/tmp", MS_NOSUID | MS_NODEV, "mode=1777,size=64m", err) &&
	       mount_at("tmpfs", "/z/dev", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k", err) &&
	       bind_nodes("/dev", "/z/dev", err) && pivot_to("/z", err);
}

/* ---- sandbox ---- */

/* What belongs to the user lies in the upper folder before the overlay is mounted: cheaper than
 * copying folders up. The root is sticky, so that code can make `/data` but not rename `/usr`. */
static bool make_upper(struct error *err)
{
	return make_folder("/s/w", 0755, err) && make_folder("/s/u", 01777, err) &&
	       make_folder_for("/s/u/workspace", 0755, IDS_USER, err) &&
	       make_folder("/s/u/home", 0755, err) &&
	       make_folder_for("/s/u/home/user", 0755, IDS_USER, err) &&
	       make_folder("/s/u/tmp", 01777, err) && make_folder("/s/u/mnt", 0755, err) &&
	       make_folder_for("/s/u/mnt/data", 0755, IDS_USER, err);
}

static bool mount_root(const struct mounts_sandbox *sandbox, int *ret_files, struct error *err)
{
	char options[512];
	snprintf(options, sizeof(options), "mode=0755,size=%ju,nr_inodes=%u",
		(uintmax_t)sandbox->files_bytes, sandbox->inodes);
	if (!mount_at("tmpfs", "/s", MS_NOSUID | MS_NODEV, options, err) || !make_upper(err))
		return false;
	*ret_files = open("/s", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_files < 0)
		return error_from_os(err, errno, "cannot open the sandbox's files");
	snprintf(options, sizeof(options),
		"lowerdir=/r:/t/%s,upperdir=/s/u,workdir=/s/w,userxattr,xino=on,volatile",
		sandbox->template_name);
	return mount_at("overlay", "/n", MS_NOSUID | MS_NODEV, options, err);
}

static bool mount_dev(struct error *err)
{
	static const char *const links[][2] = { { "/proc/self/fd", "/n/dev/fd" },
		{ "/proc/self/fd/0", "/n/dev/stdin" }, { "/proc/self/fd/1", "/n/dev/stdout" },
		{ "/proc/self/fd/2", "/n/dev/stderr" }, { "pts/ptmx", "/n/dev/ptmx" } };
	if (!mount_at("tmpfs", "/n/dev", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k", err) ||
		!bind_nodes("/dev", "/n/dev", err) || !make_folder("/n/dev/pts", 0755, err) ||
		!make_folder("/n/dev/shm", 0755, err))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlink(links[i][0], links[i][1]) < 0)
			return error_from_os(err, errno, "cannot make the link '%s'", links[i][1]);
	return mount_at("devpts", "/n/dev/pts", MS_NOSUID | MS_NOEXEC,
		       "newinstance,ptmxmode=0666,mode=0620,max=64", err) &&
	       mount_at("tmpfs", "/n/dev/shm", MS_NOSUID | MS_NODEV,
		       "mode=1777,size=" DEV_SHM_BYTES, err) &&
	       (mount(NULL, "/n/dev", NULL,
			MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) == 0 ||
		       error_from_os(err, errno, "cannot make /dev read-only"));
}

bool mounts_enter_sandbox(const struct mounts_sandbox *sandbox, int *ret_files, struct error *err)
{
	umask(022);
	return make_private(err) && mount_root(sandbox, ret_files, err) &&
	       mount_at("proc", "/n/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, err) &&
	       mount_dev(err) && pivot_to("/n", err);
}

bool mounts_close_proc(struct error *err)
{
	static const char *const files[] = { "kcore", "keys", "key-users", "kmsg", "kallsyms",
		"kpagecount", "kpageflags", "kpagecgroup", "timer_list", "sched_debug", "slabinfo",
		"vmallocinfo", "iomem", "ioports", "config.gz", "sysrq-trigger", "latency_stats",
		"modules", "kprobes" };
	static const char *const folders[] = { "acpi", "scsi", "irq", "bus", "fs", "tty", "driver",
		"pressure" };
	char path[64];
	struct stat found;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "/proc/%s", files[i]);
		if (stat(path, &found) == 0 &&
			!bind_at("/dev/null", path, MS_RDONLY | MS_NOSUID | MS_NOEXEC, err))
			return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "/proc/%s", folders[i]);
		if (stat(path, &found) == 0 &&
			!mount_at("tmpfs", path, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
				"mode=0555,size=0", err))
			return false;
	}
	return bind_at("/proc/sys", "/proc/sys", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, err);
}
