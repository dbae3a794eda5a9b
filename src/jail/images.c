/*
 * See mounts.h: what the keeper mounts for others, attached nowhere. An image is a file system of
 * its own; the layer with our runners is a tmpfs that is filled by the host's cp, chmod and chown.
 */
#include "jail/mounts.h"

#include "base/fd.h"
#include "base/kernel.h"
#include "jail/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A user namespace in which 0 is the image's owner: what an idmapped mount asks for. */
static int image_namespace(uid_t image_owner, struct error *err)
{
	int hold[2];
	char path[64], map[64];
	if (pipe2(hold, O_CLOEXEC) < 0) {
		error_from_os(err, errno, "cannot make a pipe");
		return -1;
	}
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		char byte;
		close(hold[1]);
		(void)!read(hold[0], &byte, 1);
		_exit(0);
	}
	int fd = -1;
	close(hold[0]);
	if (pid < 0) {
		error_from_os(err, errno, "cannot make a user namespace");
	} else {
		snprintf(map, sizeof(map), "0 %u 1", image_owner);
		bool is_mapped = process_write_maps(pid, map, err);
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = is_mapped ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (is_mapped && fd < 0)
			error_from_os(err, errno, "cannot open a user namespace");
	}
	close(hold[1]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return fd;
}

/* Read-only, nosuid, nodev; with a user namespace (else -1) shown with its ids. */
static bool close_mount(int mount_fd, int user_namespace, struct error *err)
{
	struct kernel_mount_attr attributes = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
	};
	if (user_namespace >= 0) {
		attributes.attr_set |= MOUNT_ATTR_IDMAP;
		attributes.userns_fd = (uint64_t)user_namespace;
	}
	if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
		    sizeof(attributes)) < 0) {
		error_from_os(err, errno, "cannot close a mount");
		return error_hint(err, "idmapped EROFS mounts need a kernel from 5.19 on");
	}
	return true;
}

/* An EROFS file, mounted straight from the file (6.12). */
static int mount_erofs_file(const char *path)
{
	cleanup_close int context = (int)syscall(SYS_fsopen, "erofs", FSOPEN_CLOEXEC);
	if (context < 0 ||
		syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "source", path, 0) < 0 ||
		syscall(SYS_fsconfig, context, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
		syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0);
}

/* The same through a loop device, by mount(8), which knows how to find one; kernels before 6.12. */
static int mount_erofs_loop(const char *path)
{
	char place[] = "/tmp/sandglass-image-XXXXXX";
	if (!mkdtemp(place))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		execlp("mount", "mount", "-t", "erofs", "-o", "loop,ro", path, place, (char *)NULL);
		_exit(127);
	}
	int status, fd = -1;
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) {
		fd = (int)syscall(
			SYS_open_tree, AT_FDCWD, place, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		umount2(place, MNT_DETACH);
	}
	rmdir(place);
	return fd;
}

int mounts_image(const char *path, uid_t image_owner, struct error *err)
{
	struct stat found;
	if (stat(path, &found) < 0) {
		error_from_os(err, errno, "cannot find the image '%s'", path);
		error_hint(err, "build it: sandglass template build NAME");
		return -1;
	}
	cleanup_close int fd = -1;
	if (S_ISDIR(found.st_mode))
		fd = (int)syscall(
			SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	else
		fd = mount_erofs_file(path);
	if (fd < 0 && !S_ISDIR(found.st_mode))
		fd = mount_erofs_loop(path);
	if (fd < 0) {
		error_from_os(err, errno, "cannot mount the image '%s'", path);
		error_hint(err, "the kernel needs EROFS (modprobe erofs)");
		return -1;
	}
	cleanup_close int user_namespace = image_namespace(image_owner, err);
	if (user_namespace < 0 || !close_mount(fd, user_namespace, err))
		return -1;
	return fd_take(&fd);
}

static int mount_tmpfs(void)
{
	cleanup_close int context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (context < 0 ||
		syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
		syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0);
}

/* mkdir -p below a descriptor; returns the last folder. */
static int make_folders(int dir_fd, const char *place, struct error *err)
{
	cleanup_free char *words = strdup(place);
	char *save = NULL;
	int at = fd_duplicate(dir_fd);
	for (char *word = strtok_r(words, "/", &save); word && at >= 0;
		word = strtok_r(NULL, "/", &save)) {
		int next = -1;
		if (mkdirat(at, word, 0755) == 0 || errno == EEXIST)
			next = openat(at, word, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (next >= 0)
			fchmod(next, 0755);
		close(at);
		at = next;
	}
	if (at < 0)
		error_from_os(err, errno, "cannot make '%s'", place);
	return at;
}

/* Runs a program of the host with a folder as its working folder. */
static bool run_in(int dir_fd, char *const words[], struct error *err)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		if (fchdir(dir_fd) < 0)
			_exit(126);
		umask(022);
		execvp(words[0], words);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return error_set(err, ERROR_INTERNAL, "'%s' of '%s' failed", words[0], words[2]);
	return true;
}

/* Plain files with plain modes, given to their owner: so no ids need mapping, which tmpfs can do
 * only from 6.3 on. */
static bool fill_layer(
	int root_fd, int folder_fd, const char *source, uid_t owner, struct error *err)
{
	char inside[PATH_MAX + 4], id[32];
	snprintf(inside, sizeof(inside), "%s/.", source);
	snprintf(id, sizeof(id), "%u:%u", owner, owner);
	char *copy[] = { "cp", "-RL", inside, ".", NULL };
	char *open[] = { "chmod", "-R", "u=rwX,go=rX", ".", NULL }; /* programs stay programs */
	char *give[] = { "chown", "-R", id, ".", NULL };
	return run_in(folder_fd, copy, err) && run_in(folder_fd, open, err) &&
	       run_in(root_fd, give, err);
}

int mounts_layer(const char *source, const char *place, uid_t image_owner, struct error *err)
{
	cleanup_close int fd = mount_tmpfs();
	if (fd < 0) {
		error_from_os(err, errno, "cannot mount a tmpfs");
		return -1;
	}
	cleanup_close int folder = make_folders(fd, place, err);
	if (folder < 0)
		return -1;
	if (!fill_layer(fd, folder, source, image_owner, err))
		return -1;
	return close_mount(fd, -1, err) ? fd_take(&fd) : -1;
}
