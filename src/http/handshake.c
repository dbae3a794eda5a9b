/* The opening handshake of a WebSocket: see websocket.h. */
#include "http/websocket.h"

#include <nettle/base64.h>
#include <nettle/sha1.h>
#include <string.h>

#define KEY_TEXT 24 /* base64 of 16 bytes */

static bool is_key(const char *key)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789+/";
	return key && strlen(key) == KEY_TEXT && strspn(key, alphabet) == KEY_TEXT - 2 &&
	       strcmp(key + KEY_TEXT - 2, "==") == 0;
}

bool websocket_check(const struct http_request *request, struct error *err)
{
	const char *version = http_request_header(request, "Sec-WebSocket-Version");
	if (!http_request_names(request, "Connection", "upgrade") ||
		!http_request_names(request, "Upgrade", "websocket"))
		return error_set(err, ERROR_UPGRADE, "this path speaks WebSocket only");
	if (!version || strcmp(version, "13") != 0)
		return error_set(err, ERROR_UPGRADE, "the WebSocket version must be 13");
	if (strcmp(http_request_method(request), "GET") != 0 ||
		http_request_content_length(request) != 0)
		return error_set(
			err, ERROR_INVALID, "a WebSocket begins with a GET without a body");
	if (http_request_header_count(request, "Sec-WebSocket-Key") != 1 ||
		!is_key(http_request_header(request, "Sec-WebSocket-Key")))
		return error_set(
			err, ERROR_INVALID, "'Sec-WebSocket-Key' must be 16 bytes in base64");
	return true;
}

void websocket_accept_text(const char *key, char text[WEBSOCKET_ACCEPT_TEXT])
{
	static const char constant[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t hash[SHA1_DIGEST_SIZE];
	struct sha1_ctx context;
	sha1_init(&context);
	sha1_update(&context, strlen(key), (const uint8_t *)key);
	sha1_update(&context, sizeof(constant) - 1, (const uint8_t *)constant);
	sha1_digest(&context, sizeof(hash), hash);
	base64_encode_raw(text, sizeof(hash), hash);
	text[WEBSOCKET_ACCEPT_TEXT - 1] = '\0';
}
