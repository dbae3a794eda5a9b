/* `sandglass ports` and `sandglass preview`: what listens inside, and how to get there. */
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LONGEST_TTL_S (7 * 86400)

static const struct table_column columns[] = { { "PORT", true }, { "STATE", false },
	{ "LABEL", false }, { "URL", false } };

static bool add_row(struct table *table, const json_t *port)
{
	char number[HUMAN_SIZE];
	bool is_listening = json_is_true(json_object_get(port, "listening"));
	const char *cells[] = { number, is_listening ? "listening" : "closed",
		json_string_value(json_object_get(port, "label")),
		json_string_value(json_object_get(port, "proxy_url")) };
	snprintf(number, sizeof(number), "%d",
		(int)json_integer_value(json_object_get(port, "port")));
	if (!table_add(table, cells))
		return false;
	table_paint(table, 1, is_listening ? TABLE_GREEN : TABLE_YELLOW);
	return true;
}

static int print_ports(json_t *ports)
{
	const struct table_style style = { .has_colour = human_has_colour(stdout) };
	CLEANUP(table_free) struct table *table = table_new(columns, ARRAY_SIZE(columns));
	cleanup_buf struct buf out = buf_make((size_t)1 << 20);
	bool is_good = table;
	size_t i;
	json_t *port;
	json_array_foreach(ports, i, port)
	{
		is_good = is_good && add_row(table, port);
	}
	if (is_good && table_write(table, &style, &out))
		fwrite(out.bytes, 1, out.size, stdout);
	json_decref(ports);
	return command_end("ports");
}

int ports_command(int argc, char **argv)
{
	const char *state = NULL;
	bool is_json = false;
	const struct option_spec specs[] = { OPTION_STATE(&state), OPTION_JSON(&is_json) };
	int first = options_parse("ports", argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_ANY);
	char id[SANDBOX_ID_TEXT], path[DAEMON_PATH];
	struct daemon daemon;
	struct error err = { 0 };
	json_t *ports = NULL;
	if (first < 0)
		return EXIT_MISUSED;
	if (argc - first != 1)
		return command_misused("ports", "give the ID of one sandbox");
	bool is_good =
		daemon_open(&daemon, state, &err) && daemon_find(&daemon, argv[first], id, &err);
	if (is_good) {
		daemon_path(path, id, "/ports");
		is_good = daemon_get(&daemon, path, &ports, &err);
	}
	daemon_close(&daemon);
	if (!is_good)
		return command_fail("ports", &err);
	return is_json ? command_print_json("ports", ports) : print_ports(ports);
}

/* ---- preview ---- */

struct preview {
	const char *state, *path;
	bool is_json;
	int64_t ttl_s;
};

/* A token that is limited to a path is not for the root, so the address is that of the path. */
static void print_encoded(const char *path)
{
	for (; *path; path++)
		if (isalnum((unsigned char)*path) || strchr("/-._~", *path))
			putchar(*path);
		else
			printf("%%%02X", (unsigned char)*path);
}

static int print_preview(const struct preview *preview, json_t *made)
{
	const char *url = json_string_value(json_object_get(made, "url"));
	const char *end = json_string_value(json_object_get(made, "expires_at"));
	if (preview->is_json)
		return command_print_json("preview", made);
	printf("%s", url ? url : "");
	if (preview->path)
		print_encoded(preview->path + strspn(preview->path, "/"));
	putchar('\n');
	fprintf(stderr, "anyone with this address may use it until %s\n", end ? end : "?");
	json_decref(made);
	return command_end("preview");
}

static int make_preview(const struct preview *preview, const char *word, long port)
{
	char id[SANDBOX_ID_TEXT], path[DAEMON_PATH];
	struct daemon daemon;
	struct error err = { 0 };
	json_t *body = json_pack("{s:I}", "port", (json_int_t)port), *made = NULL;
	if (preview->ttl_s)
		json_object_set_new(body, "ttl_seconds", json_integer(preview->ttl_s));
	if (preview->path)
		json_object_set_new(body, "paths", json_pack("[s]", preview->path));
	bool is_good =
		daemon_open(&daemon, preview->state, &err) && daemon_find(&daemon, word, id, &err);
	if (is_good) {
		daemon_path(path, id, "/preview-token");
		is_good = daemon_call(&daemon, "POST", path, body, &made, &err);
	}
	daemon_close(&daemon);
	json_decref(body);
	return is_good ? print_preview(preview, made) : command_fail("preview", &err);
}

int preview_command(int argc, char **argv)
{
	struct preview preview = { 0 };
	const struct option_spec specs[] = { OPTION_STATE(&preview.state),
		OPTION_JSON(&preview.is_json), { "path", 0, OPTION_TEXT, &preview.path },
		{ "ttl", 0, OPTION_NUMBER, &preview.ttl_s, 1, LONGEST_TTL_S } };
	int first = options_parse("preview", argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_ANY);
	char *end;
	if (first < 0)
		return EXIT_MISUSED;
	if (argc - first != 2)
		return command_misused("preview", "give the ID of a sandbox and a PORT");
	long port = strtol(argv[first + 1], &end, 10);
	if (*end || port < 1 || port > 65535)
		return command_misused("preview", "'%s' is no port", argv[first + 1]);
	return make_preview(&preview, argv[first], port);
}
