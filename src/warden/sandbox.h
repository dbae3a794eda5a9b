/*
 * A sandbox: one init in namespaces of its own, one slice of ids, one box of limits, up to
 * KERNELS_A_SANDBOX kernels.
 *
 *   STARTING --init says ready--> LIVE --release, init's death--> ENDING --all reaped--> gone
 *
 * It is made for a claim, or for nobody yet (pool.h), and then claimed while it is LIVE. Until it
 * is claimed the api knows nothing of it.
 */
#ifndef WARDEN_SANDBOX_H
#define WARDEN_SANDBOX_H

#include "warden/kernel.h"
#include "warden/warden.h"

enum sandbox_state { SANDBOX_STARTING, SANDBOX_LIVE, SANDBOX_ENDING };
enum sandbox_pause { PAUSE_NONE, PAUSE_FREEZING, PAUSE_FROZEN }; /* pause.h */

struct sandbox {
	struct warden *warden;      /* not owned */
	struct list link;           /* in warden->sandboxes */
	struct sandbox *table_next; /* in the table of the claimed */
	struct list pool_link;      /* in template->pool while it is unclaimed and not ending */
	bool is_claimed;
	struct template *template; /* not owned: outlives its sandboxes */
	struct sandbox_id id;
	char name[SANDBOX_ID_TEXT]; /* the id as text: for the log */
	char box[SANDBOX_ID_TEXT];  /* its folder of control groups: `name`, or that of its birth */
	struct wire_limits limits;
	enum sandbox_state state;
	enum sandbox_end end; /* why it is ending */
	uint32_t slice;
	uint32_t claim_serial;
	pid_t init_pid;    /* 0 once reaped */
	struct child init; /* in the table of children until then */
	int init_status;
	int init_pidfd; /* owned */
	int control_fd; /* owned: our end of init's control socket */
	int files_fd;   /* owned: root of its files, until it is claimed; -1 */
	struct loop_source control;
	struct loop_timer
		timer; /* start-up limit; is it frozen; then: try to remove the box again */
	enum sandbox_pause pause;
	uint32_t pause_serial; /* of the PAUSE that is not answered yet */
	unsigned pause_looks;
	unsigned removal_tries;
	uint64_t oom_seen;               /* the counter when it was last looked at */
	struct loop_timer standby_timer; /* how long kernels that nobody asked for stay */
	struct kernel
		*kernels[KERNEL_PLACES]; /* owned; NULL: free slot; standbys are behind the slots */
};

/* What one is made of and for. */
struct sandbox_plan {
	struct template *template;
	struct sandbox_id id;
	struct wire_limits limits;
	bool is_claimed;
	uint32_t claim_serial;
};

/* Starts one. Where it is claimed CLAIMED or FAILED goes to the api later, else the pool is
 * told. */
struct sandbox *sandbox_make(
	struct warden *warden, const struct sandbox_plan *plan, struct error *err);
/* Tells the api that its claim is met. */
void sandbox_tell_claimed(struct sandbox *sandbox, const char *from);
/* A claimed one. */
struct sandbox *sandbox_find(struct warden *warden, const struct sandbox_id *id);
/* Kills all of it; SANDBOX_ENDED goes out once nothing is left. Idempotent. */
void sandbox_end(struct sandbox *sandbox, enum sandbox_end reason);
bool sandbox_on_exit(struct warden *warden, pid_t pid, int status);
/* Called by a kernel that is gone; may free the sandbox. */
void sandbox_on_kernel_gone(struct sandbox *sandbox);
/* Processes in it that the memory limit has killed so far. */
uint64_t sandbox_oom_kills(const struct sandbox *sandbox);
/* From the counters of its groups. */
void sandbox_usage(const struct sandbox *sandbox, struct warden_usage *ret_usage);
/* Adds what its files take. */
void sandbox_files_usage(const struct sandbox *sandbox, struct warden_usage *usage);
/* The claim as it holds: for CLAIMED and SANDBOX_ITEM. */
struct warden_claim sandbox_describe(const struct sandbox *sandbox, uint16_t op, uint32_t serial);
/* Those of the limits that control groups hold. */
struct cgroup_limits sandbox_group_limits(const struct wire_limits *limits);

#endif
