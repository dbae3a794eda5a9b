/* See net.h. Without a route everything but loopback fails at once with ENETUNREACH. */
#include "jail/net.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

bool net_loopback_only(const char *proc_path, struct error *err)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/sys/net/ipv6/conf/all/disable_ipv6", proc_path);
	struct error missing;
	if (!fd_write_kernel_file(AT_FDCWD, path, "1", &missing) && missing.os_error != ENOENT) {
		*err = missing;
		return false;
	}
	cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_from_os(err, errno, "cannot make a socket");
	struct ifreq request = { .ifr_flags = IFF_UP | IFF_RUNNING };
	strcpy(request.ifr_name, "lo");
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return error_from_os(err, errno, "cannot bring lo up");
	return true;
}
