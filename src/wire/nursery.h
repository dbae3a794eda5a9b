/*
 * Messages between keeper and warden, and the first words of zygotes and inits to the warden. All
 * fixed sizes, over SOCK_SEQPACKET. The keeper sends SETUP, then TEMPLATE and LAYER, then API; the
 * warden answers READY when every zygote is warm or has failed. A TEMPLATE later on, of a new name
 * or a known one, is answered by READY once more; one of a known name takes the place of the other
 * when it is warm. FORGET is not answered.
 */
#ifndef WIRE_NURSERY_H
#define WIRE_NURSERY_H

#include "wire/channel.h"
#include "wire/requests.h"

#include <stdint.h>

#define NURSERY_VERSION 3
#define NURSERY_PRELOAD_SIZE 512
#define NURSERY_PROGRAM_SIZE 128

enum nursery_op {
	/* keeper -> warden */
	NURSERY_SETUP =
		1, /* descriptors: [0] init's program, [1..] cgroup folders (4 or 5, or 1 on v2) */
	NURSERY_LAYER,    /* descriptors: [0] mount of the runner layer */
	NURSERY_TEMPLATE, /* descriptors: [0] mount of the image */
	NURSERY_API,      /* descriptors: [0] a fresh channel to a fresh api */
	NURSERY_STOP,     /* end: kill all sandboxes, remove their groups, exit */
	NURSERY_FORGET,   /* no sandbox starts from it any more; it goes with its last one */
	/* warden -> keeper */
	NURSERY_READY = 64, /* all templates are warm, or have failed for good */
};

struct nursery_plain { /* LAYER, API, STOP, READY */
	struct wire_header header;
};

struct nursery_setup {
	struct wire_header header;
	uint32_t is_cgroup_v2;
	uint32_t slices;         /* sandboxes at once at most */
	uint32_t degraded;       /* LOCKDOWN_WITHOUT_*: layers the operator does without */
	uint32_t pool;           /* sandboxes that stand ready, a template; 0: none */
	uint32_t pool_languages; /* LANGUAGE_BIT of each of which they have a kernel ready */
	uint32_t reserved;
	struct wire_limits defaults; /* where a claim says 0 */
	struct wire_limits caps;     /* the most a claim may ask for */
	uint64_t memory_commit;      /* the most that all limits may add up to; 0: anything */
	uint64_t memory_reserve; /* what must be available beside a new sandbox's own first needs */
};

struct nursery_template {
	struct wire_header header;
	char name[TEMPLATE_NAME_SIZE];
	char program[NURSERY_PROGRAM_SIZE]; /* absolute path of Python in the image */
	char preload[NURSERY_PRELOAD_SIZE]; /* modules to import, separated by blanks */
	uint32_t languages;                 /* LANGUAGE_BIT of each that it has */
	uint32_t reserved;
};

struct nursery_name { /* FORGET */
	struct wire_header header;
	char name[TEMPLATE_NAME_SIZE];
};

/* First packet of an init on its control socket, towards the warden. Descriptors, if it is ready:
 * [0] the root of its files, for mounts_resize. */
struct nursery_init_ready {
	uint32_t is_ready; /* 0: message says why not; init exits */
	char message[256];
	char hint[192];
};

/* Warden -> zygote: make a kernel, in two packets. First: which control groups to enter, by a file
 * of each. */
struct nursery_kernel_groups {
	uint32_t serial;
	uint32_t reserved;
};

/* Then, with the same serial: all else. Descriptors: [0] pidfd of the sandbox's init, [1] the
 * kernel's socket, [2] stdout, [3] stderr. */
struct nursery_kernel_request {
	uint32_t serial;
	uint32_t cpus;       /* cores of the share, rounded up: what os.cpu_count() says */
	uint32_t degraded;   /* as in SETUP */
	uint32_t language;   /* enum language */
	uint32_t is_standby; /* nobody waits for it: it may take a moment to be quicker later */
	uint32_t reserved;
};

/* Zygote -> warden. The first has serial 0: "I am parked". */
struct nursery_kernel_answer {
	uint32_t serial;
	int32_t pid; /* as the nursery sees it; 0: failed */
	int32_t os_error;
	uint32_t reserved;
};

#endif
