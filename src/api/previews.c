/*
 * The ways to a server inside: by path with a key, by a preview host, by a preview token; and
 * making such tokens. What is let through is proxy.c's.
 */
#include "api/answer.h"
#include "api/fields.h"
#include "api/preview.h"
#include "api/proxy.h"
#include "api/routes.h"
#include "base/clock.h"

#include <string.h>

#define TTL_DEFAULT_S 3600
#define TTL_MOST_S (7 * 86400)
#define TOKEN_ROOM ((size_t)4096)

/* ---- by path ---- */

/* Bytes of the raw target before the slash of that number, counted from 1; all of its path where
 * there are fewer. */
static size_t prefix_size(const char *raw, unsigned slash)
{
	const char *at = raw;
	for (; *at && *at != '?'; at++)
		if (*at == '/' && slash-- == 1)
			break;
	return (size_t)(at - raw);
}

void proxy_by_path(struct call *call)
{
	struct exposure exposure = {
		.kind = EXPOSED_BY_PATH, .parameter = "access_token", .keys = &call->api->keys
	};
	struct error err = { 0 };
	if (!preview_port_parse(http_request_segment(call->request, 4), &exposure.port)) {
		error_set(&err, ERROR_INVALID, "the port must be a number from 1 to 65535");
		return answer_error(call, &err);
	}
	exposure.prefix_size = prefix_size(http_request_raw_target(call->request), 6);
	exposure.is_upgrade = proxy_is_upgrade(call->request);
	exposure.is_from_browser = !http_request_header(call->request, "Authorization");
	proxy_start(call, call->sandbox, &exposure);
}

/* ---- without a key ---- */

static void enter(struct call *call, const struct sandbox_id *id, struct exposure *exposure)
{
	struct error err = { 0 };
	struct sandbox *sandbox = sandbox_find_any(call->api, id);
	if (!sandbox || sandbox->state == SANDBOX_ENDING)
		error_set(&err, ERROR_SANDBOX_NOT_FOUND, "sandbox not found");
	else if (sandbox->state != SANDBOX_RUNNING)
		error_set(&err, ERROR_NOT_RUNNING, "the sandbox is not running");
	if (err.code)
		return answer_error(call, &err);
	exposure->is_upgrade = proxy_is_upgrade(call->request);
	exposure->keys = &call->api->keys;
	sandbox_touch(sandbox);
	proxy_start(call, sandbox, exposure);
}

static bool check_paths(
	const struct call *call, const struct preview *preview, unsigned skipped, struct error *err)
{
	unsigned count = http_request_segments(call->request), left = 0;
	const char **segments = http_request_alloc(call->request, (count + 1) * sizeof(*segments));
	if (!segments)
		return error_no_memory(err), false;
	for (unsigned i = skipped; i < count; i++)
		segments[left++] = http_request_segment(call->request, i);
	return preview_covers(preview, segments, left) ||
	       error_set(err, ERROR_TOKEN_PATH, "the preview token is not for this path");
}

void preview_by_token(struct call *call)
{
	struct exposure exposure = { .kind = EXPOSED_BY_TOKEN, .is_from_browser = true };
	struct preview preview;
	struct error err = { 0 };
	const char *token = http_request_segment(call->request, 2);
	if (!preview_open(call->api->preview_key, token, clock_wall_ms() / 1000, &preview, &err) ||
		!check_paths(call, &preview, 3, &err))
		return answer_error(call, &err);
	exposure.port = preview.port;
	exposure.prefix_size = prefix_size(http_request_raw_target(call->request), 4);
	enter(call, &preview.sandbox, &exposure);
}

/* ---- by host ---- */

/* The token of a header or a cookie, copied; NULL. */
static const char *sent_token(const struct call *call)
{
	const char *header = http_request_header(call->request, PREVIEW_HEADER);
	const char *cookies = http_request_header(call->request, "Cookie");
	if (header || !cookies)
		return header;
	for (const char *at = cookies; *at; at += strcspn(at, ";")) {
		at += strspn(at, "; \t");
		if (strncmp(at, PREVIEW_COOKIE "=", sizeof(PREVIEW_COOKIE)) != 0)
			continue;
		at += sizeof(PREVIEW_COOKIE);
		size_t size = strcspn(at, "; \t");
		char *token = http_request_alloc(call->request, size + 1);
		return token ? memcpy(token, at, size) : NULL;
	}
	return NULL;
}

static bool check_token(const struct call *call, const char *token, const struct sandbox_id *id,
	uint16_t port, struct error *err)
{
	struct preview preview;
	if (!token)
		return error_set(err, ERROR_TOKEN, "this preview needs a token");
	if (!preview_open(call->api->preview_key, token, clock_wall_ms() / 1000, &preview, err))
		return false;
	if (memcmp(&preview.sandbox, id, sizeof(*id)) != 0 || preview.port != port)
		return error_set(err, ERROR_TOKEN, "the preview token is for another server");
	return check_paths(call, &preview, 0, err);
}

/* A browser that comes with the token in its link gets it as a cookie, and the link without it. */
static void keep_token(struct call *call, const char *token, const struct exposure *exposure)
{
	cleanup_buf struct buf target = buf_make(64 << 10), cookie = buf_make(TOKEN_ROOM);
	struct error err = { 0 };
	const char *raw = http_request_raw_target(call->request);
	raw += strspn(raw, "/\\") - 1; /* more than one would name another host */
	if (!forward_target(&target, raw, exposure) ||
		!buf_printf(&cookie, PREVIEW_COOKIE "=%s; Path=/; HttpOnly; SameSite=Lax", token)) {
		error_no_memory(&err);
		return answer_error(call, &err);
	}
	target.bytes[0] = '/';
	http_reply_header(call->request, "Location", buf_text(&target));
	http_reply_header(call->request, "Set-Cookie", buf_text(&cookie));
	http_reply_header(call->request, "Referrer-Policy", "no-referrer");
	answer_empty(call, 303);
}

