/* What a runner has started, by /proc: for interrupts that must reach what does not listen. */
#ifndef KERNELS_PROCESSES_H
#define KERNELS_PROCESSES_H

#include <stdint.h>
#include <sys/types.h>

/* Now, in the ticks in which /proc tells when a process was started. */
uint64_t processes_now(void);
/* Who is left alone. */
enum processes_spared {
	SPARED_NONE,
	SPARED_IGNORING,  /* those that ignore SIGINT: a shell's background jobs do */
	SPARED_LISTENING, /* those that ignore or catch it */
};

/* Sends the signal to the descendants of `root` (not to itself) that were started at `since` or
 * later. */
void processes_signal(pid_t root, uint64_t since, enum processes_spared spared, int number);

#endif
