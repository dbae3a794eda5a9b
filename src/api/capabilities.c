/* What this daemon is and can do: health, version, capabilities. */
#include "api/answer.h"
#include "api/cell.h"
#include "api/languages.h"
#include "api/output.h"
#include "api/routes.h"
#include "api/session.h"

#include <stdio.h>

void health_get(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "status", "ok");
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

void version_get(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "name", "sandglass");
	writer_text(&writer, "version", call->api->config.version);
	writer_text(&writer, "api", "v1");
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}

static void write_limits(struct writer *writer, const char *key, const struct limits *limits)
{
	char cpus[24];
	snprintf(cpus, sizeof(cpus), "%g", (double)limits->cpu_milli / 1000.0);
	writer_open(writer, key, '{');
	writer_int(writer, "memory_mb", limits->memory_mb);
	writer_raw(writer, "cpus", cpus);
	writer_int(writer, "processes", limits->processes);
	writer_int(writer, "files_mb", limits->files_mb);
	writer_int(writer, "inodes", limits->inodes);
	writer_int(writer, "cell_seconds", limits->cell_seconds);
	writer_close(writer, '}');
}

static void write_bounds(struct writer *writer, const struct owner_caps *caps)
{
	writer_open(writer, "bounds", '{');
	writer_int(writer, "sandboxes", caps->sandboxes);
	writer_int(writer, "contexts_a_sandbox", KERNELS_A_SANDBOX);
	writer_int(writer, "cells_waiting_a_context", QUEUE_LIMIT);
	writer_int(writer, "output_bytes_kept", (int64_t)(2 * OUTPUT_HALF));
	writer_int(writer, "result_bytes", FRAME_VALUES_LIMIT);
	writer_int(writer, "run_bytes_kept", (int64_t)RUN_WINDOW);
	writer_int(writer, "runs_kept_a_sandbox", RUNS_KEPT);
	writer_int(writer, "run_kept_seconds", RUN_KEPT_MS / 1000);
	writer_int(writer, "log_bytes", (int64_t)LOG_LIMIT);
	writer_int(writer, "cell_seconds_most", CELL_LIMIT_MS / 1000);
	writer_int(writer, "metadata_bytes", (int64_t)METADATA_LIMIT);
	writer_close(writer, '}');
}

static void write_features(struct writer *writer)
{
	static const char *const features[] = { "sandboxes", "contexts", "commands", "streams",
		"files", "lifecycle", "idempotent_create", "runs", "logs", "events", "metrics",
		"pause", "keys", "templates", "template_builds", "terminals", "command_sockets",
		"ports", "previews" };
	writer_open(writer, "features", '[');
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		writer_text(writer, NULL, features[i]);
	writer_close(writer, ']');
}

void capabilities_get(struct call *call)
{
	const struct config *config = &call->api->config;
	cleanup_writer struct writer writer = writer_make();
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "name", "sandglass");
	writer_text(&writer, "version", config->version);
	write_features(&writer);
	languages_write(config, "languages", &writer);
	writer_open(&writer, "templates", '[');
	for (size_t i = 0; i < config->template_count; i++)
		writer_raw(&writer, NULL, config->templates[i].json);
	writer_close(&writer, ']');
	writer_raw(&writer, "layers", config->layers_json);
	writer_text(&writer, "network_default", config->network_default);
	writer_int(&writer, "ttl_seconds", config->ttl_seconds);
	write_limits(&writer, "limits", &config->limits);
	write_limits(&writer, "caps", &config->caps);
	write_bounds(&writer, config_owner(config, call->owner));
	writer_close(&writer, '}');
	answer_json(call, 200, &writer);
}