static bool is_plain_get(const struct call *call)
{
	return strcmp(http_request_method(call->request), "GET") == 0 &&
	       !proxy_is_upgrade(call->request);
}

void preview_by_host(struct call *call)
{
	struct exposure exposure = { .kind = EXPOSED_BY_HOST };
	struct sandbox_id id;
	struct error err = { 0 };
	preview_host_parse(http_request_header(call->request, "Host"), &exposure.port, &id);
	if (call->api->config.is_preview_token_required) {
		const char *in_link = http_request_query(call->request, PREVIEW_PARAMETER, NULL);
		const char *token = in_link ? in_link : sent_token(call);
		exposure.parameter = PREVIEW_PARAMETER;
		if (!check_token(call, token, &id, exposure.port, &err))
			return answer_error(call, &err);
		if (in_link && is_plain_get(call))
			return keep_token(call, token, &exposure);
	}
	enter(call, &id, &exposure);
}

/* ---- tokens ---- */

static bool read_path(struct preview *preview, json_t *path, struct error *err)
{
	const char *text = json_string_value(path);
	size_t used = strlen(preview->paths), size = json_string_length(path);
	if (!text || text[0] != '/' || strlen(text) != size || strpbrk(text, "?#\\;%\n\r\t ") ||
		strstr(text, "//") || strstr(text, "/./") || strstr(text, "/../"))
		return error_set(err, ERROR_INVALID,
			"each of 'paths' must begin with '/' and have no blank, none of ?#%%\\; and "
			"no empty or dot segment");
	if (used + size + 1 > PREVIEW_PATHS_SIZE)
		return error_set(
			err, ERROR_INVALID, "'paths' are longer than %d bytes", PREVIEW_PATHS_SIZE);
	if (used > 0)
		preview->paths[used++] = '\n';
	memcpy(preview->paths + used, text, size + 1);
	return true;
}

static bool read_paths(struct preview *preview, json_t *paths, struct error *err)
{
	size_t i;
	json_t *path;
	if (!paths || json_is_null(paths))
		return true;
	if (!json_is_array(paths) || json_array_size(paths) > PREVIEW_PATHS)
		return error_set(err, ERROR_INVALID, "'paths' must be an array of at most %d",
			PREVIEW_PATHS);
	json_array_foreach(paths, i, path)
	{
		if (!read_path(preview, path, err))
			return false;
	}
	return true;
}

static bool read_body(
	struct call *call, json_t **ret_body, struct preview *preview, struct error *err)
{
	static const char *const known[] = { "port", "ttl_seconds", "paths", NULL };
	int64_t port = 0, ttl_s = TTL_DEFAULT_S;
	size_t size;
	const char *text = http_request_body(call->request, &size);
	*ret_body = fields_parse(text, size, known, err);
	*preview = (struct preview){ .sandbox = call->sandbox->id };
	if (!*ret_body || !fields_int(*ret_body, "port", 1, UINT16_MAX, &port, err) ||
		!fields_int(*ret_body, "ttl_seconds", 1, TTL_MOST_S, &ttl_s, err) ||
		!read_paths(preview, json_object_get(*ret_body, "paths"), err))
		return false;
	if (port == 0)
		return error_set(err, ERROR_INVALID, "'port' is missing");
	preview->port = (uint16_t)port;
	preview->expires_s = clock_wall_ms() / 1000 + ttl_s;
	return true;
}

static void write_paths(const struct preview *preview, struct writer *writer)
{
	writer_open(writer, "paths", '[');
	for (const char *path = preview->paths; *path;) {
		size_t size = strcspn(path, "\n");
		writer_bytes(writer, NULL, path, size);
		path += size + (path[size] == '\n');
	}
	writer_close(writer, ']');
}

static void answer_token(struct call *call, const struct preview *preview, struct buf *token)
{
	char expires[CLOCK_TEXT_SIZE];
	cleanup_writer struct writer writer = writer_make();
	cleanup_buf struct buf url = buf_make(TOKEN_ROOM);
	writer.is_failed = !buf_printf(&url, "%s://%s/v1/p/%s/", forward_scheme(call->request),
		http_request_header(call->request, "Host"), buf_text(token));
	clock_text(preview->expires_s * 1000, expires);
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "url", buf_text(&url));
	writer_text(&writer, "token", buf_text(token));
	writer_text(&writer, "sandbox_id", call->sandbox->text);
	writer_int(&writer, "port", preview->port);
	write_paths(preview, &writer);
	writer_text(&writer, "expires_at", expires);
	writer_close(&writer, '}');
	answer_json(call, 201, &writer);
}

void previews_make_token(struct call *call)
{
	struct error err = { 0 };
	struct preview preview;
	cleanup_json json_t *body = NULL;
	cleanup_buf struct buf token = buf_make(TOKEN_ROOM);
	if (!read_body(call, &body, &preview, &err))
		return answer_error(call, &err);
	if (!preview_seal(call->api->preview_key, &preview, &token)) {
		error_no_memory(&err);
		return answer_error(call, &err);
	}
	answer_token(call, &preview, &token);
}
