/* Landlock: rules on files that a process can give itself and never take back. */
#ifndef JAIL_LANDLOCK_H
#define JAIL_LANDLOCK_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum landlock_right {
	LANDLOCK_READ = 1, /* read files, list folders */
	LANDLOCK_EXECUTE = 2,
	LANDLOCK_WRITE = 4,   /* write, make, remove ordinary things */
	LANDLOCK_DEVICES = 8, /* ioctl on devices */
};

struct landlock_rule {
	const char *path; /* NULL: fd */
	unsigned rights;  /* of all below path */
	int fd;
};

/* The version of the kernel's interface; 0 where there is none. */
int landlock_version(void);
/* Restricts this thread to the rules; needs no_new_privs. Device nodes can be made nowhere. A path
 * that does not exist is skipped. */
bool landlock_apply(const struct landlock_rule *rules, size_t count, struct error *err);

#endif
