/*
 * Requests from the api to a sandbox's init, over the SOCK_SEQPACKET control socket.
 *
 * One way: each packet is one `struct inside_request` (fixed size) with its descriptors; the answer
 * comes over the socket that the request brought along, so init keeps no state between requests and
 * a vanished api ends what it asked for (the answer socket hangs up).
 *
 * INSIDE_COMMAND   descriptors: [0] answer socket (SEQPACKET), [1] memfd with the text for
 *                  `/bin/sh -c` (no NUL inside, at most 1 MiB), [2] stdout pipe, [3] stderr pipe
 *                  (write ends). Answer: one `struct inside_command_answer` when the command's own
 *                  process has ended or the limit has ended all of it, then hang-up. If the api
 *                  closes its end earlier, the whole tree is killed. Meanwhile the api may send
 *                  a `struct inside_command_order`: the limit's clock stops, or goes on.
 * INSIDE_READ      [0] answer socket (STREAM). Answer: `struct inside_file_answer`, and when
 *                  its error is INSIDE_OK `size` bytes of content, then end of file; fewer bytes
 *                  if the file shrank meanwhile, never more.
 * INSIDE_WRITE     [0] answer socket (STREAM). The api sends the content and then shuts down its
 *                  writing side: that is the commit. Hang-up without shutdown, or another number
 *                  of bytes than `size` where that is not INSIDE_SIZE_UNKNOWN: nothing is changed.
 *                  Answer `struct inside_file_answer` with the bytes written. A refusal is
 *                  answered at once: sending then fails with EPIPE or ECONNRESET, and the answer
 *                  is there to be read all the same. Missing folders are made, links followed, an
 *                  existing file's mode kept; old and new file need room together.
 * INSIDE_LIST      [0] answer socket (STREAM): `struct inside_file_answer`, then one
 *                  `struct inside_entry` plus name_size bytes of name for each entry, then end of
 *                  file. At most INSIDE_LIST_LIMIT entries; `more` is set in the last one's flags.
 * INSIDE_STAT      [0] answer socket: one `struct inside_file_answer`, follows links; FIFOs,
 *                  sockets and devices too.
 * INSIDE_DELETE    [0] answer socket: one `struct inside_file_answer`; recursive; a link itself.
 *                  Stops at the first thing that cannot be deleted. `/`, a mount point, and a path
 *                  that ends in a dot or two are INSIDE_FORBIDDEN.
 * INSIDE_SWEEP     no descriptors; `session`: SIGKILL to every process of that session id (what a
 *                  dead kernel left behind), as seen inside.
 *
 * INSIDE_TERMINAL  [0] answer socket (SEQPACKET); `rows`, `columns`; `path`: a text for
 *                  `/bin/sh -c`, NUL-terminated, or "" for a login shell. It runs at a terminal of
 *                  its own. Answers: one `struct inside_handover` with the terminal's master end as
 *                  descriptor; then, if there was one, as for INSIDE_COMMAND. Its size is changed
 *                  and its hang-up made through the master; the tree ends as a command's does.
 *
 * INSIDE_CONNECT   [0] answer socket (SEQPACKET); `port`: one `struct inside_handover`, with a TCP
 *                  socket to 127.0.0.1 of the sandbox. It does not block, and may still be
 *                  connecting.
 *
 * INSIDE_PORTS     [0] answer socket (SEQPACKET): one `struct inside_ports_answer`: the TCP ports
 * on which somebody listens for 127.0.0.1.
 *
 * INSIDE_FED_COMMAND  as INSIDE_COMMAND, with one more descriptor: [4] the reading end of a pipe, its
 *                  standard input.
 *
 * A packet that is no request is dropped: its answer socket hangs up without an answer. Where there
 * is no process to serve a request the answer comes at once: start_error or os_error EAGAIN, or
 * INSIDE_BUSY. A file call whose peer neither takes nor gives a byte for a minute ends.
 *
 * The file calls act as the sandbox's user (fsuid) and refuse paths on /proc and /sys.
 */
#ifndef WIRE_INSIDE_H
#define WIRE_INSIDE_H

#include <stdint.h>

