/* What listens inside, and connections to it. */
#ifndef INIT_PORTS_H
#define INIT_PORTS_H

#include "wire/inside.h"

#include <stdbool.h>

/* Answers INSIDE_PORTS. May take a while: in a worker. */
void ports_serve(int answer_fd);
/* Answers INSIDE_CONNECT at once; nothing of it waits. */
void ports_connect(int answer_fd, uint32_t port);

/* The port of a line of /proc/net/tcp or tcp6 that listens for 127.0.0.1; 0: it does not. */
uint16_t ports_of_line(const char *line);
/* Puts it in its place, once; where there is no room the largest goes. */
void ports_add(struct inside_ports_answer *answer, uint16_t port);

#endif
