/*
 * A sandbox as the api knows it: its row, its live descriptors, who is at work in it, and the clock
 * of its idle time. Life: starting (the warden is asked) -> running -> ending (no longer found;
 * freed when the warden says that it is over).
 */
#ifndef API_SANDBOX_H
#define API_SANDBOX_H

#include "api/api.h"
#include "api/writer.h"
#include "store/sandboxes.h"

#define TTL_LIMIT ((int64_t)10 * 365 * 86400) /* seconds */
#define METADATA_LIMIT ((size_t)16 * 1024)
#define METADATA_KEYS 64
#define GUESTS_LIMIT 256 /* commands, transfers and cells under way in one sandbox */

enum sandbox_state { SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_ENDING };
/* Of a running one: does what is in it stand still? Only in the first is work taken. */
enum sandbox_pause { SANDBOX_GOES, SANDBOX_PAUSING, SANDBOX_PAUSED, SANDBOX_RESUMING };

struct guest;
struct journal;
typedef void (*guest_on_end)(struct guest *guest, const struct error *why);
/* The sandbox is paused: clocks that count its work stand still (-1); or they go on, after that
 * long. */
typedef void (*guest_on_pause)(struct guest *guest, int64_t lasted_us);

/* Work under way in a sandbox: keeps it from being idle, and hears of its end. Embedded in the
 * worker. */
struct guest {
	struct list link;        /* in sandbox->guests */
	struct sandbox *sandbox; /* NULL when it is in none */
	guest_on_end on_end;     /* has to leave; may free itself */
	guest_on_pause on_pause; /* NULL, or set after guest_enter; may not leave */
	bool is_looking;         /* that is no use: set by guest_look, never later */
};

struct sandbox {
	struct api *api;             /* not owned */
	struct list link;            /* in api->sandboxes */
	struct sandbox *bucket_next; /* in api->buckets */
	struct sandbox_id id;
	char text[SANDBOX_ID_TEXT];
	char owner[OWNER_TEXT];
	char template_name[TEMPLATE_NAME_SIZE];
	char *metadata, *shown_metadata; /* owned JSON texts; the second without "secret." keys */
	int64_t ttl_seconds, created_ms;
	bool is_persistent;
	struct wire_limits limits;
	uint32_t cell_seconds; /* a cell's limit where it names none */
	enum sandbox_state state;
	bool is_listed;     /* the warden has it (while reconciling) */
	int init_fd;        /* owned; -1 before it runs */
	struct list outbox; /* of struct parcel (inside.c): requests for which init had no room */
	unsigned outbox_count;
	struct loop_source outlet; /* init_fd, while it is waited for */
	unsigned busy;             /* guests at work */
	unsigned looking;          /* guests that only look */
	size_t code_bytes;         /* of its cells that are not over */
	unsigned proxied;          /* of the guests: requests to its ports, and tunnels */
	int64_t idle_since_us;
	int64_t idle_since_ms; /* the same by the wall clock, so that it is told alike each time */
	struct loop_timer reaper;
	struct list guests;   /* of struct guest */
	struct list sessions; /* of struct session, oldest first */
	unsigned session_count;
	struct list runs; /* of struct run, owned: oldest first */
	struct {
		int64_t at_us; /* of the last sample; 0: none */
		uint64_t used_us;
		double percent; /* between the last two */
		bool has_percent;
	} cpu;
	struct journal *log, *events; /* references: what it prints, what happens to it */
	uint32_t generations[KERNELS_A_SANDBOX]; /* of the last kernel in each slot */
	uint32_t dying; /* bits of slots whose session is closed, but whose kernel still has to end
			 */
	uint32_t dying_pids[KERNELS_A_SANDBOX];
	uint64_t oom_kills;     /* by the memory limit, as far as known */
	uint64_t forks_refused; /* by the processes limit, as far as known */
	struct warden_request counting;
	struct list deletions; /* of struct deletion: who waits for its end */
	enum sandbox_pause pause;
	struct warden_request pausing; /* PAUSE or RESUME, under way */
	struct list pause_waiters;     /* calls; see waiters.h */
	int64_t paused_us;             /* since when clocks stand still */
};

/* A sandbox without descriptors, in state starting; counted and found by sandbox_find_any. */
struct sandbox *sandbox_new(struct api *api, const struct sandbox_row *row, struct error *err);
/* The warden has it: takes the descriptor, starts its clock. */
void sandbox_start(struct sandbox *sandbox, int init_fd);
/* Ends it: tells guests and sessions, marks the row, asks the warden to release it. Idempotent. */
void sandbox_end(struct sandbox *sandbox, const char *reason);
/* The warden says that it is over (or never had it): as sandbox_end where that has not been called,
 * then answers who waits for the end, and frees it. */
void sandbox_on_ended(struct sandbox *sandbox, const char *reason);
/* Without any effect on the row or the warden: the process ends. */
void sandbox_free(struct sandbox *sandbox);

/* A running one of that owner, by its id with or without dashes; NULL. */
struct sandbox *sandbox_find(struct api *api, const char *id, const char *owner);
struct sandbox *sandbox_find_any(struct api *api, const struct sandbox_id *id);

/* Asks the warden how many processes the memory limit has killed, so that the next is told apart.
 */
void sandbox_count_kills(struct sandbox *sandbox);

/* Refuses work (guest_enter) from the moment it is asked to pause. */
static inline bool sandbox_is_paused(const struct sandbox *sandbox)
{
	return sandbox->pause != SANDBOX_GOES;
}
/* False and err (sandbox.not_running) where it is paused. */
bool sandbox_takes_work(const struct sandbox *sandbox, struct error *err);
/* Only the state; pause.h does the rest. The idle time begins anew. */
void sandbox_set_pause(struct sandbox *sandbox, enum sandbox_pause pause);

/* The idle time begins anew; not that of a paused one, which nobody uses. */
void sandbox_touch(struct sandbox *sandbox);
void sandbox_set_life(struct sandbox *sandbox, int64_t ttl_seconds, bool is_persistent);
int64_t sandbox_idle_seconds(const struct sandbox *sandbox);
/* "expires_at", left out for persistent ones. */
void sandbox_write_expiry(const struct sandbox *sandbox, struct writer *writer);

/* False and err where it takes no more, or is paused (sandbox.not_running). */
bool guest_enter(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err);
/* For what only looks: it is no use, and does not put the sandbox's end off. */
bool guest_look(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err);
/* The same, of what works on nothing inside: it may be of a paused one, too. */
bool guest_look_from_outside(
	struct guest *guest, struct sandbox *sandbox, guest_on_end on_end, struct error *err);
void guest_leave(struct guest *guest); /* idempotent */

/* The deletions that wait for its end are answered. In sandboxes.c. */
void sandboxes_on_ended(struct sandbox *sandbox);

/* Its row; the metadata stays the sandbox's. */
struct sandbox_row sandbox_to_row(const struct sandbox *sandbox);
/* The API's object. Secrets in the metadata are shown to who creates it only. */
void sandbox_write(const struct sandbox *sandbox, struct writer *writer, bool shows_secrets);
void sandbox_write_row(const struct sandbox_row *row, const char *status, struct writer *writer);

#endif
