/*
 * The api's configuration: made by the keeper, read once from a memfd. Trusted, but checked: what
 * is missing or of the wrong kind stops the start.
 */
#ifndef API_CONFIG_H
#define API_CONFIG_H

#include "base/error.h"
#include "store/keys.h"
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
	uint32_t languages; /* LANGUAGE_BIT of each */
	bool is_made;       /* built over the API, so it may be built over and deleted there */
	char *json;         /* as capabilities shows it */
};

/* What one owner may have at once; 0: not counted. */
struct owner_caps {
	char owner[OWNER_TEXT];
	int64_t sandboxes, memory_mb;
	double creates_a_second;
};

struct config {
	char *version, *address, *database; /* owned */
	struct key_row *keys; /* owned: those of the state folder; the first is the operator's */
	size_t key_count;
	char **hosts; /* owned: further Host names that are served */
	size_t host_count;
	bool has_open_metrics; /* GET /metrics needs no key */
	int64_t ttl_seconds;
	struct limits limits;      /* defaults */
	struct limits caps;        /* the most that may be asked for */
	struct owner_caps *owners; /* owned; the first counts for whoever has none by name */
	size_t owner_count;
	struct template *templates; /* owned; the first is the default */
	size_t template_count;
	char *layers_json;              /* owned: as capabilities shows them */
	char *network_default;          /* owned */
	bool is_preview_token_required; /* on preview hosts */
};

bool config_read(struct config *config, int fd, struct error *err);
void config_deinit(struct config *config);
/* Takes what may change while the process runs: templates and keys. */
void config_renew(struct config *config, struct config *fresh);
/* Never NULL. */
const struct owner_caps *config_owner(const struct config *config, const char *owner);
/* Who has the state folder's own key, whichever key is sent; "" without one. */
const char *config_operator(const struct config *config);
bool config_is_operator(const struct config *config, const char *owner);
/* By name or alias; NULL when there is none. */
const struct template *config_template(const struct config *config, const char *name);

#endif
