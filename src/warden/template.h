/*
 * A template as the warden knows it: an image attached to the nursery, and its zygote, the warmed
 * process from which its kernels come. How a kernel comes to be is behind template_make_kernel
 * alone.
 */
#ifndef WARDEN_TEMPLATE_H
#define WARDEN_TEMPLATE_H

#include "jail/ids.h"
#include "warden/warden.h"

struct kernel;

struct template
{
	struct warden *warden; /* not owned */
	struct list link;      /* in warden->templates */
	struct nursery_template about;
	char place[TEMPLATE_NAME_SIZE + 12]; /* the folder of its image below /t */
	unsigned sandboxes;                  /* that started from it */
	struct list pool;                    /* struct sandbox.pool_link: unclaimed ones */
	bool is_replaced;           /* by a newer one of its name: goes with its last sandbox */
	bool is_forgotten;          /* replaced by nothing: no sandbox starts from it any more */
	struct slice_holder slices; /* of ids: its zygote's own, and its sandboxes' */
	char group[24];             /* control group of the zygote */
	pid_t zygote_pid;           /* 0: none running */
	int zygote_fd;              /* owned; -1 */
	struct loop_source source;
	struct loop_timer timer; /* warming takes too long; start again; gone: remove the group */
	bool is_warm;
	unsigned unanswered;    /* requests to the zygote */
	unsigned removal_tries; /* of the group of one that is gone */
	unsigned failures;      /* in a row, before it was ever warm */
	uint32_t next_serial;
	struct list waiting; /* struct kernel.link: not asked for yet, or not answered yet */
};

/* Attaches the image (takes the descriptor) and starts the zygote. One of a name that is there
 * takes the other's place once it is warm. */
bool template_add(struct warden *warden, const struct nursery_template *about, int mount_fd,
	struct error *err);
/* All of that name are gone, or go with their last sandbox. */
void template_forget(struct warden *warden, const char *name);
/* What a new sandbox of that name starts from: the newest that is warm, else the newest. NULL. */
struct template *template_find(struct warden *warden, const char *name);
/* A sandbox starts from it; has ended. The latter may free a template that was replaced. */
void template_use(struct template *template);
void template_unuse(struct template *template);
/* Of its zygote, as the nursery has it; owner of the user namespaces of its sandboxes. */
static inline uid_t template_uid(const struct template *template)
{
	return template->slices.own * IDS_SLICE_SIZE + IDS_SLICE_ZYGOTE;
}
/* Cores of a share, rounded up: what a kernel tells its code. */
static inline uint32_t template_cores(const struct wire_limits *limits)
{
	return (limits->cpu_milli + 999) / 1000;
}
/* Asks for a process of the kernel, whose ends of pipes and socket are passed on; kernel_on_made or
 * kernel_on_failed follows, unless the kernel is taken out of `waiting` before. */
void template_make_kernel(struct template *template, struct kernel *kernel);
/* Was it this one's zygote? Then it is started again. */
bool template_on_exit(struct warden *warden, pid_t pid, int status);
/* All warm, or failed often enough to be given up. */
bool templates_are_settled(const struct warden *warden);

#endif
