/*
 * See journal.h. A journal is counted by reference: a reader that is slow keeps it after its owner
 * is gone, and reads it to the end.
 */
#include "api/journal.h"

#include "base/clock.h"

#include <string.h>

struct journal *journal_new(struct loop *loop, size_t limit, uint64_t first_number, uint64_t *total)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	if (!journal)
		return NULL;
	*journal = (struct journal){ .references = 1,
		.loop = loop,
		.total = total,
		.limit = limit,
		.next_number = first_number,
		.shared = buf_make(SIZE_MAX) };
	list_init(&journal->records);
	list_init(&journal->followers);
	return journal;
}

struct journal *journal_ref(struct journal *journal)
{
	journal->references++;
	return journal;
}

static size_t weight(size_t size)
{
	return sizeof(struct record) + size;
}

static void count(struct journal *journal, size_t added, size_t removed)
{
	journal->bytes = journal->bytes + added - removed;
	if (journal->total)
		*journal->total = *journal->total + added - removed;
}

static void drop_first(struct journal *journal)
{
	struct record *record = LIST_FIRST(&journal->records, struct record, link);
	count(journal, 0, weight(record->size));
	list_remove(&record->link);
	free(record);
}

void journal_unref(struct journal *journal)
{
	if (!journal || --journal->references > 0)
		return;
	loop_timer_stop(&journal->wake);
	journal_trim(journal, 0);
	buf_deinit(&journal->shared);
	free(journal);
}

void journal_trim(struct journal *journal, size_t limit)
{
	while (journal->bytes > limit && !list_is_empty(&journal->records))
		drop_first(journal);
}

void journal_uncount(struct journal *journal)
{
	if (journal->total)
		*journal->total -= journal->bytes;
	journal->total = NULL;
}

/* ---- waking readers ---- */

static void on_wake(struct loop_timer *timer)
{
	struct journal *journal = CONTAINER_OF(timer, struct journal, wake);
	journal->woken_us = clock_monotonic_us();
	if (journal->on_more)
		journal->on_more(journal); /* may free the journal */
}

static void wake(struct journal *journal)
{
	int64_t due_us = 0;
	if (list_is_empty(&journal->followers) || journal->wake.loop)
		return;
	if (journal->follower_count > JOURNAL_FEW)
		due_us = journal->woken_us + JOURNAL_PACE_MS * 1000;
	loop_timer_start_at(journal->loop, &journal->wake, due_us, on_wake);
}

/* ---- writing ---- */

bool journal_append(struct journal *journal, uint8_t kind, const char *bytes, size_t size)
{
	size = MIN(size, journal->limit - weight(0));
	struct record *record = malloc(weight(size));
	if (!record)
		return false;
	*record = (struct record){ .number = journal->next_number++,
		.place = journal->end_place,
		.size = (uint32_t)size,
		.kind = kind };
	memcpy(record->bytes, bytes, size);
	journal->end_place += size;
	journal_trim(journal, journal->limit - weight(size));
	list_append(&journal->records, &record->link);
	count(journal, weight(size), 0);
	wake(journal);
	return true;
}

void journal_close(struct journal *journal)
{
	if (journal->is_closed)
		return;
	journal->is_closed = true;
	wake(journal);
}

/* ---- reading ---- */

uint64_t journal_first_place(const struct journal *journal)
{
	if (list_is_empty(&journal->records))
		return journal->end_place;
	return LIST_FIRST(&journal->records, struct record, link)->place;
}

const struct record *journal_next(const struct journal *journal, const struct record *record)
{
	if (record->link.next == &journal->records)
		return NULL;
	return CONTAINER_OF(record->link.next, struct record, link);
}

/* Whether it lies before what is looked for. */
static bool is_before(const struct record *record, const uint64_t *place, const uint64_t *number)
{
	if (place)
		return record->place + record->size <= *place;
	return record->number <= *number;
}

/* Readers are mostly near the end, so the search begins there. */
static const struct record *search(
	const struct journal *journal, const uint64_t *place, const uint64_t *number)
{
	const struct list *link = journal->records.previous;
	while (link != &journal->records &&
		!is_before(CONTAINER_OF(link, struct record, link), place, number))
		link = link->previous;
	if (link->next == &journal->records)
		return NULL;
	return CONTAINER_OF(link->next, struct record, link);
}

const struct record *journal_find(const struct journal *journal, uint64_t place)
{
	return search(journal, &place, NULL);
}

const struct record *journal_after(const struct journal *journal, uint64_t number)
{
	return search(journal, NULL, &number);
}
