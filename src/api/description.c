/*
 * GET /openapi.json, and the page at /docs that shows it. Both are in the program. They say nothing
 * that is not in the source, so no key is needed. The page takes everything from its own origin and
 * may reach nothing else.
 */
#include "api/embedded.h"
#include "api/routes.h"

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
			     "connect-src 'self'; base-uri 'none'; form-action 'none'; "
			     "frame-ancestors 'none'";

static void send_file(struct call *call, const char *type, const unsigned char *bytes, size_t size)
{
	http_reply_header(call->request, "Cache-Control", "no-cache");
	http_reply_header(call->request, "X-Content-Type-Options", "nosniff");
	call->is_answered = true;
	http_reply(call->request, 200, type, bytes, size);
}

void openapi_get(struct call *call)
{
	send_file(call, "application/json", embedded_openapi, embedded_openapi_size);
}

void docs_page(struct call *call)
{
	http_reply_header(call->request, "Content-Security-Policy", policy);
	http_reply_header(call->request, "Referrer-Policy", "no-referrer");
	send_file(call, "text/html; charset=utf-8", embedded_page, embedded_page_size);
}

void docs_script(struct call *call)
{
	send_file(call, "text/javascript; charset=utf-8", embedded_script, embedded_script_size);
}

void docs_style(struct call *call)
{
	send_file(call, "text/css; charset=utf-8", embedded_style, embedded_style_size);
}
