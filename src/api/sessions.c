/* The endpoints of code contexts; running a cell is in cell.c. */
#include "api/answer.h"
#include "api/fields.h"
#include "api/routes.h"
#include "api/session.h"

#include <string.h>

static const char *const languages[] = { "python", "py", "python3", "" };

/* The language's own name; NULL and err. */
static const char *read_language(const struct call *call, struct error *err)
{
	static const char *const known[] = { "language", NULL };
	size_t size;
	const char *text = http_request_body(call->request, &size), *language = "python";
	cleanup_json json_t *body = fields_parse(text, size, known, err);
	if (!body || !fields_text(body, "language", &language, NULL, err))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(language, languages[i]) == 0)
			return languages[0];
	error_set(err, ERROR_LANGUAGE_UNKNOWN, "no language '%.40s'; there is: python", language);
	return NULL;
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
	const char *language = read_language(call, &err);
	struct session *session = language ? session_new(call->sandbox, language, &err) : NULL;
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
	LIST_EACH(&call->sandbox->sessions, struct session, link, session)
	{
		if (session->creator)
			continue;
		writer_open(&writer, NULL, '{');
		session_write(session, &writer);
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	answer_json(call, 200, &writer);
}

void sessions_delete(struct call *call)
{
	struct error err = { 0 };
	struct session *session = session_find(call->sandbox, call->session_id);
	if (!session) {
		error_set(&err, ERROR_SESSION_NOT_FOUND, "session not found");
		return answer_error(call, &err);
	}
	session_close(session);
	answer_empty(call, 204);
}
