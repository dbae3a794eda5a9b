/* See waiters.h. */
#include "api/waiters.h"

#include "api/answer.h"

struct waiter {
	struct list link; /* in the owner's list */
	struct call *call;
};

static void on_gone(struct call *call)
{
	struct waiter *waiter = call->state;
	list_remove(&waiter->link);
	answer_gone(call);
}

bool waiters_add(struct list *waiters, struct call *call, struct error *err)
{
	struct waiter *waiter = http_request_alloc(call->request, sizeof(*waiter));
	if (!waiter)
		return error_no_memory(err), false;
	waiter->call = call;
	list_append(waiters, &waiter->link);
	call->state = waiter;
	call->on_gone = on_gone;
	return true;
}

struct call *waiters_take(struct list *waiters)
{
	if (list_is_empty(waiters))
		return NULL;
	struct waiter *waiter = LIST_FIRST(waiters, struct waiter, link);
	list_remove(&waiter->link);
	waiter->call->on_gone = NULL;
	return waiter->call;
}
