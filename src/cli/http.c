/*
 * See http.h. libcurl's multi interface with a single transfer: curl_multi_poll also waits for the
 * caller's descriptor. Nothing is retried here: the caller knows what may be sent twice.
 */
#include "cli/http.h"

#include "base/buf.h"
#include "base/clock.h"

#include <curl/curl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define BODY_LIMIT (256u << 20) /* above what one cell can return */
#define CONNECT_LIMIT_MS 5000L

struct http_client {
	struct target target;
	CURLM *multi;               /* owned */
	CURL *easy;                 /* owned */
	struct curl_slist *headers; /* owned */
};

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
	client->headers = curl_slist_append(NULL, authorization);
	if (!client->multi || !client->easy || !client->headers ||
		!curl_slist_append(client->headers, "Content-Type: application/json") ||
		!curl_slist_append(client->headers, "Expect:"))
		return error_no_memory(err);
	return TAKE(&client);
}

struct body {
	const struct http_call *call;
	CURL *easy;
	struct buf buf;
};

static size_t on_bytes(char *bytes, size_t one, size_t size, void *data)
{
	struct body *body = data;
	long status = 0;
	curl_easy_getinfo(body->easy, CURLINFO_RESPONSE_CODE, &status);
	bool is_taken = status == 200 && body->call->on_bytes
				? body->call->on_bytes(body->call->on_bytes_data, bytes, one * size)
				: buf_append(&body->buf, bytes, one * size);
	return is_taken ? one * size : 0;
}

static bool is_loopback(const char *api)
{
	const char *host = strstr(api, "//");
	host = host ? host + 2 : api;
	return strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
	       strncmp(host, "localhost", 9) == 0;
}

static void prepare(struct http_client *client, const struct http_call *call, const char *url,
	const char *text, struct body *body)
{
	CURL *easy = client->easy;
	curl_easy_reset(easy); /* keeps the connection */
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandglass/" SANDGLASS_VERSION);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_LIMIT_MS);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, call->limit_s);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
	if (is_loopback(url)) /* a proxy of the environment has no business in between */
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	if (strcmp(call->method, "GET") != 0) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, text ? text : "");
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, text ? (long)strlen(text) : 0L);
	}
}

static CURLcode result_of(CURLM *multi)
{
	int left;
	for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));)
		if (message->msg == CURLMSG_DONE)
			return message->data.result;
	return CURLE_FAILED_INIT;
}

/* Moves the transfer to its end. False when stop_fd ended it. */
static bool transfer(struct http_client *client, const struct http_call *call, CURLcode *ret_code)
{
	int64_t next_tick_ms = clock_monotonic_ms() + 1000;
	for (;;) {
		int running = 0;
		if (curl_multi_perform(client->multi, &running) != CURLM_OK) {
			*ret_code = CURLE_FAILED_INIT;
			return true;
		}
		if (running == 0) {
			*ret_code = result_of(client->multi);
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
			call->limit_s ? call->limit_s : CONNECT_LIMIT_MS / 1000);
	return error_set(err, ERROR_INTERNAL, "%s %s failed: %s", call->method, call->path,
		curl_easy_strerror(code));
}

static bool perform(struct http_client *client, const struct http_call *call, const char *url,
	const char *text, struct body *body, struct http_answer *answer, struct error *err)
{
	prepare(client, call, url, text, body);
	if (curl_multi_add_handle(client->multi, client->easy) != CURLM_OK)
		return error_set(err, ERROR_INTERNAL, "libcurl takes no transfer");
	CURLcode code = CURLE_OK;
	bool is_whole = transfer(client, call, &code);
	curl_multi_remove_handle(client->multi, client->easy);
	if (!is_whole) {
		answer->is_stopped = true;
		return true;
	}
	if (code != CURLE_OK)
		return explain(client, call, code, err);
	curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &answer->status);
	if (body->buf.size)
		answer->json = json_loadb(
			body->buf.bytes, body->buf.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	return true;
}

bool http_call(struct http_client *client, const struct http_call *call,
	struct http_answer *ret_answer, struct error *err)
{
	*ret_answer = (struct http_answer){ 0 };
	char url[1024];
	int n = snprintf(url, sizeof(url), "%s/v1%s", client->target.api, call->path);
	if (n >= (int)sizeof(url))
		return error_set(err, ERROR_INVALID, "the path is too long");
	cleanup_free char *text = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
	if (call->body && !text) {
		error_no_memory(err);
		return false;
	}
	struct body body = { call, client->easy, buf_make(BODY_LIMIT) };
	bool is_answered = perform(client, call, url, text, &body, ret_answer, err);
	buf_deinit(&body.buf);
	return is_answered;
}

void http_answer_deinit(struct http_answer *answer)
{
	json_decref(answer->json);
	answer->json = NULL;
}

bool http_answer_error(const struct http_answer *answer, struct error *err)
{
	const char *text = json_string_value(json_object_get(answer->json, "error"));
	const char *hint = json_string_value(json_object_get(answer->json, "hint"));
	if (text)
		error_set(err, ERROR_INTERNAL, "%s", text);
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
