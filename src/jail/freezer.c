/* See freezer.h. Version 1: freezer.state, in a hierarchy of its own. Version 2: cgroup.freeze. */
#include "jail/freezer.h"

#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int freezer_folder(const struct cgroup_tree *tree)
{
	return tree->dirs[tree->is_v2 ? 0 : CGROUP_HIERARCHIES - 1];
}

bool freezer_set(const struct cgroup_tree *tree, const char *id, bool is_frozen, struct error *err)
{
	char path[96];
	const char *file = tree->is_v2 ? "cgroup.freeze" : "freezer.state";
	const char *text =
		tree->is_v2 ? (is_frozen ? "1" : "0") : (is_frozen ? "FROZEN" : "THAWED");
	snprintf(path, sizeof(path), "box/%s/work/%s", id, file);
	return fd_write_kernel_file(freezer_folder(tree), path, text, err);
}

bool freezer_is_frozen(const struct cgroup_tree *tree, const char *id)
{
	char path[96];
	const char *file = tree->is_v2 ? "cgroup.events" : "freezer.state";
	snprintf(path, sizeof(path), "box/%s/work/%s", id, file);
	cleanup_free char *text = fd_read_file(freezer_folder(tree), path, 256, NULL, NULL);
	return text && strstr(text, tree->is_v2 ? "frozen 1" : "FROZEN");
}

/* Whichever of the two files there is. */
static void thaw(int box_fd, const char *name)
{
	char path[NAME_MAX + 32];
	snprintf(path, sizeof(path), "%s/work/freezer.state", name);
	fd_write_kernel_file(box_fd, path, "THAWED", NULL);
	snprintf(path, sizeof(path), "%s/work/cgroup.freeze", name);
	fd_write_kernel_file(box_fd, path, "0", NULL);
}

unsigned freezer_thaw_boxes(int tree_fd)
{
	int fd = openat(tree_fd, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	unsigned count = 0;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		thaw(dirfd(dir), entry->d_name);
		count++;
	}
	if (dir)
		closedir(dir);
	return count;
}
