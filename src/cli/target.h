/* Which daemon, and with which key: from a state folder or from the environment. */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include "base/error.h"

struct target {
	char api[256]; /* "http://127.0.0.1:8080", without a slash at the end */
	char key[128];
};

/* Reads DIR/address and DIR/key. Says what is wrong when the folder is none, cannot be read, or no
 * daemon has written its address yet. Whether it still runs shows only the first call. */
bool target_from_state(struct target *target, const char *state, struct error *err);
/* PANDASTACK_API and PANDASTACK_API_KEY. */
bool target_from_environment(struct target *target, struct error *err);

#endif
