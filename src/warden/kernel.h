/*
 * A kernel: a process that joined a sandbox, its socket and pipes, and the clock of its run.
 *
 *   ASKED --zygote answers--> STARTING --first frame, posture right--> LIVE --exit--> gone
 *
 * The warden keeps duplicates of the api's ends, so that an api that was lost costs no kernel.
 *
 * A standby (standby.h) is one that nobody has asked for yet. Its place is behind the slots, one a
 * language, and the api hears nothing of it.
 */
#ifndef WARDEN_KERNEL_H
#define WARDEN_KERNEL_H

#include "base/list.h"
#include "warden/warden.h"

#define KERNEL_PLACES (KERNELS_A_SANDBOX + LANGUAGE_COUNT)

enum kernel_state { KERNEL_ASKED, KERNEL_STARTING, KERNEL_LIVE };

struct kernel {
	struct sandbox *sandbox; /* not owned */
	struct list link;        /* in template->waiting while ASKED, else alone */
	uint32_t slot, generation, start_serial;
	uint32_t cores;         /* of the share, as it was told */
	uint32_t zygote_serial; /* 0: the zygote was not asked yet */
	enum language language;
	enum kernel_state state;
	pid_t pid;          /* as the warden sees it; 0: none yet */
	struct child child; /* in the table of children while there is a pid */
	uint32_t inner_pid;
	int frames_fd, out_fd, err_fd;                   /* owned: the api's ends */
	int inner_frames_fd, inner_out_fd, inner_err_fd; /* owned until it is made; -1 after */
	struct loop_source frames;                       /* watched until the first frame */
	struct loop_timer timer;                         /* start-up limit; then the run's clock */
	uint32_t run;
	unsigned interrupts; /* sent in this run */
	bool is_run_late, is_stop_asked;
	uint64_t oom_before;
};

/* A new kernel's own; and the descriptors, and the question to the template's zygote. */
struct kernel_plan {
	uint32_t slot, generation, start_serial;
	enum language language;
};
bool kernel_make(struct sandbox *sandbox, const struct kernel_plan *plan, struct error *err);
/* Gives the slot its standby, or makes one. */
bool kernel_start(struct sandbox *sandbox, const struct warden_kernel *request, struct error *err);
struct kernel *kernel_free(struct kernel *kernel);
void kernel_on_made(struct kernel *kernel, pid_t pid);
void kernel_on_failed(struct kernel *kernel, const struct error *err);
void kernel_on_exit(struct kernel *kernel, int status);
bool kernel_is_standby(const struct kernel *kernel);
/* KERNEL_STARTED to the api. */
void kernel_tell_started(struct kernel *kernel);
bool kernel_run_begin(struct kernel *kernel, const struct warden_run *request, struct error *err);
void kernel_run_end(struct kernel *kernel, uint32_t run);
void kernel_interrupt(struct kernel *kernel, uint32_t run);
void kernel_stop(struct kernel *kernel);
/* As KERNEL_STARTED or KERNEL_ITEM; ret_fds gets the three descriptors, which stay the kernel's. */
struct warden_kernel kernel_describe(
	const struct kernel *kernel, uint16_t op, uint32_t serial, int ret_fds[3]);

#endif
