/* Which Host headers are served, and which web pages may ask: what keeps browsers of other origins
 * and rebound names out. */
#ifndef API_HOSTS_H
#define API_HOSTS_H

#include "base/error.h"

#include <stddef.h>

/* A loopback literal, "localhost", "*.localhost" or one of `extra`; the port is ignored. */
bool host_is_served(const char *host, char *const *extra, size_t extra_count);
/* A page's Origin must be the very host that is asked. */
bool origin_is_own(const char *origin, const char *host);

#endif
