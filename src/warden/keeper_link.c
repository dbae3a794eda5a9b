/*
 * The keeper's orders: the set-up, templates, a channel to each new api, the end. The keeper is
 * trusted, and its hang-up is the end: the kernel kills the warden with it anyway.
 */
#include "base/fd.h"
#include "base/log.h"
#include "jail/cgroup.h"
#include "jail/ids.h"
#include "jail/mounts.h"
#include "warden/sandbox.h"
#include "warden/template.h"
#include "warden/warden.h"

#include <string.h>

static void handle_setup(struct warden *warden, struct wire_packet *packet)
{
	memcpy(&warden->setup, packet->bytes, sizeof(warden->setup));
	warden->init_program = wire_packet_take(packet, 0);
	warden->cgroups.is_v2 = warden->setup.is_cgroup_v2;
	for (unsigned i = 0; i < CGROUP_HIERARCHIES; i++)
		warden->cgroups.dirs[i] = wire_packet_take(packet, 1 + i);
	/* More than places: those of the pool and of the ending, and what templates hold back. */
	warden->is_set_up = slices_init(&warden->slices, IDS_SLICES) && warden->init_program >= 0;
	cgroup_boxes_clear(&warden->cgroups);
}

static void handle_layer(struct warden *warden, struct wire_packet *packet)
{
	struct error err = { 0 };
	cleanup_close int fd = wire_packet_take(packet, 0);
	if (!mounts_attach_layer(fd, &err))
		log_error("layer", NULL, &err);
}

static void handle_template(struct warden *warden, struct wire_packet *packet)
{
	struct error err = { 0 };
	struct nursery_template about;
	memcpy(&about, packet->bytes, sizeof(about));
	if (!template_add(warden, &about, wire_packet_take(packet, 0), &err))
		log_error("template", NULL, &err);
	warden->is_ready_told = false;
	keeper_link_check_ready(warden);
}

static void handle_forget(struct warden *warden, struct wire_packet *packet)
{
	struct nursery_name order;
	memcpy(&order, packet->bytes, sizeof(order));
	order.name[sizeof(order.name) - 1] = '\0';
	template_forget(warden, order.name);
	keeper_link_check_ready(warden); /* it may have been the one that was waited for */
}

static void handle_api(struct warden *warden, struct wire_packet *packet)
{
	warden_set_api(warden, wire_packet_take(packet, 0));
	keeper_link_check_ready(warden);
}

static void handle_stop(struct warden *warden, struct wire_packet *packet)
{
	warden->is_stopping = true;
	if (list_is_empty(&warden->sandboxes))
		loop_stop(&warden->loop);
	LIST_EACH(&warden->sandboxes, struct sandbox, link, sandbox)
		sandbox_end(sandbox, SANDBOX_END_RELEASED);
}

static const struct order {
	uint16_t op;
	bool is_set_up; /* what must hold */
	size_t size;
	void (*handle)(struct warden *warden, struct wire_packet *packet);
} orders[] = {
	{ NURSERY_SETUP, false, sizeof(struct nursery_setup), handle_setup },
	{ NURSERY_LAYER, true, sizeof(struct nursery_plain), handle_layer },
	{ NURSERY_TEMPLATE, true, sizeof(struct nursery_template), handle_template },
	{ NURSERY_FORGET, true, sizeof(struct nursery_name), handle_forget },
	{ NURSERY_API, true, sizeof(struct nursery_plain), handle_api },
	{ NURSERY_STOP, true, sizeof(struct nursery_plain), handle_stop },
};

void keeper_link_check_ready(struct warden *warden)
{
	if (warden->is_ready_told || !warden->api.loop || !templates_are_settled(warden))
		return;
	struct error err;
	struct nursery_plain ready = {
		.header = { .op = NURSERY_READY, .version = NURSERY_VERSION },
	};
	warden->is_ready_told = true;
	if (!wire_send(warden->keeper.fd, &ready, sizeof(ready), NULL, 0, &err))
		log_error("keeper", NULL, &err);
}

static void on_keeper(struct loop_source *source, uint32_t events)
{
	struct warden *warden = CONTAINER_OF(source, struct warden, keeper);
	struct wire_packet packet;
	struct error err = { 0 };
	if (wire_receive(source->fd, &packet, &err) != WIRE_GOT) {
		loop_stop(&warden->loop);
		return;
	}
	bool is_known = false;
	for (size_t i = 0; i < ARRAY_SIZE(orders) && !is_known; i++) {
		is_known = orders[i].op == packet.header.op && orders[i].size == packet.size &&
			   orders[i].is_set_up == warden->is_set_up &&
			   packet.header.version == NURSERY_VERSION;
		if (is_known)
			orders[i].handle(warden, &packet);
	}
	wire_packet_deinit(&packet);
	if (!is_known) {
		log_write(LOG_ERROR, "keeper", NULL, "an order of the keeper is not understood");
		loop_stop(&warden->loop);
	}
}

bool keeper_link_start(struct warden *warden, int fd, struct error *err)
{
	return loop_watch(&warden->loop, &warden->keeper, fd, EPOLLIN, on_keeper, err);
}
