/* See groups.h. */
#include "jail/groups.h"

#include "base/fd.h"
#include "jail/freezer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define THAW_MS 200 /* for what was killed while frozen to end */

void groups_remove_below(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			groups_remove(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
}

void groups_remove(int dir_fd, const char *name)
{
	groups_remove_below(dir_fd, name);
	unlinkat(dir_fd, name, AT_REMOVEDIR);
}

/* Named after a keeper that does not live any more? */
static bool is_leftover(const struct dirent *entry)
{
	char *end;
	if (strncmp(entry->d_name, GROUPS_PREFIX, strlen(GROUPS_PREFIX)) != 0)
		return false;
	long pid = strtol(entry->d_name + strlen(GROUPS_PREFIX), &end, 10);
	return pid > 1 && !*end && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

void groups_thaw_leftovers(const char *parent)
{
	DIR *dir = opendir(parent);
	struct dirent *entry;
	unsigned boxes = 0;
	while (dir && (entry = readdir(dir))) {
		if (!is_leftover(entry))
			continue;
		cleanup_close int fd =
			openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		boxes += fd < 0 ? 0 : freezer_thaw_boxes(fd);
	}
	if (dir)
		closedir(dir);
	const struct timespec pause = { .tv_nsec = THAW_MS * 1000000L };
	if (boxes > 0)
		nanosleep(&pause, NULL);
}

void groups_clear_leftovers(const char *parent)
{
	DIR *dir = opendir(parent);
	struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		if (is_leftover(entry))
			groups_remove(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
}
