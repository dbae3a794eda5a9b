/* Sandboxes that commands make: what is sent for one, and its end with the command. */
#ifndef CLI_CREATE_H
#define CLI_CREATE_H

#include "cli/daemon.h"

/* The caller's. `template_name` NULL: the daemon's first. */
json_t *create_body(const char *template_name, const char *made_by);
/* Ends a sandbox that `command` made for itself, or says that it is kept or could not be ended.
 * True when it is gone. */
bool create_end(struct daemon *daemon, const char *command, const char *id, bool is_kept);

#endif
