/*
 * What happened, in order and in bounded memory: the output of a run, the log of a sandbox, its
 * events. Records are appended at the end; where they take more than the bound, the oldest go.
 *
 * Each record has a number, one more than the one before, and a place: the bytes of all records
 * before it, those that are gone included. Both only grow, so a reader that comes back with either
 * gets exactly what it has not seen, or learns how much of that is gone.
 *
 * Readers that wait for more (follow.h) are woken by a timer, not by each record: many records of
 * one turn of the loop are one wake, and many readers are woken at most every JOURNAL_PACE_MS.
 */
#ifndef API_JOURNAL_H
#define API_JOURNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_PACE_MS 20 /* between wakes of more than JOURNAL_FEW readers */
#define JOURNAL_FEW 4

struct record {
	struct list link; /* in journal->records */
	uint64_t number, place;
	uint32_t size;
	uint8_t kind; /* the owner's; below 32 */
	char bytes[];
};

struct journal;
typedef void (*journal_on_more)(struct journal *journal);

struct journal {
	unsigned references;
	struct loop *loop;   /* not owned */
	uint64_t *total;     /* not owned; NULL or where the bytes of many are added up */
	struct list records; /* owned, oldest first */
	size_t bytes, limit; /* kept, their own size included; most */
	uint64_t end_place;  /* of the next record */
	uint64_t next_number;
	bool is_closed;        /* nothing will be appended any more */
	struct list followers; /* of struct follower */
	unsigned follower_count;
	struct buf shared; /* owned: text made for one reader, for those that want the same */
	uint64_t shared_from, shared_to;
	const void *shared_key;
	uint32_t shared_kinds;
	struct loop_timer wake;
	int64_t woken_us;
	journal_on_more on_more; /* wakes the readers; set by follow.c */
};

/* One reference is the caller's. NULL without memory. `first_number` is that of the first record.
 */
struct journal *journal_new(
	struct loop *loop, size_t limit, uint64_t first_number, uint64_t *total);
struct journal *journal_ref(struct journal *journal);
void journal_unref(struct journal *journal); /* NULL is let pass */

/* False, and nothing appended, without memory. What is larger than the bound is cut at its end. */
bool journal_append(struct journal *journal, uint8_t kind, const char *bytes, size_t size);
/* Drops the oldest records until at most that many bytes are kept. */
void journal_trim(struct journal *journal, size_t limit);
/* Its bytes are no longer added up with others': its owner lets go, and only readers are left. */
void journal_uncount(struct journal *journal);
/* Readers come to their end when they have read all. Idempotent. */
void journal_close(struct journal *journal);

/* Place of the oldest record, or the end where there is none. */
uint64_t journal_first_place(const struct journal *journal);
/* The record that holds the byte at `place`, or the first one behind it; NULL at the end. */
const struct record *journal_find(const struct journal *journal, uint64_t place);
/* The first record whose number is above `number`; NULL where there is none. */
const struct record *journal_after(const struct journal *journal, uint64_t number);
/* NULL behind the last. */
const struct record *journal_next(const struct journal *journal, const struct record *record);

#endif
