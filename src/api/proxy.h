/*
 * One HTTP request passed on to a server inside a sandbox, and its answer passed back: both bodies
 * are streamed, the slower side slows the other. A WebSocket becomes a tunnel once the server has
 * agreed.
 */
#ifndef API_PROXY_H
#define API_PROXY_H

#include "api/call.h"
#include "api/forward.h"
#include "api/sandbox.h"

/* To be called at the request's head (ROUTE_RAW). Answers, whatever happens. */
void proxy_start(struct call *call, struct sandbox *sandbox, const struct exposure *exposure);
/* Whether the request asks for a WebSocket. */
bool proxy_is_upgrade(const struct http_request *request);

#endif
