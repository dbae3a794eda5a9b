/* Folders of control groups that are no longer needed: removing them, and those of dead keepers. */
#ifndef JAIL_GROUPS_H
#define JAIL_GROUPS_H

#define GROUPS_PREFIX "sandglass-" /* of the folder of a keeper; its pid follows */

/* Removes a folder of groups, children first. Kernel files cannot be unlinked and need not be. What
 * still has processes stays. */
void groups_remove(int dir_fd, const char *name);
/* All that are in it, and not the folder. */
void groups_remove_below(int dir_fd, const char *name);

/* Trees of keepers that are no more, in the folder of a hierarchy. What is frozen in them has to be
 * thawed before it can end, so that comes first: for the freezer's hierarchy alone, and with a
 * moment of waiting where there is something. */
void groups_thaw_leftovers(const char *parent);
void groups_clear_leftovers(const char *parent);

#endif
