/*
 * See landlock.h. Each right the kernel knows is handled, so that what no rule grants is refused;
 * kernels that know fewer handle fewer. Any Landlock domain refuses mounting as well, also to root
 * of a namespace, which is half of why user code gets one.
 */
#include "jail/landlock.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Newer than the headers of Debian 12 (6.1). */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* 6.2 */
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15) /* 6.10 */
#endif

static const uint64_t handled_by_version[] = {
	0, (1ULL << 13) - 1, /* 1: 5.13 */
	(1ULL << 14) - 1,    /* 2: REFER, 5.19 */
	(1ULL << 15) - 1,    /* 3: TRUNCATE, 6.2 */
	(1ULL << 15) - 1,    /* 4: network, 6.7 */
	(1ULL << 16) - 1,    /* 5: IOCTL_DEV, 6.10 */
};

#define READ_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_RIGHTS \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | \
		LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE)
#define FILE_RIGHTS \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
		LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_TRUNCATE | \
		LANDLOCK_ACCESS_FS_IOCTL_DEV)

int landlock_version(void)
{
	long version =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return version < 0 ? 0 : (int)version;
}

static uint64_t access_of(unsigned rights)
{
	uint64_t access = 0;
	if (rights & LANDLOCK_READ)
		access |= READ_RIGHTS;
	if (rights & LANDLOCK_EXECUTE)
		access |= LANDLOCK_ACCESS_FS_EXECUTE;
	if (rights & LANDLOCK_WRITE)
		access |= WRITE_RIGHTS;
	if (rights & LANDLOCK_DEVICES)
		access |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	return access;
}

static bool add_rule(
	int ruleset, const struct landlock_rule *rule, uint64_t handled, struct error *err)
{
	cleanup_close int fd =
		rule->path ? open(rule->path, O_PATH | O_CLOEXEC) : fd_duplicate(rule->fd);
	if (fd < 0 && errno == ENOENT)
		return true;
	struct stat found;
	if (fd < 0 || fstat(fd, &found) < 0)
		return error_from_os(err, errno, "cannot open '%s' for a Landlock rule",
			rule->path ? rule->path : "a descriptor");
	struct landlock_path_beneath_attr beneath = {
		.allowed_access = access_of(rule->rights) & handled,
		.parent_fd = fd,
	};
	if (!S_ISDIR(found.st_mode))
		beneath.allowed_access &= FILE_RIGHTS;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0)
		return error_from_os(err, errno, "cannot add a Landlock rule for '%s'",
			rule->path ? rule->path : "a descriptor");
	return true;
}

bool landlock_apply(const struct landlock_rule *rules, size_t count, struct error *err)
{
	int version = landlock_version();
	if (version < 1) {
		error_set(err, ERROR_DEGRADED, "this kernel has no Landlock");
		return error_hint(err, "boot with lsm=landlock,... on a kernel from 5.13 on");
	}
	size_t row = MIN((size_t)version, ARRAY_SIZE(handled_by_version) - 1);
	uint64_t handled = handled_by_version[row];
	struct {
		uint64_t handled_access_fs;
	} attributes = { handled };
	cleanup_close int ruleset =
		(int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
	if (ruleset < 0)
		return error_from_os(err, errno, "cannot make a Landlock ruleset");
	for (size_t i = 0; i < count; i++)
		if (!add_rule(ruleset, &rules[i], handled, err))
			return false;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return error_from_os(err, errno, "cannot apply Landlock");
	return true;
}
