/*
 * What is seen of file systems: the keeper's image mounts, the nursery's bare root, a zygote's
 * root, a sandbox's root.
 *
 * The nursery's root is a small tmpfs: /proc, /dev (nodes of the host, read-only), /t/<template>
 * (image), /r (our runner), /z /s /n (empty mount points). A sandbox starts as a copy of it and
 * leaves it for its own root: an overlay of /r and /t/<template> (read-only) below one sized tmpfs.
 */
#ifndef JAIL_MOUNTS_H
#define JAIL_MOUNTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- keeper, as root of the host, in a mount namespace of its own ---- */

/* In images.c, as the next. Mounts an EROFS file (or, given a folder, that folder) read-only,
 * nosuid, nodev, its owner 0 shown as the image's host id, attached nowhere. Returns the mount, -1
 * on failure. */
int mounts_image(const char *path, uid_t image_owner, struct error *err);
/* A read-only tmpfs with the copied tree of `source` at `place` ("usr/lib/x"), the image's
 * owner's. */
int mounts_layer(const char *source, const char *place, uid_t image_owner, struct error *err);

/* In a service's own mount namespace: its root becomes a tmpfs with `state` (a host folder) at
 * /state and, read-only, what the dynamic loader needs. */
bool mounts_enter_service(const char *state, struct error *err);

/* ---- warden ---- */

/* Leaves the host's tree for the nursery's own root. */
bool mounts_enter_nursery(struct error *err);
/* Attaches what the keeper made. */
bool mounts_attach_image(int mount_fd, const char *place, struct error *err);
/* Whoever has it mounted elsewhere keeps it. */
void mounts_detach_image(const char *place);
bool mounts_attach_layer(int mount_fd, struct error *err);
/* In resize.c: another size for a sandbox's files; read back. */
bool mounts_resize(int files_fd, uint64_t bytes, uint32_t inodes, struct error *err);
/* In the zygote's own mount namespace: its root becomes the image with the runner in place. */
bool mounts_enter_zygote(const char *template_name, struct error *err);

/* ---- init ---- */

struct mounts_sandbox {
	const char *template_name;
	uint64_t files_bytes;
	uint32_t inodes;
};

/* In the sandbox's namespaces, as its root: makes its tree and moves into it. ret_files: the root
 * of the tmpfs that holds what is written, which has no place in the tree: for mounts_resize, by
 * the warden. */
bool mounts_enter_sandbox(const struct mounts_sandbox *sandbox, int *ret_files, struct error *err);
/* Hides what tells of the host, makes /proc/sys read-only. The last of the mounting. */
bool mounts_close_proc(struct error *err);

#endif