#define INSIDE_VERSION 1
#define INSIDE_PATH_SIZE 4096 /* with the NUL */
#define INSIDE_LIST_LIMIT 100000
#define INSIDE_SIZE_UNKNOWN UINT64_MAX

enum inside_op {
	INSIDE_COMMAND = 1,
	INSIDE_READ,
	INSIDE_WRITE,
	INSIDE_LIST,
	INSIDE_STAT,
	INSIDE_DELETE,
	INSIDE_SWEEP,
	INSIDE_TERMINAL,
	INSIDE_CONNECT,
	INSIDE_PORTS,
	INSIDE_FED_COMMAND,
};

struct inside_request {
	uint16_t op;
	uint16_t version; /* INSIDE_VERSION; another ends init's interest in this request */
	uint32_t serial;  /* for logs only */
	uint64_t
		size; /* WRITE: the content's length, or INSIDE_SIZE_UNKNOWN; COMMAND: the text's */
	uint32_t timeout_ms; /* COMMAND: limit of the whole tree; 0: none */
	union {
		uint32_t session; /* SWEEP */
		uint32_t port;    /* CONNECT: 1 to 65535 */
		struct {
			uint16_t rows, columns; /* TERMINAL */
		};
	};
	char path[INSIDE_PATH_SIZE]; /* file calls: absolute, NUL-terminated; TERMINAL: a command */
};

enum inside_clock {
	INSIDE_CLOCK_STOPS = 1,
	INSIDE_CLOCK_GOES_ON,
};

/* Api -> supervisor of a command, while it runs. Anything else counts as hang-up. */
struct inside_command_order {
	uint32_t clock; /* enum inside_clock; the same twice changes nothing */
};

/* How a command ended. */
struct inside_command_answer {
	int32_t status;      /* as from waitpid; meaningless when start_error is set */
	int32_t start_error; /* errno, or 0 */
	uint32_t timed_out;  /* 1: the limit ended it, and nothing of it is left */
	uint32_t cpu_ms;     /* user + system time of the reaped processes */
};

/* A descriptor comes along with it, or an errno. */
struct inside_handover {
	int32_t os_error;
	uint32_t unused; /* 0 */
};

enum inside_error {
	INSIDE_OK,
	INSIDE_NOT_FOUND,
	INSIDE_IS_DIRECTORY,
	INSIDE_NOT_DIRECTORY,
	INSIDE_FORBIDDEN,
	INSIDE_SPECIAL,  /* neither file nor folder, or on /proc or /sys */
	INSIDE_LOOP,     /* too many links */
	INSIDE_BAD_PATH, /* not absolute, or a name too long */
	INSIDE_NO_SPACE, /* the files limit, bytes or inodes */
	INSIDE_ABORTED,  /* a write that was not committed */
	INSIDE_BUSY,     /* no process to serve it (the sandbox's process limit) */
	INSIDE_FAILED,   /* anything else; os_error says */
};

struct inside_file_answer {
	uint32_t error;   /* enum inside_error */
	int32_t os_error; /* errno behind it, or 0 */
	uint64_t size;    /* READ, STAT: the file's; WRITE: bytes written */
	int64_t mtime_s;  /* READ, STAT */
	uint32_t mode;    /* st_mode, type included */
	uint32_t flags;   /* INSIDE_FLAG_* */
};

#define INSIDE_FLAG_MORE 1u /* LIST: there are more entries than were sent */

#define INSIDE_PORTS_LIMIT 1024

struct inside_ports_answer {
	uint32_t error; /* INSIDE_OK, INSIDE_BUSY, INSIDE_FAILED */
	uint32_t count;
	uint16_t ports[INSIDE_PORTS_LIMIT]; /* in order, each once; the lowest where there are more
					     */
};

struct inside_entry {
	uint64_t size;
	int64_t mtime_s;
	uint32_t mode;        /* of the entry itself; a link's target decides is_directory */
	uint16_t name_size;   /* bytes of name that follow; never 0; any byte but '/' and NUL */
	uint8_t is_directory; /* links followed */
	uint8_t flags;        /* INSIDE_FLAG_MORE on the last */
};

#endif
