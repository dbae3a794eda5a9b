/*
 * The keeper (sandglassd): the one process with its starter's rights. It reads its configuration,
 * keeps the state folder, mounts templates, starts warden and api, starts them again, and ends
 * them. It reads nothing a client or a sandbox wrote: only fixed messages of its children, their
 * exits, and signals.
 *
 * Files: main.c (arguments, birth, the loop), config.c, state.c (DIR), keys.c, ids.c (host ids),
 * images.c (templates), reload.c (what changes while it runs), builder.c (templates built over the
 * API), nursery.c (warden), service.c (api), supervise.c (who lives, who is started again, the
 * end), guard.c (who thaws when the keeper is gone).
 */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include "base/list.h"
#include "jail/cgroup.h"
#include "loop/loop.h"
#include "wire/channel.h"
#include "wire/requests.h"

#include <jansson.h>
#include <limits.h>

#define KEEPER_NAMES 16
#define OWNER_SIZE 39 /* characters of an owner's name, at most */

struct config {
	char listen_host[256];
	unsigned listen_port;
	uint32_t id_base;  /* 0 in the configuration: the first range that is free */
	unsigned degraded; /* LOCKDOWN_WITHOUT_* */
	struct wire_limits limits, caps;
	unsigned cell_seconds, cell_seconds_cap, ttl_seconds;
	unsigned sandboxes;       /* at once at most */
	unsigned pool;            /* that stand ready, a template */
	unsigned pool_languages;  /* LANGUAGE_BIT: of each of which those have a kernel ready */
	json_t *hosts;            /* owned array of strings */
	json_t *owners;           /* owned object: what each owner may have */
	double memory_overcommit; /* of sandboxes' limits together against the machine's; 0: any */
	uint64_t memory_reserve;  /* bytes that a new sandbox must leave available */
	bool has_open_metrics;    /* GET /metrics needs no key */
	char *templates[KEEPER_NAMES]; /* owned; none: all that are built */
	char network_default[16];
	bool is_preview_token_required; /* on preview hosts */
};

struct state {
	char folder[PATH_MAX]; /* absolute */
	int lock_fd;           /* held for life */
	int ids_fd;            /* held for life: the claim on the range of ids */
	char key_hash[65];     /* SHA-256 of the first key's 40 digits, hex */
	char key_prefix[28];   /* what that key begins with */
	int64_t key_made_ms;   /* since when its file is as it is */
};

struct image {
	struct list link;
	char path[PATH_MAX]; /* the image file */
	json_t *about;       /* owned: template.json, as served; NULL while it is new */
	json_t *next;        /* owned: the same of what it is replaced by; NULL: nothing */
	bool is_made;        /* over the API: it lies in the state folder */
};

struct build {     /* of a template, asked for by the api; one at a time */
	pid_t pid; /* of the builder, or of who clears up after it; 0: neither */
	bool is_clearing;
	bool is_serving; /* it is built, and the warden warms it */
	bool is_unheard; /* the api that asked is gone */
	char name[TEMPLATE_NAME_SIZE];
	uint32_t serial; /* of the order */
	uint32_t ending; /* enum keeper_ending */
	int32_t detail;
	struct loop_timer patience;
};

struct child {
	pid_t pid; /* 0: not running */
	int fd;    /* owned: the keeper's end; -1 */
	struct loop_source source;
	bool is_ready;
	int64_t started_ms;
	unsigned quick_ends; /* in a row */
};

struct keeper {
	struct config config;
	struct state state;
	struct list images; /* struct image.link */
	struct cgroup_tree cgroups;
	struct loop loop;
	struct loop_source signals;
	struct loop_source changes; /* inotify: the image cache, the folder of keys */
	struct loop_timer settle;   /* a moment after the last change */
	bool is_template_new;       /* the warden has one that the api does not know yet */
	bool is_look_due;           /* there was a change while no warden was ready */
	struct loop_timer timer;    /* while stopping: patience; else: start again */
	int listen_fd;
	char address[300];         /* "127.0.0.1:8080" */
	char own_folder[PATH_MAX]; /* where this program lies, and its helpers */
	struct child warden, api;
	struct build build;
	pid_t guard_pid;     /* 0: not running */
	unsigned guard_ends; /* unasked */
	int guard_fd;        /* owned: its end is the guard's word to begin; -1 */
	bool is_ready_told, is_stopping, is_failed;
};

