/* A command in a sandbox that reads our standard input, as both go on. */
#ifndef CLI_EXEC_INPUT_H
#define CLI_EXEC_INPUT_H

#include "cli/daemon.h"

/* Both streams go to ours; *ret_status is the command's exit code. False and err: it has none, for
 * the reason told. `*ret_is_late`: since its time was over. */
bool exec_with_input(struct daemon *daemon, const char *id, const char *text, size_t size,
	int64_t timeout_s, int *ret_status, bool *ret_is_late, struct error *err);

#endif
