/*
 * A request is judged at its head, before a byte of its body is looked at: host, origin, key,
 * route, content type, sandbox. So a stranger learns nothing but 401, and the owner of another
 * sandbox gets the same 404 as for one that never was.
 */
#include "api/routes.h"

#include "api/answer.h"
#include "api/fields.h"
#include "api/hosts.h"
#include "api/preview.h"
#include "api/proxy.h"
#include "api/sandbox.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static void not_built(struct call *call)
{
	struct error err;
	error_set(&err, ERROR_NOT_IMPLEMENTED, "%s %.150s is planned and not built yet",
		http_request_method(call->request), http_request_path(call->request));
	error_hint(&err, "GET /v1/capabilities says what this version can do");
	answer_error(call, &err);
}

#define BOX "/v1/sandboxes/{id}"

/* Each row is described in openapi/: the build stops where one is not. */
static const struct route routes[] = {
	{ "GET", "/healthz", health_get, ROUTE_OPEN },
	{ "GET", "/version", version_get, ROUTE_OPEN },
	{ "GET", "/openapi.json", openapi_get, ROUTE_OPEN },
	{ "GET", "/docs", docs_page, ROUTE_OPEN },
	{ "GET", "/docs/page.js", docs_script, ROUTE_OPEN },
	{ "GET", "/docs/page.css", docs_style, ROUTE_OPEN },
	{ "GET", "/metrics", metrics_daemon, ROUTE_METRICS },
	{ "GET", "/v1/capabilities", capabilities_get, 0 },

	{ "POST", "/v1/sandboxes", sandboxes_create, 0 },
	{ "GET", "/v1/sandboxes", sandboxes_list, 0 },
	{ "GET", BOX, sandboxes_get, 0 },
	{ "DELETE", BOX, sandboxes_delete, 0 },
	{ "GET", BOX "/lifecycle", lifecycle_get, 0 },
	{ "PATCH", BOX "/lifecycle", lifecycle_patch, 0 },
	{ "POST", BOX "/pause", pause_post, ROUTE_BARE },
	{ "POST", BOX "/resume", resume_post, ROUTE_BARE },

	{ "POST", BOX "/repl/sessions", sessions_create, ROUTE_USE },
	{ "GET", BOX "/repl/sessions", sessions_list, 0 },
	{ "DELETE", BOX "/repl/sessions/{sid}", sessions_delete, ROUTE_USE },
	{ "POST", BOX "/repl/sessions/{sid}/run", sessions_run, ROUTE_USE },
	{ "POST", BOX "/repl/sessions/{sid}/restart", sessions_restart, ROUTE_USE | ROUTE_BARE },
	{ "POST", BOX "/repl/sessions/{sid}/interrupt", sessions_interrupt,
		ROUTE_USE | ROUTE_BARE },
	{ "POST", BOX "/repl", one_shot_run, ROUTE_USE },
	{ "GET", "/v1/repl/languages", languages_list, 0 },

	{ "GET", BOX "/runs", runs_list, 0 },
	{ "GET", BOX "/logs", logs_get, ROUTE_QUERY_KEY },
	{ "GET", BOX "/events", events_get, ROUTE_QUERY_KEY },
	{ "GET", BOX "/metrics", metrics_sandbox, 0 },
	{ "GET", "/v1/events", events_get_all, ROUTE_QUERY_KEY },
	{ "GET", "/v1/runs/{}", runs_get, 0 },
	{ "GET", "/v1/runs/{}/stream", runs_stream, ROUTE_QUERY_KEY },
	{ "POST", "/v1/runs/{}/cancel", runs_cancel, ROUTE_BARE },

	{ "POST", BOX "/exec", commands_exec, ROUTE_USE },
	{ "POST", BOX "/exec/stream", commands_stream, ROUTE_USE | ROUTE_QUERY_KEY },

	{ "GET", BOX "/exec/ws", commands_socket, ROUTE_USE | ROUTE_QUERY_KEY },
	{ "GET", BOX "/exec/pty", terminals_pty, ROUTE_USE | ROUTE_QUERY_KEY },
	{ "GET", BOX "/ssh", terminals_ssh, ROUTE_USE | ROUTE_QUERY_KEY },

	{ "GET", BOX "/ports", ports_list, 0 },
	{ "POST", BOX "/ports", ports_declare, 0 },
	{ "DELETE", BOX "/ports/{}", ports_remove, 0 },
	{ "", BOX "/proxy/{}", proxy_by_path, ROUTE_USE | ROUTE_RAW | ROUTE_UPGRADE },
	{ "", BOX "/proxy/{}/*", proxy_by_path, ROUTE_USE | ROUTE_RAW | ROUTE_UPGRADE },
	{ "POST", BOX "/preview-token", previews_make_token, 0 },
	{ "", "/v1/p/{}", preview_by_token, ROUTE_OPEN | ROUTE_RAW | ROUTE_PREVIEW },
	{ "", "/v1/p/{}/*", preview_by_token, ROUTE_OPEN | ROUTE_RAW | ROUTE_PREVIEW },

	{ "GET", BOX "/fs", files_read, ROUTE_USE },
	{ "PUT", BOX "/fs", files_write, ROUTE_USE | ROUTE_RAW },
	{ "DELETE", BOX "/fs", files_delete, ROUTE_USE },
	{ "GET", BOX "/fs/dir", files_list, 0 },
	{ "GET", BOX "/fs/stat", files_stat, 0 },

	{ "GET", "/v1/me", me_get, 0 },
	{ "GET", "/v1/me/tokens", tokens_list, 0 },
	{ "POST", "/v1/me/tokens", tokens_create, 0 },
	{ "DELETE", "/v1/me/tokens/{}", tokens_revoke, 0 },

	{ "GET", "/v1/templates", templates_list, 0 },
	{ "POST", "/v1/templates/build", templates_build, ROUTE_RAW },
	{ "GET", "/v1/templates/builds", builds_list, 0 },
	{ "GET", "/v1/templates/builds/{}", builds_get, 0 },
	{ "GET", "/v1/templates/builds/{}/logs", builds_logs, ROUTE_QUERY_KEY },
	{ "GET", "/v1/templates/{}", templates_get, 0 },
	{ "DELETE", "/v1/templates/{}", templates_delete, 0 },

	{ "POST", BOX "/hibernate", not_built, 0 },
	{ "POST", BOX "/stop", not_built, 0 },
	{ "POST", BOX "/wake", not_built, 0 },
	{ "POST", BOX "/start", not_built, 0 },
	{ "POST", BOX "/snapshots", not_built, 0 },
	{ "POST", BOX "/fork", not_built, 0 },
	{ "POST", BOX "/fork-tree", not_built, 0 },
	{ "POST", BOX "/promote", not_built, 0 },

	{ "POST", BOX "/mcp", not_built, 0 },
	{ "POST", "/v1/mcp", not_built, 0 },
	{ "POST", "/mcp", not_built, 0 },
	{ "GET", "/v1/snapshots", not_built, 0 },
	{ "GET", "/v1/snapshots/{}", not_built, 0 },
	{ "DELETE", "/v1/snapshots/{}", not_built, 0 },
	{ "", "/v1/volumes", not_built, 0 },
	{ "", "/v1/volumes/*", not_built, 0 },
};

