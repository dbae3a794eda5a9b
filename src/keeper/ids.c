/*
 * The range of host ids. It must be nobody else's: the kernel counts processes, keys and watches by
 * uid, and files of one daemon would belong to users of another. The claim is the name of a bound
 * abstract socket, which the kernel frees with its holder; so nothing is written anywhere, and
 * nothing is left behind. A range in which a process lives is not taken either.
 */
#include "jail/ids.h"

#include "base/fd.h"
#include "keeper/keeper.h"

#include <dirent.h>
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

/* The four user ids of a process, from a folder of /proc; 0 where it is gone. */
static unsigned read_uids(int proc_fd, const char *pid, uint32_t uids[4])
{
	char path[NAME_MAX + 16];
	snprintf(path, sizeof(path), "%s/status", pid);
	cleanup_free char *status = fd_read_file(proc_fd, path, 8192, NULL, NULL);
	const char *line = status ? strstr(status, "\nUid:") : NULL;
	if (!line ||
		sscanf(line, "\nUid: %u %u %u %u", &uids[0], &uids[1], &uids[2], &uids[3]) != 4)
		return 0;
	return 4;
}

/* Whoever runs as one of them without a claim: another program, or what a killed keeper left
 * dying. */
static bool is_lived_in(uint32_t base)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool is_found = false;
	while (proc && !is_found && (entry = readdir(proc))) {
		uint32_t uids[4];
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		for (unsigned i = read_uids(dirfd(proc), entry->d_name, uids); i > 0; i--)
			is_found = is_found || uids[i - 1] - base < IDS_COUNT;
	}
	if (proc)
		closedir(proc);
	return is_found;
}

bool ids_claim(uint32_t *id_base, int *ret_fd, struct error *err)
{
	bool is_chosen = *id_base != 0;
	uint32_t base = is_chosen ? *id_base : IDS_DEFAULT_BASE;
	for (unsigned i = 0; i < (is_chosen ? 1 : RANGES); i++, base += STEP) {
		*ret_fd = claim(base);
		if (*ret_fd < 0 && errno != EADDRINUSE)
			return error_from_os(err, errno, "cannot claim host ids");
		if (*ret_fd < 0)
			continue;
		if (!is_lived_in(base)) {
			*id_base = base;
			return true;
		}
		fd_close(ret_fd);
	}
	error_set(err, ERROR_CONFIG, "processes of somebody else have host ids from %u on",
		base - STEP);
	return error_hint(err, "leave id_base out, and a free range is chosen");
}
