/* The environment of what is executed as the sandbox's user: commands, terminals, and runners other
 * than Python's (which never executes anything, and sets its own). */
#ifndef JAIL_ENVIRONMENT_H
#define JAIL_ENVIRONMENT_H

#include <stddef.h>

/* What the template's ENV lines set, as the builder has written it: NAME=value, one a line. */
#define IMAGE_ENVIRONMENT "/usr/share/sandglass/environment"

/* One thread for each library of linear algebra: many small processes share few cores. */
#define USER_SURROUNDINGS \
	"HOME=/home/user", "USER=user", "LOGNAME=user", "SHELL=/bin/bash", \
		"PATH=/home/user/.local/bin:/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", \
		"TZ=UTC", "PIP_DISABLE_PIP_VERSION_CHECK=1", "OPENBLAS_NUM_THREADS=1", \
		"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1"

static char *const user_environment[] = {
	USER_SURROUNDINGS,
	"TERM=dumb",
	/* nothing may wait for a key */
	"PAGER=cat",
	"GIT_PAGER=cat",
	"MANPAGER=cat",
	"SYSTEMD_PAGER=",
	"LESS=-FRX",
	"EDITOR=true",
	"VISUAL=true",
	"GIT_EDITOR=true",
	"GIT_TERMINAL_PROMPT=0",
	"PIP_NO_INPUT=1",
	"PIP_RETRIES=1", /* without a network five tries take eight seconds to say what one says */
	/* what was printed before a limit, or while a stream is read, must be there */
	"PYTHONUNBUFFERED=1",
	NULL,
};

/* `own` (NULL-terminated), and what the image sets; of a name that is in both the image's value
 * counts. Fresh memory that lives until the process executes another program; `own` itself where
 * there is nothing to add. To be called inside the sandbox. */
char *const *environment_with_image(char *const own[]);

#endif
