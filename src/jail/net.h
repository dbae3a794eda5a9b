/* The network of a sandbox: its own namespace, and in it nothing but loopback. */
#ifndef JAIL_NET_H
#define JAIL_NET_H

#include "base/error.h"

/* Brings lo up and turns IPv6 off; needs CAP_NET_ADMIN of the namespace and a writable /proc/sys at
 * `proc_path` ("/proc"). */
bool net_loopback_only(const char *proc_path, struct error *err);

#endif
