/* The answer to a file call: what went wrong in the contract's words, and sending it. */
#ifndef INIT_ANSWER_H
#define INIT_ANSWER_H

#include "wire/inside.h"

#include <stdbool.h>
#include <stddef.h>

/* Both set the error and return false. */
bool answer_fail(struct inside_file_answer *answer, enum inside_error error);
bool answer_fail_os(struct inside_file_answer *answer, int os_error);

/* Sends all of it, waiting for room; false and errno when the peer is gone or stalls. */
bool answer_send(int fd, const void *bytes, size_t size);

/* The peer has closed its end altogether (not just its writing side). */
bool answer_is_hung_up(int fd);

#endif