/* ---- config.c ---- */
bool config_load(struct config *config, const char *path, struct error *err);
bool config_set_listen(struct config *config, const char *text, struct error *err);
void config_deinit(struct config *config);
/* Letters, digits, '.', '_' and '-', at least one, at most `most`. */
bool config_is_name(const char *text, size_t most);

/* ---- state.c ---- */
/* Makes what is missing of the folder, takes the lock, makes or reads the key. */
bool state_open(struct state *state, const char *folder, uid_t api_uid, struct error *err);
bool state_write_address(const struct state *state, const char *address, struct error *err);
void state_close(struct state *state);

/* ---- ids.c ---- */
/* Claims the range of host ids from *id_base up for this keeper alone; with 0 the first free one
 * from the default up. ret_fd holds the claim. Two daemons with the same ids would share limits and
 * files. */
bool ids_claim(uint32_t *id_base, int *ret_fd, struct error *err);

/* ---- keys.c ---- */
/* The keys that the state folder names, as the api gets them. What is broken is logged and left
 * out. */
json_t *keys_json(const struct state *state);

/* ---- images.c ---- */
bool images_find(struct keeper *keeper, struct error *err);
/* Where the links are; false and err when nothing says. */
bool images_folder(char *path, size_t size, struct error *err);
/* Where the links of those are that were built over the API. */
#define MADE_FOLDER_SIZE (PATH_MAX + 16)
void images_made_folder(const struct keeper *keeper, char path[MADE_FOLDER_SIZE]);
/* By name or alias; NULL. */
struct image *images_by_name(const struct keeper *keeper, const char *name);
/* Forgets it; its files stay. */
void images_drop(struct image *image);
/* Looks again. What is new or another than before is given to `take`; where that returns false, it
 * is left out. */
typedef bool (*images_take)(struct keeper *keeper, const struct image *image, struct error *err);
void images_renew(struct keeper *keeper, images_take take);
/* What was taken is served from now on. */
void images_settle(struct keeper *keeper);
/* What the image is or will be. */
static inline const json_t *image_about(const struct image *image)
{
	return image->next ? image->next : image->about;
}

/* ---- reload.c ---- */
/* Watches for changes of templates and keys. */
bool reload_start(struct keeper *keeper, struct error *err);
/* Somebody asks to look now. */
void reload_now(struct keeper *keeper);
/* The warden says that all its templates are settled. */
void reload_on_settled(struct keeper *keeper);

/* ---- builder.c ---- */
/* What the api asks for: a build, a removal. False where it is neither, or not well formed. */
bool builder_on_order(struct keeper *keeper, struct wire_packet *packet);
/* What was taken is served by now. */
void builder_on_settled(struct keeper *keeper);
/* Was it the builder's process? */
bool builder_on_exit(struct keeper *keeper, pid_t pid, int status);
/* The api is gone, or all ends: so does a build. Idempotent. */
void builder_stop(struct keeper *keeper);
/* At once, and waits for its end. */
void builder_kill(struct keeper *keeper);

/* ---- nursery.c ---- */
bool nursery_start(struct keeper *keeper, struct error *err);
/* One of those beside our own; -1 and err. */
int nursery_open_program(const struct keeper *keeper, const char *name, struct error *err);
bool nursery_send_template(struct keeper *keeper, const struct image *image, struct error *err);
bool nursery_send_forget(struct keeper *keeper, const char *name, struct error *err);

/* ---- service.c ---- */
bool service_start_api(struct keeper *keeper, struct error *err);
/* Tells it of templates and keys anew. */
bool service_send_config(struct keeper *keeper, struct error *err);

/* ---- guard.c ---- */
/* The control groups have to be there. */
bool guard_start(struct keeper *keeper, struct error *err);
/* Lets it do its work, and waits for its end. Idempotent. */
void guard_end(struct keeper *keeper);

/* ---- supervise.c ---- */
bool supervise(struct keeper *keeper, struct error *err);

#endif
