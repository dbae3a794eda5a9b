/*
 * Who is who in numbers. `id_base` (default 0x70000000) is the first of our host ids:
 *
 *   host id            nursery id   who
 *   id_base + 0        -            api
 *   id_base + 1, 2     -            egress, broker (later)
 *   id_base + 3        -            who fetches packages for a build over the API
 *   id_base + 16       0            warden: root of the nursery, nobody on the host
 *   id_base + 17       1            owner of the image's files: 0 inside a sandbox; runs nothing
 *   id_base + 16 + 16k 16k          slice k (from 1): +0 init (999 inside), +1 user (1000 inside),
 *                                   +2 nobody (65534 inside); or, where a template has it, +3 its
 *                                   zygote, owner of the user namespaces of its sandboxes
 */
#ifndef JAIL_IDS_H
#define JAIL_IDS_H

#define IDS_DEFAULT_BASE 0x70000000u
#define IDS_API 0u /* added to the base */
#define IDS_DOWNLOADER 3u
#define IDS_NURSERY 16u /* added to the base */
#define IDS_NURSERY_ROOT 0u
#define IDS_NURSERY_IMAGE 1u
#define IDS_SLICE_SIZE 16u
#define IDS_SLICE_ZYGOTE 3u
#define IDS_SLICES 65535u /* so many sandboxes at once at most */
#define IDS_NURSERY_COUNT (IDS_SLICE_SIZE * (IDS_SLICES + 1))
#define IDS_COUNT (IDS_NURSERY + IDS_NURSERY_COUNT) /* host ids taken, from the base up */

/* Inside a sandbox. */
#define IDS_INIT 999u
#define IDS_USER 1000u
#define IDS_NOBODY 65534u

#endif
