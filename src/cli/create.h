/* What is sent to make a sandbox. */
#ifndef CLI_CREATE_H
#define CLI_CREATE_H

#include "cli/daemon.h"

/* The caller's. `template_name` NULL: the daemon's first. */
json_t *create_body(const char *template_name, const char *made_by);

#endif
