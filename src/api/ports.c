/*
 * The ports of a sandbox: those that were declared, and those on which somebody listens now, which
 * init tells. Each can be reached below proxy/, declared or not; a declaration gives it a label and
 * a place in the list.
 */
#include "store/ports.h"
#include "api/answer.h"
#include "api/fields.h"
#include "api/forward.h"
#include "api/inside.h"
#include "api/preview.h"
#include "api/routes.h"

#include <string.h>
#include <sys/socket.h>

#define PATIENCE_MS 10000
#define LABEL_SIZE 64

/* Init is asked what listens, for one call. */
struct census {
	struct call *call; /* not owned */
	struct api *api;
	struct guest guest;
	struct loop_source answer; /* its descriptor is owned */
	struct loop_timer patience;
	uint16_t only; /* answer with that port alone; 0: with all */
};

static struct call *census_free(struct census *census)
{
	struct call *call = census->call;
	guest_leave(&census->guest);
	loop_timer_stop(&census->patience);
	loop_close(&census->answer);
	api_return_descriptors(census->api, 1);
	call->state = NULL;
	call->on_gone = NULL;
	free(census);
	return call;
}

static void fail(struct census *census, const struct error *err)
{
	answer_error(census_free(census), err);
}

static void fail_with(struct census *census, enum error_code code, const char *text)
{
	struct error err = { 0 };
	error_set(&err, code, "%s", text);
	fail(census, &err);
}

static void on_gone(struct call *call)
{
	answer_gone(census_free(call->state));
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	fail(CONTAINER_OF(guest, struct census, guest), why);
}

static void on_patience(struct loop_timer *timer)
{
	fail_with(CONTAINER_OF(timer, struct census, patience), ERROR_INTERNAL,
		"the sandbox did not tell its ports in time");
}

/* ---- the list ---- */

struct listing {
	const struct call *call;
	const struct inside_ports_answer *listening;
	uint32_t next; /* of those that listen */
	const char *id;
	uint16_t only;
	struct writer writer; /* owned */
};

static void write_port(struct listing *listing, uint16_t port, const char *label, bool is_listening,
	const char *source)
{
	char url[320];
	struct writer *writer = &listing->writer;
	if (listing->only && listing->only != port)
		return;
	snprintf(url, sizeof(url), "%s://%.200s/v1/sandboxes/%s/proxy/%u/",
		forward_scheme(listing->call->request),
		http_request_header(listing->call->request, "Host"), listing->id, port);
	writer_open(writer, NULL, '{');
	writer_int(writer, "port", port);
	if (label && *label)
		writer_text(writer, "label", label);
	writer_bool(writer, "listening", is_listening);
	writer_text(writer, "source", source);
	writer_text(writer, "proxy_url", url);
	writer_close(writer, '}');
}

/* Those that listen and come before the port; all for UINT32_MAX. True: the next one is it. */
static bool write_until(struct listing *listing, uint32_t port)
{
	const struct inside_ports_answer *listening = listing->listening;
	for (; listing->next < listening->count; listing->next++) {
		uint16_t found = listening->ports[listing->next];
		if (found >= port)
			return found == port;
		write_port(listing, found, NULL, true, "detected");
	}
	return false;
}

static void take_row(void *context, const struct port_row *row)
{
	struct listing *listing = context;
	bool is_listening = write_until(listing, row->port);
	if (is_listening)
		listing->next++;
	write_port(listing, row->port, row->label, is_listening, "declared");
}

static void answer_list(struct census *census, const struct inside_ports_answer *listening)
{
	struct sandbox *sandbox = census->guest.sandbox;
	struct error err = { 0 };
	struct listing listing = { .call = census->call,
		.listening = listening,
		.id = sandbox->text,
		.only = census->only,
		.writer = writer_make() };
	if (!census->only)
		writer_open(&listing.writer, NULL, '[');
	bool is_read = port_row_each(census->api->store, &sandbox->id, take_row, &listing, &err);
	write_until(&listing, UINT32_MAX);
	if (!census->only)
		writer_close(&listing.writer, ']');
	unsigned status = census->only ? 201 : 200;
	if (is_read)
		answer_json(census_free(census), status, &listing.writer);
	else
		fail(census, &err);
	writer_deinit(&listing.writer);
}

