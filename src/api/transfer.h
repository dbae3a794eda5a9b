/*
 * One file call in a sandbox: asked of init, answered on a stream socket of its own. This part is
 * what all of them share: the path, the socket, the answer's head, patience, ends. What follows the
 * head is the kind's own.
 */
#ifndef API_TRANSFER_H
#define API_TRANSFER_H

#include "api/call.h"
#include "api/inside.h"
#include "api/sandbox.h"

struct transfer;

struct transfer_kind {
	uint16_t op;              /* enum inside_op */
	const char *default_path; /* NULL: a path is required */
	bool is_looking;          /* does not count as use of the sandbox */
	bool files_lead_nowhere;  /* what a path names below a file is missing, and no mistake */
	/* The head came and says OK. Answers at once, or goes on reading. */
	void (*on_head)(struct transfer *transfer);
	/* The socket can be read (after the head). NULL where nothing follows it. */
	void (*on_readable)(struct transfer *transfer);
	/* The socket can be written. NULL where nothing is. */
	void (*on_writable)(struct transfer *transfer);
};

struct transfer {
	const struct transfer_kind *kind;
	struct api *api;
	struct call *call; /* not owned */
	struct guest guest;
	struct loop_source socket; /* its descriptor is owned */
	char *path;                /* owned */
	struct inside_file_answer head;
	size_t head_size;     /* bytes of it that have come */
	uint64_t left;        /* of a read: bytes still to come */
	struct buf held;      /* owned: bytes that wait for room, or the part of an entry */
	struct writer writer; /* owned: a listing's answer */
	bool is_cut, is_streaming;
	struct loop_timer patience;
};

/* Starts it; `size` is that of a write. NULL: the call has been answered with an error. */
struct transfer *transfer_start(struct call *call, const struct transfer_kind *kind, uint64_t size);
void transfer_free(struct transfer *transfer);
/* Answers with the error and frees. */
void transfer_fail(struct transfer *transfer, const struct error *err);
/* The socket ended before all had come. */
void transfer_break(struct transfer *transfer);
/* What of the socket is wanted; 0: nothing, not even its end. */
void transfer_want(struct transfer *transfer, uint32_t events);
/* Init has that long for its next step; 0: the step is the client's. */
void transfer_expect(struct transfer *transfer, int64_t ms);
#define TRANSFER_PATIENCE_MS 25000

/* "name": the path's last name, without slashes behind it; "/" for the root. */
void transfer_write_name(const struct transfer *transfer, struct writer *writer);
void transfer_write_mode(struct writer *writer, uint32_t mode);

#endif
