/* See hosts.h. Only the canonical spellings are accepted: "127.1" or "0x7f.1" are no loopback here.
 */
#include "api/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_LIMIT 256

/* The name without its port; false where that is malformed. */
static bool split_host(const char *host, char name[NAME_LIMIT])
{
	size_t size = strlen(host), end;
	if (host[0] == '[') {
		const char *bracket = strchr(host, ']');
		if (!bracket)
			return false;
		end = (size_t)(bracket - host) + 1;
	} else {
		end = strcspn(host, ":");
	}
	if (end == 0 || end >= NAME_LIMIT)
		return false;
	if (end < size &&
		(host[end] != ':' || strspn(host + end + 1, "0123456789") != size - end - 1 ||
			size - end > 6))
		return false;
	snprintf(name, NAME_LIMIT, "%.*s", (int)end, host);
	return true;
}

static bool is_loopback_literal(const char *name)
{
	struct in_addr address;
	if (strcmp(name, "[::1]") == 0)
		return true;
	return inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool is_label_text(const char *name, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._",
			    name[i]))
			return false;
	return size > 0;
}

static bool is_localhost(const char *name)
{
	static const char suffix[] = ".localhost";
	size_t size = strlen(name), suffix_size = sizeof(suffix) - 1;
	if (strcasecmp(name, "localhost") == 0)
		return true;
	return size > suffix_size && strcasecmp(name + size - suffix_size, suffix) == 0 &&
	       is_label_text(name, size - suffix_size);
}

bool host_is_served(const char *host, char *const *extra, size_t extra_count)
{
	char name[NAME_LIMIT];
	if (!host || !split_host(host, name))
		return false;
	if (is_loopback_literal(name) || is_localhost(name))
		return true;
	for (size_t i = 0; i < extra_count; i++)
		if (strcasecmp(name, extra[i]) == 0)
			return true;
	return false;
}

bool origin_is_own(const char *origin, const char *host)
{
	const char *name = strstr(origin, "://");
	if (!name || (strncmp(origin, "http://", 7) != 0 && strncmp(origin, "https://", 8) != 0))
		return false;
	return strcasecmp(name + 3, host) == 0;
}
