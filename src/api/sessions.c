/* The endpoints of code contexts; running a cell is in cell.c. */
#include "api/answer.h"
#include "api/fields.h"
#include "api/languages.h"
#include "api/routes.h"
#include "api/session.h"

static bool read_language(const struct call *call, enum language *ret_language, struct error *err)
{
	static const char *const known[] = { "language", NULL };
	size_t size;
	const char *text = http_request_body(call->request, &size), *language = "python";
	cleanup_json json_t *body = fields_parse(text, size, known, err);
	if (!body || !fields_text(body, "language", &language, NULL, err))
		return false;
	return languages_find(call->sandbox, language, ret_language, err);
}

static void on_gone(struct call *call)
{
	struct session *session = call->state;
	session->creator = NULL; /* nobody knows the session's id */
	answer_empty(call, 499);
	guest_leave(&session->creation);
	session_close(session);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	/* sandbox_end frees the sessions next, and that answers the creator */
}

void sessions_create(struct call *call)
{
	struct error err = { 0 };
	enum language language;
	struct session *session = read_language(call, &language, &err)
					  ? session_new(call->sandbox, language, &err)
					  : NULL;
	if (!session)
		return answer_error(call, &err);
	if (!guest_enter(&session->creation, call->sandbox, on_sandbox_end, &err) ||
		!session_start(session, &err)) {
		guest_leave(&session->creation);
		session_free(session);
		return answer_error(call, &err);
	}
	session->creator = call;
	call->state = session;
	call->on_gone = on_gone;
}

void sessions_list(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '[');
	LIST_EACH(&call->sandbox->sessions, struct session, link, session) {
		if (session->creator || session->is_one_shot)
			continue;
		writer_open(&writer, NULL, '{');
		session_write(session, &writer);
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	answer_json(call, 200, &writer);
}

/* The session of the path; NULL when the call is answered. */
static struct session *find_or_answer(struct call *call)
{
	struct error err = { 0 };
	struct session *session = session_find(call->sandbox, call->session_id);
	if (session)
		return session;
	error_set(&err, ERROR_SESSION_NOT_FOUND, "session not found");
	answer_error(call, &err);
	return NULL;
}

void sessions_delete(struct call *call)
{
	struct session *session = find_or_answer(call);
	if (!session)
		return;
	session_close(session);
	answer_empty(call, 204);
}

static void answer_session(struct call *call, const struct session *session)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	session_write(session, &writer);
	sandbox_write_expiry(call->sandbox, &writer);
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

/* Cells that wait run in the new kernel; the next answer tells that the state is gone. */
void sessions_restart(struct call *call)
{
	struct error err = { 0 };
	struct session *session = find_or_answer(call);
	if (!session)
		return;
	if (!sandbox_takes_work(call->sandbox, &err) ||
		!session_start(session, &err)) /* where none is, a fresh one it is */
		return answer_error(call, &err);
	kernel_restart(&session->kernel);
	answer_session(call, session);
}

/* The running cell's, as at its limit. Without one nothing happens. */
void sessions_interrupt(struct call *call)
{
	struct error err = { 0 };
	struct session *session = find_or_answer(call);
	if (!session)
		return;
	if (!sandbox_takes_work(call->sandbox, &err))
		return answer_error(call, &err);
	kernel_interrupt(&session->kernel);
	answer_session(call, session);
}
