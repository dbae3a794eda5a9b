/* Constants of the kernel that are newer than the headers of Debian 12, each with its kernel. */
#ifndef BASE_KERNEL_H
#define BASE_KERNEL_H

#include <stdint.h>
#include <sys/syscall.h>

/* clone3 (5.3) as a struct of our own: the headers' lacks nothing, but glibc has no wrapper. */
struct kernel_clone_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

/* mount_setattr (5.12) */
struct kernel_mount_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

#endif
