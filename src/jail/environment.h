/* The environment of what is executed as the sandbox's user: commands, and runners other than Python's (which
 * never executes anything, and sets its own). */
#ifndef JAIL_ENVIRONMENT_H
#define JAIL_ENVIRONMENT_H

#include <stddef.h>

static char *const user_environment[] = {
	"HOME=/home/user",
	"USER=user",
	"LOGNAME=user",
	"SHELL=/bin/bash",
	"PATH=/home/user/.local/bin:/usr/local/bin:/usr/bin:/bin",
	"LANG=C.UTF-8",
	"TZ=UTC",
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
	/* what was printed before a limit, or while a stream is read, must be there */
	"PYTHONUNBUFFERED=1",
	"PIP_DISABLE_PIP_VERSION_CHECK=1",
	/* one thread for each library of linear algebra: many small processes share few cores */
	"OPENBLAS_NUM_THREADS=1",
	"OMP_NUM_THREADS=1",
	"MKL_NUM_THREADS=1",
	"NUMEXPR_NUM_THREADS=1",
	NULL,
};

#endif
