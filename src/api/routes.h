/* Every endpoint, in one table; and the way of a request from its head to its handler. */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/call.h"

#define ROUTE_OPEN 1u      /* needs no key */
#define ROUTE_QUERY_KEY 2u /* takes the key from the query too */
#define ROUTE_USE 4u       /* uses the sandbox: its idle time begins anew */
#define ROUTE_METRICS 16u  /* needs no key where the configuration says so */
#define ROUTE_RAW 8u       /* the body is no JSON and is streamed to the handler */
#define ROUTE_PREVIEW 64u  /* any page may ask: there is a secret in the target */
#define ROUTE_BARE 128u    /* takes no field of a body */
#define ROUTE_UPGRADE 32u  /* takes the key from the query where the request is an upgrade */

struct route {
	const char *method;
	const char
		*pattern; /* "{id}": a sandbox, "{sid}": a session, "{}": anything, "*": any rest */
	call_handler handler; /* when the body is whole; with ROUTE_RAW: at the head */
	unsigned flags;
};

/* The rows of the table; NULL beyond the last. */
const struct route *routes_at(size_t index);

/* Forgets tokens that expired a while ago. */
void tokens_purge(struct api *api);

/* The callbacks of the HTTP server. */
void routes_on_head(struct http_request *request);
void routes_on_request(struct http_request *request);
void routes_on_done(struct http_request *request);

/* The endpoints, one file a resource. */
void health_get(struct call *call);
void version_get(struct call *call);
void openapi_get(struct call *call);
void docs_page(struct call *call);
void docs_script(struct call *call);
void docs_style(struct call *call);
void capabilities_get(struct call *call);
void sandboxes_create(struct call *call);
void sandboxes_list(struct call *call);
void sandboxes_get(struct call *call);
void sandboxes_delete(struct call *call);
void lifecycle_get(struct call *call);
void lifecycle_patch(struct call *call);
void me_get(struct call *call);
void tokens_list(struct call *call);
void tokens_create(struct call *call);
void tokens_revoke(struct call *call);
void templates_list(struct call *call);
void templates_get(struct call *call);
void templates_delete(struct call *call);
void templates_build(struct call *call);
void builds_list(struct call *call);
void builds_get(struct call *call);
void builds_logs(struct call *call);
void pause_post(struct call *call);
void resume_post(struct call *call);
void sessions_create(struct call *call);
void sessions_list(struct call *call);
void sessions_delete(struct call *call);
void sessions_run(struct call *call);
void runs_list(struct call *call);
void runs_get(struct call *call);
void runs_stream(struct call *call);
void runs_cancel(struct call *call);
void metrics_daemon(struct call *call);
void metrics_sandbox(struct call *call);
void logs_get(struct call *call);
void events_get(struct call *call);
void events_get_all(struct call *call);
void sessions_restart(struct call *call);
void sessions_interrupt(struct call *call);
void one_shot_run(struct call *call);
void languages_list(struct call *call);
void commands_exec(struct call *call);
void commands_stream(struct call *call);
void commands_socket(struct call *call);
void terminals_ssh(struct call *call);
void terminals_pty(struct call *call);
void ports_list(struct call *call);
void ports_declare(struct call *call);
void ports_remove(struct call *call);
void proxy_by_path(struct call *call);
void previews_make_token(struct call *call);
void preview_by_token(struct call *call);
void preview_by_host(struct call *call);
void files_read(struct call *call);
void files_write(struct call *call);
void files_delete(struct call *call);
void files_list(struct call *call);
void files_stat(struct call *call);

#endif