/* ---- asking ---- */

static void on_answer(struct loop_source *source, uint32_t events)
{
	struct census *census = CONTAINER_OF(source, struct census, answer);
	struct inside_ports_answer listening;
	ssize_t n = recv(source->fd, &listening, sizeof(listening), MSG_DONTWAIT);
	if (n < 0)
		return; /* on_patience comes */
	if (n == sizeof(listening) && listening.error == INSIDE_BUSY)
		return fail_with(
			census, ERROR_BUSY, "the sandbox has no process left to tell its ports");
	if (n != sizeof(listening) || listening.error != INSIDE_OK ||
		listening.count > INSIDE_PORTS_LIMIT)
		return fail_with(census, ERROR_INTERNAL, "the sandbox could not tell its ports");
	answer_list(census, &listening);
}

static bool ask(struct census *census, struct sandbox *sandbox, struct error *err)
{
	struct inside_request request = { .op = INSIDE_PORTS };
	return inside_ask_watched(sandbox, &request, &census->answer, on_answer, err);
}

static void take_census(struct call *call, uint16_t only)
{
	struct error err = { 0 };
	if (!api_take_descriptors(call->api, 1, &err))
		return answer_error(call, &err);
	struct census *census = calloc(1, sizeof(*census));
	if (!census) {
		api_return_descriptors(call->api, 1);
		error_no_memory(&err);
		return answer_error(call, &err);
	}
	*census = (struct census){ .call = call, .api = call->api, .answer.fd = -1, .only = only };
	if (!guest_look(&census->guest, call->sandbox, on_sandbox_end, &err) ||
		!ask(census, call->sandbox, &err))
		return fail(census, &err);
	call->state = census;
	call->on_gone = on_gone;
	loop_timer_start(&call->api->loop, &census->patience, PATIENCE_MS, on_patience);
}

void ports_list(struct call *call)
{
	take_census(call, 0);
}

/* ---- declaring ---- */

static bool read_body(struct call *call, json_t **ret_body, struct port_row *row, struct error *err)
{
	static const char *const known[] = { "port", "label", NULL };
	int64_t port = 0;
	const char *label = "";
	size_t size, label_size = 0;
	const char *text = http_request_body(call->request, &size);
	*row = (struct port_row){ 0 };
	*ret_body = fields_parse(text, size, known, err);
	if (!*ret_body || !fields_int(*ret_body, "port", 1, UINT16_MAX, &port, err) ||
		!fields_text(*ret_body, "label", &label, &label_size, err))
		return false;
	if (port == 0)
		return error_set(err, ERROR_INVALID, "'port' is missing");
	if (label_size > LABEL_SIZE || strlen(label) != label_size)
		return error_set(err, ERROR_INVALID,
			"'label' must be at most %d bytes, and without NUL", LABEL_SIZE);
	row->port = (uint16_t)port;
	memcpy(row->label, label, label_size);
	return true;
}

void ports_declare(struct call *call)
{
	struct error err = { 0 };
	struct port_row row;
	cleanup_json json_t *body = NULL;
	if (!read_body(call, &body, &row, &err) ||
		!port_row_put(call->api->store, &call->sandbox->id, &row, &err))
		return answer_error(call, &err);
	take_census(call, row.port);
}

void ports_remove(struct call *call)
{
	struct error err = { 0 };
	uint16_t port;
	bool is_there = false;
	if (!preview_port_parse(http_request_segment(call->request, 4), &port)) {
		error_set(&err, ERROR_INVALID, "the port must be a number from 1 to 65535");
		return answer_error(call, &err);
	}
	if (!port_row_delete(call->api->store, &call->sandbox->id, port, &is_there, &err))
		return answer_error(call, &err);
	if (is_there)
		return answer_empty(call, 204);
	error_set(&err, ERROR_PORT_NOT_FOUND, "port %u is not declared", port);
	answer_error(call, &err);
}
