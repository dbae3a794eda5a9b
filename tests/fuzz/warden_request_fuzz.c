/* Packets of a hostile api to the warden, several in one input: each is a length byte pair, and the
 * packet. The warden has one template and no cgroups, so that claims get as far as they can without
 * touching the machine. Whatever comes, it lives on; what is not allowed ends the channel. */
#include "warden/template.h"
#include "warden/sandbox.h"
#include "warden/warden.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct warden warden;
static struct template template = { .zygote_fd = -1, .failures = 100 };

static void warden_make(void)
{
	struct error err;
	warden = (struct warden){ .cgroups = CGROUP_TREE_NONE, .init_program = -1 };
	list_init(&warden.templates);
	list_init(&warden.sandboxes);
	list_init(&template.waiting);
	list_init(&template.pool);
	template.warden = &warden;
	strcpy(template.about.name, "base");
	list_append(&warden.templates, &template.link);
	warden.setup.slices = 8;
	warden.setup.defaults = (struct wire_limits){ 1 << 20, 1 << 19, 100, 10, 1000, 0 };
	warden.setup.caps = warden.setup.defaults;
	if (!slices_init(&warden.slices, 8) || !loop_init(&warden.loop, &err))
		abort();
}

/* Handles what has come, one packet a call, until the channel is empty or was ended. */
static void handle_all(void)
{
	while (warden.api.loop) {
		char peek;
		if (recv(warden.api.fd, &peek, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
			return;
		warden.api.on_ready(&warden.api, EPOLLIN);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int ends[2];
	struct error err;
	if (!warden.slices.all)
		warden_make();
	if (!wire_pair(ends, &err))
		return 0;
	warden_set_api(&warden, ends[0]);
	while (size >= 2 && warden.api.loop) {
		size_t length = (bytes[0] | (size_t)bytes[1] << 8) % 1024;
		length = MIN(length, size - 2);
		if (send(ends[1], bytes + 2, length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		bytes += 2 + length;
		size -= 2 + length;
		handle_all();
	}
	close(ends[1]);
	handle_all();
	if (!list_is_empty(&warden.sandboxes))
		abort(); /* nothing can have been made */
	return 0;
}
