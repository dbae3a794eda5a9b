/*
 * What user code can do with the runner's socket (descriptor 3 of a kernel): say things in the
 * runner's name, or say them badly. To be called in the kernel itself or in a child of it that kept
 * the descriptor.
 */
#include "probe.h"

#include "wire/frames.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static int frames_fd = 3;

static long send_frame(uint32_t run, uint16_t kind, uint16_t flags, const void *bytes, size_t size)
{
	static char packet[FRAME_SIZE * 4];
	struct frame_header head = { run, kind, flags };
	memcpy(packet, &head, sizeof(head));
	memcpy(packet + sizeof(head), bytes, size);
	return send(frames_fd, packet, sizeof(head) + size, 0);
}

static long send_text(uint32_t run, uint16_t kind, const char *text)
{
	return send_frame(run, kind, 0, text, strlen(text));
}

static void forge_done(uint32_t run)
{
	report("done", send_text(run, FRAME_DONE, "{\"exit\": 0}"));
}

static void forge_other_runs(uint32_t run)
{
	for (uint32_t other = run + 1; other < run + 20; other++)
		send_text(other, FRAME_RESULT, "{\"data\": {\"text/plain\": \"'forged'\"}}");
	for (uint32_t other = run + 1; other < run + 20; other++)
		send_text(other, FRAME_DONE, "{\"exit\": 0}");
	report("other runs", send_text(0xffffffff, FRAME_DONE, "{\"exit\": 0}"));
}

static void forge_half(uint32_t run)
{
	static const char bytes[7] = { 1, 2, 3, 4, 5, 6, 7 };
	report("empty", send(frames_fd, bytes, 0, 0));
	for (size_t size = 1; size <= sizeof(bytes); size++)
		report("half a head", send(frames_fd, bytes, size, 0));
	report("half a value", send_frame(run, FRAME_RESULT, FRAME_MORE, "{\"data\": {", 10));
}

static void forge_more(uint32_t run)
{
	static char bytes[FRAME_PAYLOAD];
	memset(bytes, 'x', sizeof(bytes));
	int64_t count = 0;
	/* four times the limit of a cell's values, in one value that does not end */
	while (count < 4 * (FRAME_VALUES_LIMIT / FRAME_PAYLOAD)) {
		if (send_frame(run, FRAME_DISPLAY, FRAME_MORE, bytes, sizeof(bytes)) < 0)
			break;
		count++;
	}
	json_number("more", count);
}

static void forge_large(uint32_t run)
{
	static char bytes[FRAME_SIZE * 2];
	memset(bytes, 'y', sizeof(bytes));
	report("large", send_frame(run, FRAME_DISPLAY, 0, bytes, sizeof(bytes)));
}

static void forge_kinds(uint32_t run)
{
	for (uint32_t kind = 0; kind < 65536; kind += kind < 64 ? 1 : 1021)
		if (kind != FRAME_DONE)
			send_frame(run, (uint16_t)kind, 0, "{}", 2);
	report("kinds", 0);
}

static void forge_json(uint32_t run)
{
	static const char *const texts[] = { "", "{", "null", "[]", "{\"exit\": \"x\"}",
		"{\"data\": 1}", "{\"data\": {\"text/plain\": 1}}",
		"{\"data\": {\"text/plain\": null}}", "{\"data\": {\"type\": \"x\"}}",
		"{\"data\": {\"text/plain\": \"\\ud800\"}}",
		"{\"data\": {\"text/plain\": \"\\u0000\"}}",
		"{\"data\": {\"text/plain\": \"a\"}, \"data\": {}}", "\xff\xfe",
		"{\"exit\": 99999999999999999999}", "{\"data\": {\"\": \"\"}}" };
	static char deep[60000];
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		for (uint16_t kind = FRAME_READY; kind <= FRAME_CLEAR; kind++)
			if (kind != FRAME_DONE)
				send_text(run, kind, texts[i]);
	}
	memset(deep, '[', sizeof(deep));
	report("json", send_frame(run, FRAME_RESULT, 0, deep, sizeof(deep)));
}

static void forge_flood(uint32_t run)
{
	time_t end = time(NULL) + 2;
	int64_t count = 0;
	while (time(NULL) < end &&
		send_text(run, FRAME_DISPLAY, "{\"data\": {\"text/plain\": \"'x'\"}}") > 0)
		count++;
	json_number("flood", count);
}

static void forge_descriptors(uint32_t run)
{
	struct frame_header head = { run, FRAME_DISPLAY, 0 };
	char space[CMSG_SPACE(sizeof(int) * 50)] = { 0 };
	struct iovec bytes = { &head, sizeof(head) };
	struct msghdr message = { .msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = space,
		.msg_controllen = sizeof(space) };
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(int) * 50);
	for (int i = 0; i < 50; i++)
		memcpy(CMSG_DATA(control) + (size_t)i * sizeof(int), (int[]){ 1 }, sizeof(int));
	long result = 0;
	for (int i = 0; i < 200 && result >= 0; i++)
		result = sendmsg(frames_fd, &message, MSG_DONTWAIT);
	report("descriptors", result);
}

static void forge_shutdown(uint32_t run)
{
	report("shutdown", shutdown(frames_fd, SHUT_WR));
}

static void forge_ready(uint32_t run)
{
	report("ready",
		send_text(0, FRAME_READY, "{\"language\": \"python\", \"version\": \"9.9\"}"));
}

/* Takes the cell out of the runner's socket, so that the runner never sees the next one. */
static void forge_steal(uint32_t run)
{
	static char packet[FRAME_SIZE];
	report("steal", recv(frames_fd, packet, sizeof(packet), 0));
}

static const struct {
	const char *name;
	void (*forge)(uint32_t run);
} forgeries[] = {
	{ "done", forge_done },
	{ "other-runs", forge_other_runs },
	{ "half", forge_half },
	{ "more", forge_more },
	{ "large", forge_large },
	{ "kinds", forge_kinds },
	{ "json", forge_json },
	{ "flood", forge_flood },
	{ "descriptors", forge_descriptors },
	{ "shutdown", forge_shutdown },
	{ "ready", forge_ready },
	{ "steal", forge_steal },
};

static int run_forge(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (argc > 3)
		frames_fd = atoi(argv[3]);
	json_open(NULL, '{');
	for (size_t i = 0; i < ARRAY_SIZE(forgeries); i++) {
		if (strcmp(forgeries[i].name, argv[1]) == 0)
			forgeries[i].forge((uint32_t)strtoul(argv[2], NULL, 10));
	}
	json_close('}');
	return 0;
}

const struct probe_command frame_commands[] = {
	{ "forge", run_forge,
		"WHAT RUN [FD]: done other-runs half more large kinds json flood descriptors "
		"shutdown ready steal" },
	{ 0 },
};
