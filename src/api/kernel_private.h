/*
 * For the files of a kernel only: kernel.c (its life), kernel_run.c (source and frames of a run),
 * kernel_output.c (the two pipes).
 */
#ifndef API_KERNEL_PRIVATE_H
#define API_KERNEL_PRIVATE_H

#include "api/api.h"
#include "api/kernel.h"
#include "api/session.h"

/* kernel.c */
struct api *kernel_api(const struct kernel *kernel);
/* Without a warden the sandbox is about to end, and nothing is to be done for its kernels. */
bool kernel_has_warden(const struct kernel *kernel);
/* Tells the warden `op` about the run under way. */
void kernel_tell_run(const struct kernel *kernel, uint16_t op);
/* Bounds what is awaited in this state; the clock stands while the sandbox is paused. */
void kernel_wait_at_most(struct kernel *kernel, int64_t ms);

/* kernel_run.c */
void kernel_on_frames(struct loop_source *source, uint32_t events);
/* Sends of the run's source what the socket takes; the rest follows when it takes more. */
void kernel_send_code(struct kernel *kernel);
/* No more frames of this run. */
void kernel_end_frames(struct kernel *kernel);
/* Its DONE has come. Near its limit the warden may say so first. May free the kernel. */
void kernel_finish_run(struct kernel *kernel);

/* kernel_output.c */
void kernel_on_stream(struct loop_source *source, uint32_t events);
void kernel_watch_streams(struct kernel *kernel);
/* Reads what is there, up to a bound. */
void kernel_drain(struct kernel *kernel);

#endif
