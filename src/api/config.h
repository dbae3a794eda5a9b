/*
 * The api's configuration: made by the keeper, read once from a memfd. Trusted, but checked: what
 * is missing or of the wrong kind stops the start.
 */
#ifndef API_CONFIG_H
#define API_CONFIG_H

#include "base/error.h"
#include "wire/requests.h"

#include <stdint.h>

struct limits { /* a sandbox's, as the API counts them */
	int64_t memory_mb, cpu_milli, processes, files_mb, inodes, cell_seconds;
};

struct template
{
	char name[TEMPLATE_NAME_SIZE];
	char **aliases; /* owned, as is all below */
	size_t alias_count;
	char *json; /* as capabilities shows it */
};

struct config {
	char *version, *address, *database; /* owned */
	uint8_t key_hash[32];
	char **hosts; /* owned: further Host names that are served */
	size_t host_count;
	int64_t ttl_seconds;
	struct limits limits;       /* defaults */
	struct limits caps;         /* the most that may be asked for */
	int64_t sandboxes;          /* at most, an owner */
	struct template *templates; /* owned; the first is the default */
	size_t template_count;
	char *layers_json;              /* owned: as capabilities shows them */
	char *network_default;          /* owned */
	bool is_preview_token_required; /* on preview hosts */
};

bool config_read(struct config *config, int fd, struct error *err);
void config_deinit(struct config *config);
/* By name or alias; NULL when there is none. */
const struct template *config_template(const struct config *config, const char *name);

#endif
