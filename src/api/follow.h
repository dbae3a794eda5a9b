/*
 * Readers of a journal over HTTP: each gets, as server-sent events, what is there from a place on
 * and then what comes, until the journal is closed and read. A reader that is slow holds up nobody:
 * it has no queue but its connection's, and what the journal has dropped meanwhile is told to it as
 * a gap; in the midst of a record it is cut. Many readers at the same place share the text that is
 * made for one of them.
 */
#ifndef API_FOLLOW_H
#define API_FOLLOW_H

#include "api/call.h"
#include "api/journal.h"
#include "api/writer.h"

#define FOLLOW_ALL UINT32_MAX

/* How records look; constant. */
struct follow_style {
	/* Writes a record as events; the reader has its first `from` bytes already. */
	void (*write)(struct writer *writer, const struct record *record, size_t from);
	/* Where a large record is an event's data as it lies: what stands ahead of it (SSE_END
	 * follows). May be NULL. */
	void (*write_head)(struct writer *writer, const struct record *record);
	/* That many bytes are gone; what comes next begins at `place`. */
	void (*write_gap)(struct writer *writer, uint64_t bytes, uint64_t place);
};

struct follower;
typedef void (*follow_event)(struct follower *follower);

struct follower {
	struct list link;        /* in journal->followers */
	struct journal *journal; /* a reference */
	struct call *call;       /* not owned; owns this */
	const struct follow_style *style;
	uint32_t kinds; /* of records, as bits: those it wants */
	uint64_t place;
	uint64_t slicing; /* number of the record that is being sent in slices; 0: none */
	size_t sliced;    /* bytes of it that are sent */
	struct loop_timer beat;
	/* For who is interested; may be NULL. */
	follow_event on_moved; /* it has read some */
	follow_event on_over;  /* at the end, or when the client is gone: the last call */
	bool is_gone;          /* the latter */
	void *context;
	const uint8_t *key; /* a hash, not owned: ends when that is not valid; NULL: does not */
};

/* Begins the answer with `preface` (events or a comment) and goes on by itself. False and err:
 * nothing is answered. The follower dies with the request. */
struct follower *follow_start(struct call *call, struct journal *journal,
	const struct follow_style *style, const char *preface, struct error *err);
/* Sends what it wants from that place on; to be called once, when its fields are set. */
void follow_begin(struct follower *follower, uint64_t place, uint32_t kinds);
/* Bytes of the journal that it has not read. */
uint64_t follow_lag(const struct follower *follower);

#endif
