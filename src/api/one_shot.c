/*
 * One-shot runs: a fresh context, one cell in it, and the context is gone. The context has no row,
 * is in no list, and ends with its cell; what it left in files stays.
 */
#include "api/answer.h"
#include "api/routes.h"
#include "api/session.h"

void one_shot_run(struct call *call)
{
	struct error err = { 0 };
	struct session *session = session_new(call->sandbox, LANGUAGE_PYTHON, &err);
	if (!session)
		return answer_error(call, &err);
	session->is_one_shot = true;
	if (cell_submit(call, session, &err))
		return;
	session_free(session);
	answer_error(call, &err);
}
