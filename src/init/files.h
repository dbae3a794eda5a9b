/* File calls: read, write, list, stat and delete, as the sandbox's user. */
#ifndef INIT_FILES_H
#define INIT_FILES_H

#include "wire/inside.h"

#include <stdbool.h>

#define FILES_STALL_MS 60000 /* a peer that takes or gives nothing for that long is gone */
#define FILES_CHUNK 65536    /* bytes of content held at once */

/* In a process of its own that acts as the user already: serves the request on its answer socket.
 */
void files_serve(const struct inside_request *request, int answer_fd, uint32_t stall_ms);

/* The parts that have files of their own. They fill the answer; files_serve sends it. */
bool files_write(
	const struct inside_request *request, int answer_fd, struct inside_file_answer *answer);
bool files_delete(
	const struct inside_request *request, int answer_fd, struct inside_file_answer *answer);

#endif
