/*
 * The keeper (sandglassd): the one process with its starter's rights. It reads its configuration, keeps the
 * state folder, mounts templates, starts warden and api, starts them again, and ends them. It reads nothing
 * a client or a sandbox wrote: only fixed messages of its children, their exits, and signals.
 *
 * Files: main.c (arguments, birth, the loop), config.c, state.c (DIR), ids.c (host ids), images.c (templates), nursery.c
 * (warden), service.c (api), supervise.c (who lives, who is started again, the end).
 */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include "base/list.h"
#include "jail/cgroup.h"
#include "loop/loop.h"
#include "wire/requests.h"

#include <jansson.h>
#include <limits.h>

#define KEEPER_NAMES 16

struct config {
	char listen_host[256];
	unsigned listen_port;
	uint32_t id_base;       /* 0 in the configuration: the first range that is free */
	unsigned degraded;      /* LOCKDOWN_WITHOUT_* */
	struct wire_limits limits, caps;
	unsigned cell_seconds, cell_seconds_cap, ttl_seconds;
	unsigned sandboxes;     /* at once at most */
	json_t *hosts;          /* owned array of strings */
	char *templates[KEEPER_NAMES]; /* owned; none: all that are built */
	char network_default[16];
	bool is_preview_token_required; /* on preview hosts */
};

struct state {
	char folder[PATH_MAX];  /* absolute */
	int lock_fd;            /* held for life */
	int ids_fd;             /* held for life: the claim on the range of ids */
	char key_hash[65];      /* SHA-256 of the first key's 40 digits, hex */
};

struct image {
	struct list link;
	char path[PATH_MAX];    /* the image file */
	json_t *about;          /* owned: template.json */
};

struct child {
	pid_t pid;              /* 0: not running */
	int fd;                 /* owned: the keeper's end; -1 */
	struct loop_source source;
	bool is_ready;
	int64_t started_ms;
	unsigned quick_ends;    /* in a row */
};

struct keeper {
	struct config config;
	struct state state;
	struct list images;     /* struct image.link */
	struct cgroup_tree cgroups;
	struct loop loop;
	struct loop_source signals;
	struct loop_timer timer; /* while stopping: patience; else: start again */
	int listen_fd;
	char address[300];      /* "127.0.0.1:8080" */
	char own_folder[PATH_MAX]; /* where this program lies, and its helpers */
	struct child warden, api;
	bool is_ready_told, is_stopping, is_failed;
};

/* ---- config.c ---- */
bool config_load(struct config *config, const char *path, struct error *err);
bool config_set_listen(struct config *config, const char *text, struct error *err);
void config_deinit(struct config *config);

/* ---- state.c ---- */
/* Makes what is missing of the folder, takes the lock, makes or reads the key. */
bool state_open(struct state *state, const char *folder, uid_t api_uid, struct error *err);
bool state_write_address(const struct state *state, const char *address, struct error *err);
void state_close(struct state *state);

/* ---- ids.c ---- */
/* Claims the range of host ids from *id_base up for this keeper alone; with 0 the first free one from
 * the default up. ret_fd holds the claim. Two daemons with the same ids would share limits and files. */
bool ids_claim(uint32_t *id_base, int *ret_fd, struct error *err);

/* ---- images.c ---- */
bool images_find(struct keeper *keeper, struct error *err);

/* ---- nursery.c ---- */
bool nursery_start(struct keeper *keeper, struct error *err);

/* ---- service.c ---- */
bool service_start_api(struct keeper *keeper, struct error *err);
/* The layers of the walls, as GET /v1/capabilities shows them. */
json_t *service_layers(const struct keeper *keeper);

/* ---- supervise.c ---- */
bool supervise(struct keeper *keeper, struct error *err);

#endif