/* Of a host that is a preview's, whatever the path. */
static const struct route preview_route = { "", "/*", preview_by_host, ROUTE_OPEN | ROUTE_RAW };

const struct route *routes_at(size_t index)
{
	return index < ARRAY_SIZE(routes) ? &routes[index] : NULL;
}

/* ---- finding the route ---- */

/* Compares one segment of a pattern and notes what its name stands for. */
static bool segment_fits(struct call *call, const char *pattern, size_t size, const char *segment)
{
	if (size == 0 || pattern[0] != '{')
		return strlen(segment) == size && memcmp(segment, pattern, size) == 0;
	if (size == 4)
		call->sandbox_id = segment;
	if (size == 5)
		call->session_id = segment;
	return true;
}

static bool path_fits(struct call *call, const char *pattern)
{
	unsigned index = 0, segments = http_request_segments(call->request);
	call->sandbox_id = call->session_id = NULL;
	while (*pattern) {
		pattern++; /* the slash */
		if (*pattern == '*')
			return index < segments;
		size_t size = strcspn(pattern, "/");
		const char *segment = http_request_segment(call->request, index++);
		if (!segment || !segment_fits(call, pattern, size, segment))
			return false;
		pattern += size;
	}
	return index == segments;
}

/* Rows of one path have the same pattern. The first that fits counts: names stand for what no row
 * before has spelled out. */
