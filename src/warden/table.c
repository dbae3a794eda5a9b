/* See table.h. Chains, linked through what they hold. Ids are random, so any part of one is a hash. */
#include "warden/table.h"

#include "warden/sandbox.h"

#include <assert.h>
#include <string.h>

static struct sandbox **claimed_bucket(struct table *table, const struct sandbox_id *id)
{
	uint32_t hash;
	memcpy(&hash, id->bytes + 4, sizeof(hash));
	return &table->claimed[hash % TABLE_BUCKETS];
}

void table_add(struct table *table, struct sandbox *sandbox)
{
	struct sandbox **bucket = claimed_bucket(table, &sandbox->id);
	sandbox->table_next = *bucket;
	*bucket = sandbox;
	table->claimed_bytes += sandbox->limits.memory_bytes;
}

void table_remove(struct table *table, struct sandbox *sandbox)
{
	struct sandbox **place = claimed_bucket(table, &sandbox->id);
	while (*place != sandbox) {
		assert(*place);
		place = &(*place)->table_next;
	}
	*place = sandbox->table_next;
	table->claimed_bytes -= sandbox->limits.memory_bytes;
}

struct sandbox *table_find(struct table *table, const struct sandbox_id *id)
{
	struct sandbox *sandbox = *claimed_bucket(table, id);
	while (sandbox && memcmp(&sandbox->id, id, sizeof(*id)) != 0)
		sandbox = sandbox->table_next;
	return sandbox;
}

/* ---- children ---- */

static struct child **child_bucket(struct table *table, pid_t pid)
{
	return &table->children[(unsigned)pid % TABLE_BUCKETS];
}

void table_add_child(struct table *table, struct child *child)
{
	struct child **bucket = child_bucket(table, child->pid);
	child->next = *bucket;
	*bucket = child;
}

void table_remove_child(struct table *table, struct child *child)
{
	struct child **place = child_bucket(table, child->pid);
	while (*place && *place != child)
		place = &(*place)->next;
	if (*place)
		*place = child->next;
}

struct child *table_find_child(struct table *table, pid_t pid)
{
	struct child *child = *child_bucket(table, pid);
	while (child && child->pid != pid)
		child = child->next;
	return child;
}
