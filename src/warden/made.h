/* What a zygote says it has made, before it is believed: zygotes run code of their templates. */
#ifndef WARDEN_MADE_H
#define WARDEN_MADE_H

#include "warden/sandbox.h"

enum made {
	MADE_TRUE,  /* a child of the warden in that sandbox, and not one that is known already */
	MADE_GONE,  /* there is no such process any more */
	MADE_FALSE, /* it is somebody else: not to be signalled, nor looked at */
};

/* A child of the warden's keeps its number until the warden reaps it, so what is true stays true. */
enum made made_look(struct sandbox *sandbox, pid_t pid);

#endif
