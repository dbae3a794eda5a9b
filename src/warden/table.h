/*
 * What the warden looks up with each request and each exit, so that it takes as long with a thousand
 * sandboxes as with one: the claimed by their id, children by their process id, and what the claimed may
 * take of memory together.
 */
#ifndef WARDEN_TABLE_H
#define WARDEN_TABLE_H

#include <stdint.h>
#include <sys/types.h>

#define TABLE_BUCKETS 4096 /* a power of two */

struct sandbox;
struct kernel;
struct sandbox_id;

/* A child: a sandbox's init, or a kernel. Embedded in either; in the table while its pid is not 0. */
struct child {
	struct child *next;
	struct sandbox *sandbox;
	struct kernel *kernel; /* NULL: it is the sandbox's init */
	pid_t pid;
};

struct table {
	struct sandbox *claimed[TABLE_BUCKETS];
	struct child *children[TABLE_BUCKETS];
	uint64_t claimed_bytes;
};

/* A sandbox that is claimed, with its id and limits as they are from now on; and when it is gone. */
void table_add(struct table *table, struct sandbox *sandbox);
void table_remove(struct table *table, struct sandbox *sandbox);
struct sandbox *table_find(struct table *table, const struct sandbox_id *id);

void table_add_child(struct table *table, struct child *child);
/* Safe on one that is not in it. */
void table_remove_child(struct table *table, struct child *child);
struct child *table_find_child(struct table *table, pid_t pid);

#endif
