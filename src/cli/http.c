/*
 * See http.h. libcurl's multi interface with a single transfer: curl_multi_poll also waits for the
 * caller's descriptor. Nothing is retried here: the caller knows what may be sent twice.
 */
#include "cli/http_private.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define BODY_LIMIT (256u << 20) /* above what one cell can return */
#define URL_LIMIT (32u << 10)   /* a path of 4 KiB, each byte escaped, and what is around it */

struct http_client *http_client_free(struct http_client *client)
{
	if (!client)
		return NULL;
	curl_slist_free_all(client->headers);
	if (client->easy)
		curl_easy_cleanup(client->easy);
	if (client->multi)
		curl_multi_cleanup(client->multi);
	free(client);
	return NULL;
}

struct http_client *http_client_new(const struct target *target, struct error *err)
{
	CLEANUP(http_client_free) struct http_client *client = calloc(1, sizeof(*client));
	if (!client)
		return error_no_memory(err);
	client->target = *target;
	client->multi = curl_multi_init();
	client->easy = curl_easy_init();
	char authorization[sizeof(target->key) + 32];
	snprintf(authorization, sizeof(authorization), "Authorization: Bearer %s", target->key);
	/* The content type is the first, so that an upload can leave it out. */
	client->headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!client->multi || !client->easy || !client->headers ||
		!curl_slist_append(client->headers, authorization) ||
		!curl_slist_append(client->headers, "Expect:"))
		return error_no_memory(err);
	return TAKE(&client);
}

struct http_body http_body_make(const struct http_call *call, CURL *easy)
{
	return (struct http_body){ call, easy, buf_make(BODY_LIMIT), clock_monotonic_ms() };
}

json_t *http_body_json(const struct http_body *body)
{
	if (body->buf.size == 0)
		return NULL;
	return json_loadb(body->buf.bytes, body->buf.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

static size_t on_bytes(char *bytes, size_t one, size_t size, void *data)
{
	struct http_body *body = data;
	long status = 0;
	curl_easy_getinfo(body->easy, CURLINFO_RESPONSE_CODE, &status);
	bool is_taken = status == 200 && body->call->on_bytes
				? body->call->on_bytes(body->call->on_bytes_data, bytes, one * size)
				: buf_append(&body->buf, bytes, one * size);
	body->heard_ms = clock_monotonic_ms(); /* taking it may have lasted: who reads us is slow */
	return is_taken ? one * size : 0;
}

static size_t on_read(char *bytes, size_t one, size_t size, void *data)
{
	const struct http_call *call = data;
	size_t n = call->on_read(call->on_read_data, bytes, one * size);
	return n == HTTP_NO_BYTES ? CURL_READFUNC_ABORT : n;
}

static bool is_loopback(const char *api)
{
	const char *host = strstr(api, "//");
	host = host ? host + 2 : api;
	return strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
	       strncmp(host, "localhost", 9) == 0;
}

void http_prepare_common(CURL *easy, const char *url)
{
	curl_easy_reset(easy); /* keeps the connection */
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, HTTP_CONNECT_LIMIT_MS);
	if (is_loopback(url)) /* a proxy of the environment has no business in between */
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

/* A body that the caller gives in pieces. */
static void prepare_upload(CURL *easy, const struct http_call *call)
{
	curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
	curl_easy_setopt(easy, CURLOPT_READDATA, call);
	curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->read_size);
}

void http_prepare(const struct http_client *client, CURL *easy, const char *url, const char *text,
	struct http_body *body)
{
	const struct http_call *call = body->call;
	http_prepare_common(easy, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandglass/" SANDGLASS_VERSION);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, call->limit_s);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
	if (call->on_read) {
		prepare_upload(easy, call);
	} else if (call->form) {
		curl_easy_setopt(easy, CURLOPT_MIME_OPTIONS, (long)CURLMIMEOPT_FORMESCAPE);
		curl_easy_setopt(easy, CURLOPT_MIMEPOST, call->form);
	} else if (strcmp(call->method, "GET") != 0) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, text ? text : "");
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, text ? (long)strlen(text) : 0L);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
}

static CURLcode result_of(CURLM *multi)
{
	int left;
	for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));)
		if (message->msg == CURLMSG_DONE)
			return message->data.result;
	return CURLE_FAILED_INIT;
}

static bool is_silent(const struct http_body *body)
{
	int64_t limit_ms = body->call->silence_s * 1000;
	return limit_ms > 0 && clock_monotonic_ms() - body->heard_ms > limit_ms;
}

/* Moves the transfer to its end. False when stop_fd ended it. */
static bool transfer(struct http_client *client, const struct http_body *body, CURLcode *ret_code)
{
	const struct http_call *call = body->call;
	int64_t next_tick_ms = clock_monotonic_ms() + 1000;
	for (;;) {
		int running = 0;
		if (curl_multi_perform(client->multi, &running) != CURLM_OK) {
			*ret_code = CURLE_FAILED_INIT;
			return true;
		}
		if (running == 0 || is_silent(body)) {
			*ret_code = running ? CURLE_RECV_ERROR : result_of(client->multi);
			return true;
		}
		struct curl_waitfd stop = { .fd = call->stop_fd, .events = CURL_WAIT_POLLIN };
		curl_multi_poll(client->multi, &stop, call->stop_fd >= 0, 250, NULL);
		if (stop.revents)
			return false;
		if (call->on_tick && clock_monotonic_ms() >= next_tick_ms) {
			next_tick_ms += 1000;
			call->on_tick(call->data);
		}
	}
}

