/* A doubly linked list, its links embedded in what it holds. An empty list points at itself. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/macros.h"

#include <stdbool.h>

struct list {
	struct list *next, *previous;
};

static inline void list_init(struct list *list)
{
	list->next = list->previous = list;
}

static inline bool list_is_empty(const struct list *list)
{
	return list->next == list;
}

static inline void list_append(struct list *list, struct list *link)
{
	link->previous = list->previous;
	link->next = list;
	list->previous->next = link;
	list->previous = link;
}

/* Safe on a link that is in no list but was initialised. */
static inline void list_remove(struct list *link)
{
	link->previous->next = link->next;
	link->next->previous = link->previous;
	list_init(link);
}

/* The element being visited may be removed; others may not. */
#define LIST_EACH(list, type, member, element) \
	for (type *element = CONTAINER_OF((list)->next, type, member), \
		  *element##_next = CONTAINER_OF(element->member.next, type, member); \
		&element->member != (list); element = element##_next, \
		  element##_next = CONTAINER_OF(element->member.next, type, member))

#define LIST_FIRST(list, type, member) CONTAINER_OF((list)->next, type, member)

#endif
