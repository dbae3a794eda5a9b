/*
 * Requests from the api to the warden and its answers and events, over one SOCK_SEQPACKET pair.
 *
 * Every packet starts with `struct wire_header`; each op has one size, known to both sides (the
 * table in warden/requests.c); at most WIRE_FDS descriptors. What is unknown, of the wrong size or
 * out of order ends the peer. Integers are in host order of one machine (little endian on all we
 * build for). Answers repeat the request's serial; events have serial 0.
 *
 * The api is taken for compromised: the warden checks each value against its own table and caps.
 */
#ifndef WIRE_REQUESTS_H
#define WIRE_REQUESTS_H

#include "base/id.h"
#include "wire/channel.h"
#include "wire/languages.h"

#include <stdint.h>

#define WARDEN_VERSION 1
#define TEMPLATE_NAME_SIZE 64
#define KERNELS_A_SANDBOX 16

enum warden_op {
	/* api -> warden */
	WARDEN_HELLO = 1,    /* first packet; answered by WARDEN_HELLO */
	WARDEN_LIST,         /* answered by one SANDBOX_ITEM or KERNEL_ITEM each, then LIST_END */
	WARDEN_CLAIM,        /* make a sandbox; answered by CLAIMED or FAILED */
	WARDEN_KERNEL_START, /* answered by KERNEL_STARTED or FAILED */
	WARDEN_RUN_BEGIN,    /* starts the clock of a run; no answer unless it fails */
	WARDEN_RUN_END,      /* stops the clock; no answer */
	WARDEN_INTERRUPT,    /* SIGINT to the kernel while `run` is current; no answer */
	WARDEN_KERNEL_STOP,  /* kill the kernel; KERNEL_ENDED follows */
	WARDEN_RELEASE,      /* end the sandbox; SANDBOX_ENDED follows */
	WARDEN_USAGE,        /* answered by USAGE */
	WARDEN_PAUSE = 20,   /* stop all but init, and the clocks; answered by PAUSED or FAILED */
	WARDEN_RESUME = 21,  /* let it go on; answered by RESUMED or FAILED */
	/* warden -> api */
	WARDEN_FAILED = 64,
	WARDEN_CLAIMED,        /* descriptors: [0] init's control socket */
	WARDEN_SANDBOX_ITEM,   /* as CLAIMED, while listing */
	WARDEN_KERNEL_STARTED, /* descriptors: [0] frames socket, [1], [2] output (read ends) */
	WARDEN_KERNEL_ITEM,    /* as KERNEL_STARTED, while listing */
	WARDEN_LIST_END,
	WARDEN_USAGE_ANSWER,
	WARDEN_RUN_LATE,      /* event: the run's limit has come; it is being interrupted */
	WARDEN_KERNEL_ENDED,  /* event */
	WARDEN_SANDBOX_ENDED, /* event */
	WARDEN_PAUSED = 84,
	WARDEN_RESUMED = 85,
};

struct wire_limits {
	uint64_t memory_bytes;
	uint64_t files_bytes;
	uint32_t inodes;
	uint32_t processes;
	uint32_t cpu_milli; /* 1000 = one core */
	uint32_t reserved;
};

struct warden_hello { /* HELLO, both ways */
	struct wire_header header;
};

struct warden_plain { /* LIST, LIST_END */
	struct wire_header header;
};

struct warden_claim { /* CLAIM; CLAIMED and SANDBOX_ITEM give the same back */
	struct wire_header header;
	struct sandbox_id sandbox; /* chosen by the api; refused when in use */
	char template_name[TEMPLATE_NAME_SIZE];
	struct wire_limits limits; /* 0: the default; above the cap: refused */
	uint32_t is_paused;        /* SANDBOX_ITEM; else 0 */
	uint32_t reserved;
};

struct warden_kernel { /* KERNEL_START, KERNEL_STOP; KERNEL_STARTED, KERNEL_ITEM give it back */
	struct wire_header header;
	struct sandbox_id sandbox;
	uint32_t kernel;     /* slot 0 .. KERNELS_A_SANDBOX-1, chosen by the api */
	uint32_t generation; /* counts the kernels of the slot; chosen by the api, not 0 */
	uint32_t run;        /* KERNEL_ITEM: the run under way, or 0 */
	uint32_t pid;        /* KERNEL_STARTED, KERNEL_ITEM: as seen inside (its session id too) */
	char language[LANGUAGE_NAME_SIZE];
};

struct warden_run { /* RUN_BEGIN, RUN_END, INTERRUPT, RUN_LATE */
	struct wire_header header;
	struct sandbox_id sandbox;
	uint32_t kernel, generation;
	uint32_t run;        /* not 0 */
	uint32_t timeout_ms; /* RUN_BEGIN; 0: none */
};

struct warden_release { /* RELEASE, USAGE, PAUSE, RESUME; PAUSED and RESUMED give it back */
	struct wire_header header;
	struct sandbox_id sandbox;
};

struct warden_failed { /* FAILED: the answer to a request that could not be met */
	struct wire_header header;
	uint32_t code; /* enum error_code */
	uint32_t reserved;
	char message[256];
	char hint[192];
};

enum kernel_end {
	KERNEL_END_EXITED,  /* by itself: status says */
	KERNEL_END_TIMEOUT, /* killed at its limit after two interrupts */
	KERNEL_END_MEMORY,  /* the memory limit: by the cgroup's counter, not by the exit code */
	KERNEL_END_STOPPED, /* asked for */
	KERNEL_END_SANDBOX, /* its sandbox ended */
};

struct warden_kernel_ended {
	struct wire_header header;
	struct sandbox_id sandbox;
	uint32_t kernel, generation;
	uint32_t run;    /* the run it died in, or 0 */
	uint32_t reason; /* enum kernel_end */
	int32_t status;  /* as from waitpid */
	uint32_t reserved;
	uint64_t memory_peak, memory_limit; /* bytes */
};

enum sandbox_end {
	SANDBOX_END_RELEASED, /* asked for */
	SANDBOX_END_FAILED,   /* it never came to life */
	SANDBOX_END_HOST,     /* its init died, or the warden ends */
	SANDBOX_END_MEMORY,   /* its init was killed by the memory limit */
};

struct warden_sandbox_ended {
	struct wire_header header;
	struct sandbox_id sandbox;
	uint32_t reason; /* enum sandbox_end */
	int32_t status;  /* of its init, as from waitpid */
};

struct warden_usage {
	struct wire_header header;
	struct sandbox_id sandbox;
	uint64_t memory_bytes, memory_peak, memory_limit;
	uint64_t oom_kills; /* processes killed by the memory limit so far */
	uint64_t cpu_us;
	uint32_t processes, process_limit;
	uint64_t pids_refused; /* forks refused by the process limit so far */
	uint64_t files_bytes, files_limit, inodes, inode_limit; /* 0: could not be read */
	uint32_t pid; /* of its init, as the nursery counts */
	uint32_t reserved;
};

#endif