static bool explain(const struct http_client *client, const struct http_call *call, CURLcode code,
	struct error *err)
{
	if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST) {
		error_set(err, ERROR_INTERNAL, "no daemon answers at %s", client->target.api);
		return error_hint(
			err, "is sandglassd running? its log is what it writes to stderr");
	}
	if (code == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ERROR_INTERNAL, "%s %s was not answered within %ld s",
			call->method, call->path,
			call->limit_s ? call->limit_s : HTTP_CONNECT_LIMIT_MS / 1000);
	if (code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
		code == CURLE_SEND_ERROR) {
		error_set(err, ERROR_INTERNAL, "the connection to %s broke", client->target.api);
		return error_hint(err, "the daemon was ended, or something in between hung up");
	}
	return error_set(err, ERROR_INTERNAL, "%s %s failed: %s", call->method, call->path,
		curl_easy_strerror(code));
}

static bool perform(struct http_client *client, struct http_body *body, struct http_answer *answer,
	struct error *err)
{
	const struct http_call *call = body->call;
	if (curl_multi_add_handle(client->multi, client->easy) != CURLM_OK)
		return error_set(err, ERROR_INTERNAL, "libcurl takes no transfer");
	CURLcode code = CURLE_OK;
	bool is_whole = transfer(client, body, &code);
	curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &answer->status);
	curl_multi_remove_handle(client->multi, client->easy);
	if (!is_whole) {
		answer->status = 0;
		answer->is_stopped = true;
		return true;
	}
	answer->is_broken = code != CURLE_OK && answer->status == 200;
	if (code != CURLE_OK)
		return explain(client, call, code, err);
	answer->json = http_body_json(body);
	return true;
}

bool http_address(const struct target *target, const char *path, struct buf *url, struct error *err)
{
	if (buf_printf(url, "%s/v1%s", target->api, path))
		return true;
	return error_set(err, ERROR_INVALID, "the path is too long");
}

bool http_query(struct buf *path, const char *name, const char *value)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
	bool is_good = buf_printf(path, "%s=", name);
	for (; is_good && *value; value++)
		is_good = strchr(plain, *value) ? buf_append(path, value, 1)
						: buf_printf(path, "%%%02X", (unsigned char)*value);
	return is_good;
}

static bool call_with_headers(struct http_client *client, const struct http_call *call,
	struct curl_slist *headers, struct http_answer *answer, struct error *err)
{
	cleanup_buf struct buf url = buf_make(URL_LIMIT);
	if (!http_address(&client->target, call->path, &url, err))
		return false;
	cleanup_free char *text = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
	if (call->body && !text)
		return error_no_memory(err), false;
	struct http_body body = http_body_make(call, client->easy);
	http_prepare(client, client->easy, buf_text(&url), text, &body);
	curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, headers);
	bool is_answered = perform(client, &body, answer, err);
	buf_deinit(&body.buf);
	return is_answered;
}

/* Headers of this call alone go ahead of the common ones, which stay the client's. */
bool http_call(struct http_client *client, const struct http_call *call,
	struct http_answer *ret_answer, struct error *err)
{
	*ret_answer = (struct http_answer){ 0 };
	char line[128] = "Content-Type: application/octet-stream";
	struct curl_slist own = { .data = line, .next = client->headers };
	if (call->on_read)
		own.next = client->headers->next;
	else if (call->last_id)
		snprintf(line, sizeof(line), "Last-Event-ID: %.64s", call->last_id);
	bool has_own = call->on_read || call->last_id;
	struct curl_slist *headers = call->form ? client->headers->next
				     : has_own  ? &own
						: client->headers;
	return call_with_headers(client, call, headers, ret_answer, err);
}

void http_answer_deinit(struct http_answer *answer)
{
	json_decref(answer->json);
	answer->json = NULL;
}

/* What a refusal is called, as an error of ours. */
static enum error_code code_of(const struct http_answer *answer)
{
	const char *word = json_string_value(json_object_get(answer->json, "code"));
	for (int code = 0; word && code < ERROR_COUNT; code++)
		if (strcmp(word, error_word((enum error_code)code)) == 0)
			return (enum error_code)code;
	return ERROR_INTERNAL;
}

bool http_answer_error(const struct http_answer *answer, struct error *err)
{
	const char *text = json_string_value(json_object_get(answer->json, "error"));
	const char *hint = json_string_value(json_object_get(answer->json, "hint"));
	if (text)
		error_set(err, code_of(answer), "%s", text);
	else
		error_set(err, ERROR_INTERNAL, "the daemon answered HTTP %ld", answer->status);
	if (hint)
		error_hint(err, "%s", hint);
	else if (answer->status == 401)
		error_hint(err, "the key is the one in the daemon's state folder, file 'key'");
	return false;
}

bool http_check_alive(const struct target *target, struct error *err)
{
	CLEANUP(http_client_free) struct http_client *client = http_client_new(target, err);
	if (!client)
		return false;
	struct http_call call = {
		.method = "GET", .path = "/capabilities", .stop_fd = -1, .limit_s = 5
	};
	struct http_answer answer;
	bool is_alive = http_call(client, &call, &answer, err);
	if (is_alive && answer.status == 401)
		is_alive = http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	return is_alive;
}
