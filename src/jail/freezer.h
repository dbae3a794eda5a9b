/*
 * Stopping the processes of a sandbox and letting them go on: the freezer of box/<id>/work. Init is
 * outside of it and stays responsive.
 *
 * On version 1 a frozen process does not even heed SIGKILL until it is thawed. So whoever ends a
 * frozen sandbox thaws it too, and whoever ends with frozen sandboxes below needs someone who does.
 */
#ifndef JAIL_FREEZER_H
#define JAIL_FREEZER_H

#include "jail/cgroup.h"

/* Begins to freeze, or thaws. Freezing takes a moment: ask freezer_is_frozen. */
bool freezer_set(const struct cgroup_tree *tree, const char *id, bool is_frozen, struct error *err);
/* All of it stands still. */
bool freezer_is_frozen(const struct cgroup_tree *tree, const char *id);

/* Thaws every box below `tree_fd`, the folder of a tree in the freezer's hierarchy; returns how
 * many boxes there are. */
unsigned freezer_thaw_boxes(int tree_fd);
/* The folder of the tree that the freezer's files are in; not owned. */
int freezer_folder(const struct cgroup_tree *tree);

#endif
