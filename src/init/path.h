/* Paths of file calls: opened as the user, by the kernel, never through /proc's own links, and
 * never on a file system that shows processes or the kernel. */
#ifndef INIT_PATH_H
#define INIT_PATH_H

#include "wire/inside.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Absolute, and with a NUL within INSIDE_PATH_SIZE; else INSIDE_BAD_PATH. */
bool path_check(const char path[INSIDE_PATH_SIZE], struct inside_file_answer *answer);

/* openat() with O_CLOEXEC, O_NONBLOCK, O_NOCTTY and RESOLVE_NO_MAGICLINKS; `resolve` adds flags of
 * openat2. -1 and errno. */
int path_open(int dir_fd, const char *path, int flags, uint64_t resolve);

/* An O_PATH descriptor of what the path names, links followed, whatever it is; nothing is touched
 * by it. INSIDE_SPECIAL on /proc and the like. -1 and the answer. */
int path_reach(
	int dir_fd, const char *path, struct stat *ret_stat, struct inside_file_answer *answer);

/* The answer to a path that path_open() could not open; returns false. */
bool path_fail(int dir_fd, const char *path, int os_error, struct inside_file_answer *answer);

/* Opens a file (S_IFREG) or folder (S_IFDIR) for reading; the answer says why not. */
int path_open_type(
	const char *path, mode_t type, struct stat *ret_stat, struct inside_file_answer *answer);

/* The descriptor is on proc, sysfs, a cgroup file system or another that is no place for files. */
bool path_is_special(int fd);

/* Where the last name begins: "/a/b" -> "b", "/" and "/a/" -> "". */
const char *path_last_name(const char *path);
/* "", "." and ".." name a folder whatever is there. */
bool path_is_dots(const char *name);
/* What stands before the last name, "." for nothing. */
void path_folder(const char *path, char ret_folder[INSIDE_PATH_SIZE]);

#endif
