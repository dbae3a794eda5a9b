/* Applies the programs made at build time, two a filter. See seccomp_policy.c for why two, and
 * their order. */
#include "jail/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp_filter.h"

static bool apply(const struct sock_filter *program, size_t size, struct error *err)
{
	struct sock_fprog call = {
		.len = (unsigned short)size,
		.filter = (struct sock_filter *)program,
	};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &call) < 0)
		return error_from_os(err, errno, "cannot apply the system call filter");
	return true;
}

bool seccomp_apply(struct error *err)
{
	return apply(seccomp_allow_list, ARRAY_SIZE(seccomp_allow_list), err) &&
	       apply(seccomp_refusals, ARRAY_SIZE(seccomp_refusals), err);
}

bool seccomp_apply_zygote(struct error *err)
{
	return apply(seccomp_zygote_allow_list, ARRAY_SIZE(seccomp_zygote_allow_list), err) &&
	       apply(seccomp_zygote_refusals, ARRAY_SIZE(seccomp_zygote_refusals), err);
}
