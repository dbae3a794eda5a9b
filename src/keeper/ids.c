/*
 * The range of host ids. It must be nobody else's: the kernel counts processes, keys and watches by uid, and
 * files of one daemon would belong to users of another. The claim is the name of a bound abstract socket,
 * which the kernel frees with its holder; so nothing is written anywhere, and nothing is left behind.
 */
#include "jail/ids.h"

#include "base/fd.h"
#include "keeper/keeper.h"

#include <errno.h>
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define STEP 0x110000u /* more than IDS_COUNT */
#define RANGES 64

static_assert(IDS_COUNT <= STEP, "ranges do not overlap");

/* -1 and errno EADDRINUSE: somebody has it. */
static int claim(uint32_t base)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int size = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "sandglass-ids-%u", base);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
	if (bind(fd, (struct sockaddr *)&name, length) == 0)
		return fd;
	int bind_errno = errno;
	close(fd);
	errno = bind_errno;
	return -1;
}

bool ids_claim(uint32_t *id_base, int *ret_fd, struct error *err)
{
	bool is_chosen = *id_base != 0;
	uint32_t base = is_chosen ? *id_base : IDS_DEFAULT_BASE;
	for (unsigned i = 0; i < (is_chosen ? 1 : RANGES); i++, base += STEP) {
		*ret_fd = claim(base);
		if (*ret_fd >= 0) {
			*id_base = base;
			return true;
		}
		if (errno != EADDRINUSE)
			return error_from_os(err, errno, "cannot claim host ids");
	}
	error_set(err, ERROR_CONFIG, "another sandglassd uses the host ids from %u on", *id_base);
	return error_hint(err, "leave id_base out, and a free range is chosen");
}
