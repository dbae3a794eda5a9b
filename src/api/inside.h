/* Asking a sandbox's init: one packet a request, the answer comes on a socket that goes along. */
#ifndef API_INSIDE_H
#define API_INSIDE_H

#include "api/sandbox.h"
#include "wire/inside.h"

/* Fills in the version and sends, or keeps it until there is room. The descriptors stay the
 * caller's. False and err: nothing was asked; sandbox.busy where too much waits already. */
bool inside_ask(struct sandbox *sandbox, struct inside_request *request, const int *fds,
	unsigned fd_count, struct error *err);
/* Before init's socket is closed: drops what waits for it. */
void inside_discard(struct sandbox *sandbox);
/* Kills what a dead kernel left behind: all of its session, as seen inside. Nothing for 0. */
void inside_sweep(struct sandbox *sandbox, uint32_t session);
/* A connected pair: [0] is ours and does not block, [1] goes along. `type`: SOCK_STREAM,
 * SOCK_SEQPACKET. */
bool inside_pair(int type, int ret_ends[2], struct error *err);
/* Asks for something whose answer comes in packets on a socket of its own, and watches that:
 * `source` holds its descriptor from then on, also on failure (-1: there is none). */
bool inside_ask_watched(struct sandbox *sandbox, struct inside_request *request,
	struct loop_source *source, loop_on_ready on_answer, struct error *err);
/* A descriptor that init made, or why there is none. */
struct inside_gift {
	int fd;       /* the receiver's; -1 */
	int os_error; /* EPIPE where init hung up instead */
};
enum inside_gift_kind { INSIDE_GIFT_TERMINAL, INSIDE_GIFT_TCP };
/* Takes it from the answer socket; false: it is not there yet. */
bool inside_receive(int answer_fd, enum inside_gift_kind kind, struct inside_gift *ret);
/* The answer's error in the API's words; `path` is quoted. */
bool inside_error(uint32_t code, int os_error, const char *path, struct error *err);

#endif
