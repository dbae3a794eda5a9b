/*
 * What may change while the daemon runs: templates that are built, and keys that the operator makes
 * or removes. Their folders are watched; SIGHUP asks to look, too, where watching does not work.
 *
 * A template goes to the warden first, and to the api when the warden says that it is warm (or will
 * never be): so nobody is offered what is not there yet. Keys go to the api at once.
 */
#include "base/log.h"
#include "keeper/keeper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#define SETTLE_MS 100 /* a build or a command makes several changes at once */
#define CHANGES (IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE)

static bool take_template(struct keeper *keeper, const struct image *image, struct error *err)
{
	const char *name = json_string_value(json_object_get(image_about(image), "name"));
	if (!nursery_send_template(keeper, image, err))
		return false;
	log_write(LOG_INFO, "template.new", NULL, "template '%s' is '%s' now", name, image->path);
	keeper->is_template_new = true;
	return true;
}

void reload_now(struct keeper *keeper)
{
	struct error err = { 0 };
	if (keeper->is_stopping)
		return;
	keeper->is_look_due = !keeper->warden.pid || !keeper->warden.is_ready;
	if (!keeper->is_look_due)
		images_renew(keeper, take_template);
	if (keeper->api.pid && !service_send_config(keeper, &err))
		log_error("reload", NULL, &err);
}

void reload_on_settled(struct keeper *keeper)
{
	struct error err = { 0 };
	if (keeper->is_template_new) {
		keeper->is_template_new = false;
		images_settle(keeper);
		if (keeper->api.pid && !service_send_config(keeper, &err))
			log_error("reload", NULL, &err);
	}
	if (keeper->is_look_due)
		reload_now(keeper);
	builder_on_settled(keeper);
}

static void on_settle(struct loop_timer *timer)
{
	reload_now(CONTAINER_OF(timer, struct keeper, settle));
}

static void on_change(struct loop_source *source, uint32_t events)
{
	struct keeper *keeper = CONTAINER_OF(source, struct keeper, changes);
	char names[4096];
	while (read(source->fd, names, sizeof(names)) > 0)
		; /* which it was does not matter */
	loop_timer_start(&keeper->loop, &keeper->settle, SETTLE_MS, on_settle);
}

bool reload_start(struct keeper *keeper, struct error *err)
{
	char cache[PATH_MAX], made[MADE_FOLDER_SIZE], keys[PATH_MAX + 8];
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	snprintf(keys, sizeof(keys), "%s/keys", keeper->state.folder);
	if (!images_folder(cache, sizeof(cache), err))
		return false;
	images_made_folder(keeper, made);
	if (fd < 0 || inotify_add_watch(fd, cache, CHANGES | IN_ONLYDIR) < 0 ||
		inotify_add_watch(fd, made, CHANGES | IN_ONLYDIR) < 0 ||
		inotify_add_watch(fd, keys, CHANGES | IN_ONLYDIR) < 0) {
		log_write(LOG_WARNING, "reload.blind", NULL,
			"changes of templates and keys are seen only on SIGHUP: %s",
			strerror(errno));
		return true;
	}
	return loop_watch(&keeper->loop, &keeper->changes, fd, EPOLLIN, on_change, err);
}