static bool is_other_path(const struct route *first, const struct route *route)
{
	return first && strcmp(first->pattern, route->pattern) != 0;
}

/* What can be got can be asked for its head: the server sends no body then. */
static bool method_fits(const char *method, const struct route *route)
{
	return !*route->method || strcmp(method, route->method) == 0 ||
	       (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

static void note_allowed(char *allowed, size_t size, const char *method)
{
	size_t used = strlen(allowed);
	snprintf(allowed + used, size - used, "%s%s%s", used ? ", " : "", method,
		strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static bool find_route(struct call *call, char *allowed, size_t allowed_size, struct error *err)
{
	const char *method = http_request_method(call->request);
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (is_other_path(call->route, &routes[i]) || !path_fits(call, routes[i].pattern))
			continue;
		call->route = &routes[i];
		if (method_fits(method, &routes[i]))
			return true;
		note_allowed(allowed, allowed_size, routes[i].method);
	}
	call->route = NULL;
	if (*allowed)
		return error_set(err, ERROR_METHOD, "this path takes %s", allowed);
	error_set(err, ERROR_ROUTE_UNKNOWN, "no such path: '%.150s'",
		http_request_path(call->request));
	return error_hint(err, "/docs of this daemon lists what there is");
}

/* ---- judging the head ---- */

static bool check_host(const struct call *call, struct error *err)
{
	const struct config *config = &call->api->config;
	const char *host = http_request_header(call->request, "Host");
	if (http_request_header_count(call->request, "Host") != 1 ||
		!host_is_served(host, config->hosts, config->host_count)) {
		error_set(err, ERROR_HOST_REFUSED, "this daemon does not serve that host name");
		return error_hint(
			err, "ask for a loopback address, localhost, or a name in 'hosts'");
	}
	return true;
}

static bool check_origin(const struct call *call, unsigned flags, struct error *err)
{
	const char *host = http_request_header(call->request, "Host");
	const char *origin = http_request_header(call->request, "Origin");
	if (flags & ROUTE_PREVIEW || !origin || origin_is_own(origin, host))
		return true;
	return error_set(err, ERROR_ORIGIN_REFUSED, "web pages of other origins are refused");
}

/* Such a host has no path but a server's inside: nothing else is looked at. */
static bool is_preview(struct call *call)
{
	uint16_t port;
	struct sandbox_id id;
	if (http_request_header_count(call->request, "Host") != 1 ||
		!preview_host_parse(http_request_header(call->request, "Host"), &port, &id))
		return false;
	call->route = &preview_route;
	return true;
}

static bool may_use_query(const struct call *call, unsigned flags)
{
	return flags & ROUTE_QUERY_KEY ||
	       (flags & ROUTE_UPGRADE && proxy_is_upgrade(call->request));
}

static bool is_json_type(const char *type)
{
	size_t size = type ? strcspn(type, "; \t") : 0;
	return size == strlen("application/json") &&
	       strncasecmp(type, "application/json", size) == 0;
}

static bool check_body(const struct call *call, struct error *err)
{
	if (http_request_content_length(call->request) == 0 || (call->route->flags & ROUTE_RAW) ||
		is_json_type(http_request_header(call->request, "Content-Type")))
		return true;
	return error_set(err, ERROR_MEDIA_TYPE, "the body must be sent as application/json");
}

static bool check_fields(const struct call *call, struct error *err)
{
	size_t size;
	const char *body = http_request_body(call->request, &size);
	return !(call->route->flags & ROUTE_BARE) || fields_none(body, size, err);
}

static bool resolve_sandbox(struct call *call, struct error *err)
{
	if (!call->sandbox_id)
		return true;
	call->sandbox = sandbox_find(call->api, call->sandbox_id, call->owner);
	return call->sandbox || error_set(err, ERROR_SANDBOX_NOT_FOUND, "sandbox not found");
}

static bool is_open(const struct api *api, unsigned flags)
{
	return (flags & ROUTE_OPEN) || ((flags & ROUTE_METRICS) && api->config.has_open_metrics);
}

static bool judge(struct call *call, char *allowed, size_t allowed_size, struct error *err)
{
	struct error route_error = { 0 };
	if (is_preview(call))
		return true;
	if (!check_host(call, err))
		return false;
	bool is_found = find_route(call, allowed, allowed_size, &route_error);
	unsigned flags = is_found ? call->route->flags : 0;
	if (!check_origin(call, flags, err)) {
		*allowed = '\0';
		return false;
	}
	if (!is_open(call->api, flags)) {
		call->owner = auth_owner(
			&call->api->keys, call->request, may_use_query(call, flags), err);
		if (!call->owner) {
			*allowed = '\0';
			return false;
		}
	}
	if (!is_found) {
		*err = route_error;
		return false;
	}
	return check_body(call, err) && resolve_sandbox(call, err);
}

/* ---- callbacks ---- */

static void on_gone(struct http_request *request)
{
	struct call *call = http_request_data(request);
	if (call->on_gone) {
		call_handler told = call->on_gone;
		call->on_gone = NULL;
		told(call);
	} else if (call->is_padded || !call->is_answered) {
		answer_gone(call);
	}
}

static void handle(struct call *call)
{
	if (call->sandbox && call->route->flags & ROUTE_USE)
		sandbox_touch(call->sandbox);
	call->route->handler(call);
}

static void take_head(struct http_request *request)
{
	struct api *api = http_request_server_owner(request);
	struct call *call = http_request_alloc(request, sizeof(*call));
	if (!call) {
		http_request_set_data(request, NULL);
		http_reply(request, 503, NULL, NULL, 0);
		return;
	}
	*call = (struct call){ .api = api, .request = request };
	http_request_set_data(request, call);
	http_request_on_gone(request, on_gone);
	api->calls++;
	struct error err = { 0 };
	char allowed[64] = "";
	if (!judge(call, allowed, sizeof(allowed), &err)) {
		if (*allowed)
			http_reply_header(request, "Allow", allowed);
		answer_error(call, &err);
	} else if (call->route->flags & ROUTE_RAW) {
		handle(call);
	}
}

void routes_on_head(struct http_request *request)
{
	log_set_request(http_request_id(request));
	take_head(request);
	log_set_request(NULL);
}

static void take_whole(struct http_request *request)
{
	struct call *call = http_request_data(request);
	struct error err = { 0 };
	if (!call || call->is_answered)
		return;
	if (call->route->flags & ROUTE_RAW) { /* its handler has been at work since the head */
		if (call->on_body_end)
			call->on_body_end(call);
		return;
	}
	if (!check_fields(call, &err) || !resolve_sandbox(call, &err))
		return answer_error(call, &err);
	handle(call);
}

void routes_on_request(struct http_request *request)
{
	log_set_request(http_request_id(request));
	take_whole(request);
	log_set_request(NULL);
}

void routes_on_done(struct http_request *request)
{
	struct call *call = http_request_data(request);
	if (!call)
		return;
	buf_deinit(&call->rest);
	call->api->calls--;
	call->api->stats.requests++;
	api_call_ended(call->api);
}
