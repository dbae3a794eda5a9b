/*
 * See shown.h. Text goes out at once. A display that has an id may be updated until the run ends,
 * so it is shown then, in its last state: otherwise each update of a figure would be a file.
 */
#include "cli/shown.h"

#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#define DISPLAY_ID "display_id"

void shown_init(struct shown *shown, struct figures *figures)
{
	*shown = (struct shown){
		.figures = figures, .displays = json_object(), .status = EXIT_NOT_RUN
	};
}

void shown_deinit(struct shown *shown)
{
	json_decref(shown->displays);
	shown->displays = NULL;
}

static void begin(struct shown *shown)
{
	if (!shown->has_output && shown->before)
		shown->before(shown->data);
	shown->has_output = true;
}

static void print_chunk(struct shown *shown, FILE *stream, const json_t *event)
{
	const json_t *chunk = json_object_get(event, "chunk");
	begin(shown);
	fwrite(json_string_value(chunk) ? json_string_value(chunk) : "", 1,
		json_string_length(chunk), stream);
	fflush(stream);
}

static void print_bundle(struct shown *shown, const json_t *bundle)
{
	unsigned pictures = 0;
	const json_t *text = json_object_get(bundle, "text/plain");
	begin(shown);
	if (!figures_save(shown->figures, bundle, &pictures, &shown->err) || pictures)
		return; /* the text of a figure is only "<Figure size ...>" */
	if (json_is_string(text)) {
		fwrite(json_string_value(text), 1, json_string_length(text), stdout);
		putchar('\n');
		fflush(stdout);
		return;
	}
	const char *type = json_object_iter_key(json_object_iter((json_t *)bundle));
	fprintf(stderr, "sandglass run: a result of type %s is not shown\n", type ? type : "none");
}

static void take_bundle(struct shown *shown, json_t *bundle)
{
	const char *id = json_string_value(json_object_get(bundle, DISPLAY_ID));
	if (!id)
		return print_bundle(shown, bundle);
	json_object_set(shown->displays, id, bundle);
	json_object_del(bundle, DISPLAY_ID);
}

/* The traceback is in stderr already; anything else that went wrong is said. */
static void print_error(struct shown *shown, const json_t *event)
{
	const char *message = json_string_value(json_object_get(event, "message"));
	const char *hint = json_string_value(json_object_get(event, "hint"));
	const char *name = json_string_value(json_object_get(event, "name"));
	if (!message || json_string_length(json_object_get(event, "traceback")) > 0)
		return;
	begin(shown);
	fprintf(stderr, "%s\n", message);
	if (hint)
		fprintf(stderr, "  -> %s\n",
			name && strcmp(name, "CellTimeout") == 0 ? "--timeout SECONDS gives it more"
								 : hint);
}

static void end(struct shown *shown, const json_t *event)
{
	const char *id;
	json_t *bundle;
	const json_t *exit = json_object_get(event, "exit");
	json_object_foreach(shown->displays, id, bundle)
	{
		print_bundle(shown, bundle);
	}
	shown->has_ended = true;
	if (json_is_true(json_object_get(event, "timeout")))
		shown->status = EXIT_TIMED_OUT;
	else if (json_is_integer(exit))
		shown->status = (int)(json_integer_value(exit) & 0xff);
}

void shown_on_event(void *data, const char *name, const char *json, size_t size)
{
	struct shown *shown = data;
	json_t *event = json_loadb(json, size, JSON_ALLOW_NUL, NULL);
	if (strcmp(name, "stdout") == 0)
		print_chunk(shown, stdout, event);
	else if (strcmp(name, "stderr") == 0)
		print_chunk(shown, stderr, event);
	else if (strcmp(name, "result") == 0 || strcmp(name, "display") == 0 ||
		 strcmp(name, "update") == 0)
		take_bundle(shown, event);
	else if (strcmp(name, "clear") == 0)
		json_object_clear(shown->displays);
	else if (strcmp(name, "gap") == 0)
		fprintf(stderr, "\nsandglass run: some output is missing here\n");
	else if (strcmp(name, "error") == 0)
		print_error(shown, event);
	else if (strcmp(name, "end") == 0)
		end(shown, event);
	json_decref(event);
}
