/*
 * Many short GETs side by side: what `ps` and `top` ask of each sandbox. At most WINDOW are under
 * way, each over a connection that is kept for the next one.
 */
#include "cli/http_private.h"

#define WINDOW 32
#define LIMIT_S 10L

struct lane {
	CURL *easy;            /* owned */
	struct http_get *get;  /* not owned; NULL while it has nothing to do */
	struct http_body body; /* its buffer is owned */
	struct http_call call;
};

struct many {
	struct http_client *client; /* not owned */
	struct http_get *gets;      /* not owned */
	size_t count, next, done;
	struct lane lanes[WINDOW];
};

static bool begin(struct many *many, struct lane *lane)
{
	cleanup_buf struct buf url = buf_make(4096);
	struct http_get *get = &many->gets[many->next];
	if (!lane->easy && !(lane->easy = curl_easy_init()))
		return false;
	lane->call = (struct http_call){ .method = "GET", .path = get->path, .limit_s = LIMIT_S };
	lane->body = http_body_make(&lane->call, lane->easy);
	if (!http_address(&many->client->target, get->path, &url, NULL))
		return false;
	http_prepare(many->client, lane->easy, buf_text(&url), NULL, &lane->body);
	curl_easy_setopt(lane->easy, CURLOPT_PRIVATE, lane);
	if (curl_multi_add_handle(many->client->multi, lane->easy) != CURLM_OK)
		return false;
	lane->get = get;
	many->next++;
	return true;
}

static void leave(struct many *many, struct lane *lane)
{
	curl_multi_remove_handle(many->client->multi, lane->easy);
	buf_deinit(&lane->body.buf);
	lane->get = NULL;
}

static void take(struct many *many, CURLMsg *message)
{
	struct lane *lane = NULL;
	CURLcode code = message->data.result; /* the message is gone with the handle */
	curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&lane);
	if (code == CURLE_OK) {
		curl_easy_getinfo(lane->easy, CURLINFO_RESPONSE_CODE, &lane->get->status);
		lane->get->json = http_body_json(&lane->body);
	}
	leave(many, lane);
	many->done++;
}

static bool fill(struct many *many)
{
	for (size_t i = 0; i < WINDOW && many->next < many->count; i++)
		if (!many->lanes[i].get && !begin(many, &many->lanes[i]))
			return false;
	return true;
}

static bool work(struct many *many)
{
	int running, left;
	while (many->done < many->count) {
		if (!fill(many) || curl_multi_perform(many->client->multi, &running) != CURLM_OK)
			return false;
		for (CURLMsg *message;
			(message = curl_multi_info_read(many->client->multi, &left));)
			if (message->msg == CURLMSG_DONE)
				take(many, message);
		if (running > 0)
			curl_multi_poll(many->client->multi, NULL, 0, 250, NULL);
	}
	return true;
}

bool http_get_many(
	struct http_client *client, struct http_get *gets, size_t count, struct error *err)
{
	struct many *many = calloc(1, sizeof(*many));
	if (!many)
		return error_no_memory(err), false;
	*many = (struct many){ .client = client, .gets = gets, .count = count };
	bool is_good = work(many);
	for (size_t i = 0; i < WINDOW; i++) {
		if (many->lanes[i].get)
			leave(many, &many->lanes[i]);
		if (many->lanes[i].easy)
			curl_easy_cleanup(many->lanes[i].easy);
	}
	free(many);
	return is_good || error_set(err, ERROR_INTERNAL, "libcurl takes no transfer");
}
