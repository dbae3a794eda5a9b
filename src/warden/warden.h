/*
 * The warden: root of the nursery, pid 1 there, parent of every init, kernel and zygote. It keeps
 * the table of what lives, makes and ends it, and holds the clock. It parses no client's bytes.
 *
 * Files: main.c (birth), keeper_link.c (orders of the keeper), requests.c (orders of the api: the
 * one table), template.c (zygotes), made.c (is it a kernel that the zygote names), sandbox.c,
 * birth.c (init), claim.c, pool.c (sandboxes that stand ready), kernel.c, standby.c (kernels that
 * do), pause.c, slices.c (ids), table.c (who is who).
 */
#ifndef WARDEN_WARDEN_H
#define WARDEN_WARDEN_H

#include "base/list.h"
#include "jail/cgroup.h"
#include "loop/loop.h"
#include "warden/slices.h"
#include "warden/table.h"
#include "wire/nursery.h"
#include "wire/requests.h"

struct template;
struct sandbox;

struct warden {
	struct loop loop;
	struct cgroup_tree cgroups; /* owned descriptors; no parents */
	struct nursery_setup setup; /* defaults and caps */
	bool is_set_up;
	int init_program;             /* owned */
	struct list templates;        /* struct template.link; of one name the newest is last */
	unsigned last_place;          /* number of the last folder of an image */
	struct list sandboxes;        /* struct sandbox.link: claimed and unclaimed */
	struct table table;           /* the claimed by their id, children by their pid */
	unsigned sandbox_count;       /* of those, the claimed */
	unsigned waiting_count;       /* of the claimed, those whose init is not ready yet */
	unsigned pool_count;          /* the unclaimed that are not ending */
	struct loop_timer pool_timer; /* looks what the pool lacks */
	int64_t pool_not_before_us;   /* after a failure */
	int64_t pool_put_off_us;      /* since when its next sandbox is put off; 0: it is not */
	bool is_pool_urgent;          /* one was begun that late: its kernels follow at once */
	unsigned pool_failures;       /* in a row */
	bool is_pool_filling;         /* something was made since it was full */
	struct slices slices;         /* of ids */
	struct loop_source keeper, signals, api;
	bool is_greeted; /* the api said hello */
	bool is_ready_told;
	bool is_stopping;
};

/* ---- requests.c: the api ---- */

/* Takes a new channel (owned); an old one is closed and its runs interrupted. */
void warden_set_api(struct warden *warden, int fd);
/* Sends to the api, if there is one; a channel that is full or broken is given up: the keeper
 * starts a new api, which lists what there is. */
void warden_send(
	struct warden *warden, const void *message, size_t size, const int *fds, unsigned fd_count);
void warden_send_failed(struct warden *warden, uint32_t serial, const struct error *err);

/* ---- keeper_link.c ---- */
bool keeper_link_start(struct warden *warden, int fd, struct error *err);
/* Tells the keeper once all templates are warm or have failed. */
void keeper_link_check_ready(struct warden *warden);

static inline struct wire_header warden_header(uint16_t op, uint32_t serial)
{
	return (struct wire_header){ .op = op, .version = WARDEN_VERSION, .serial = serial };
}

#endif
