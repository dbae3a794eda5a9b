/*
 * `sandglass run`: one sandbox for one piece of code.
 *
 * The sandbox is ended on every way out. So SIGINT, SIGTERM and SIGHUP are blocked from the start
 * and heard through a descriptor: a call in flight is stopped, then the sandbox is killed, then
 * this process ends as the signal asks. Only the creating call is not stopped, since an answer that
 * is not read leaves a sandbox of unknown id; it is waited for with a limit. What even this misses
 * (SIGKILL) the sandbox's idle limit ends.
 */
#include "cli/command.h"
#include "cli/events.h"
#include "cli/figures.h"
#include "cli/http.h"
#include "cli/shown.h"
#include "cli/target.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define CODE_LIMIT (16u << 20)
#define CREATE_LIMIT_S 60L
#define KILL_LIMIT_S 15L
#define LONGEST_TIMEOUT_S 86400L

struct run {
	const char *code_text, *file, *state, *template_name;
	double timeout_s; /* 0: the daemon's */
	bool is_kept;
	struct figures figures;

	struct http_client *client; /* owned */
	int signal_fd;              /* owned */
	char path[128];             /* "/sandboxes/ID" once there is one */
	bool shows_progress;
	int64_t started_ms;
};

/* ---- what was asked ---- */

static int parse_timeout(struct run *run, const char *text)
{
	char *end;
	errno = 0;
	run->timeout_s = strtod(text, &end);
	if (end == text || *end || errno || !(run->timeout_s > 0) ||
		run->timeout_s > LONGEST_TIMEOUT_S)
		return command_misused("run",
			"--timeout is seconds, above 0 and up to %ld, not '%s'", LONGEST_TIMEOUT_S,
			text);
	return EXIT_OK;
}

static int parse(struct run *run, int argc, char **argv)
{
	static const struct option options[] = {
		{ "state", required_argument, NULL, 's' },
		{ "template", required_argument, NULL, 't' },
		{ "timeout", required_argument, NULL, 'l' },
		{ "out", required_argument, NULL, 'o' },
		{ "keep", no_argument, NULL, 'k' },
		{ 0 },
	};
	opterr = 0;
	for (int option; (option = getopt_long(argc, argv, "+:c:", options, NULL)) != -1;) {
		switch (option) {
		case 'c':
			run->code_text = optarg;
			break;
		case 's':
			run->state = optarg;
			break;
		case 't':
			run->template_name = optarg;
			break;
		case 'l':
			if (parse_timeout(run, optarg) != EXIT_OK)
				return EXIT_MISUSED;
			break;
		case 'o':
			run->figures.folder = optarg;
			break;
		case 'k':
			run->is_kept = true;
			break;
		case ':':
			return command_misused("run", "%s needs a value", argv[optind - 1]);
		default:
			return command_misused("run", "there is no option '%s'", argv[optind - 1]);
		}
	}
	if (optind < argc)
		run->file = argv[optind++];
	if (optind < argc)
		return command_misused("run", "'%s' is one argument too many", argv[optind]);
	if (run->file && run->code_text)
		return command_misused("run", "give a FILE or -c CODE, not both");
	if (!run->file && !run->code_text)
		return command_misused("run", "give a FILE, -c CODE, or - for standard input");
	return EXIT_OK;
}

static bool read_stdin(struct buf *code, struct error *err)
{
	for (;;) {
		char chunk[65536];
		ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_from_os(err, errno, "cannot read standard input");
		if (n == 0)
			return true;
		if (!buf_append(code, chunk, (size_t)n))
			return error_set(
				err, ERROR_INVALID, "the code is larger than %u bytes", CODE_LIMIT);
	}
}

/* The code as JSON text; NULL and err when there is none that can be sent. */
static json_t *read_code(const struct run *run, struct error *err)
{
	assert(run->code_text || run->file); /* parse() saw to it */
	cleanup_buf struct buf code = buf_make(CODE_LIMIT);
	if (run->code_text) {
		if (!buf_append_text(&code, run->code_text))
			return error_no_memory(err);
	} else if (strcmp(run->file, "-") == 0) {
		if (!read_stdin(&code, err))
			return NULL;
	} else {
		size_t size = 0;
		cleanup_free char *text = fd_read_file(AT_FDCWD, run->file, CODE_LIMIT, &size, err);
		if (!text)
			return NULL;
		if (!buf_append(&code, text, size))
			return error_no_memory(err);
	}
	json_t *json = json_stringn(code.bytes ? code.bytes : "", code.size);
	if (!json)
		error_set(err, ERROR_INVALID, "the code is not UTF-8 text");
	return json;
}

/* ---- progress, for people ---- */

static void progress(const struct run *run, const char *text)
{
	if (run->shows_progress)
		fprintf(stderr, "\r\033[K%s", text);
}

static void progress_end(const struct run *run)
{
	progress(run, "");
}

static void on_tick(void *data)
{
	const struct run *run = data;
	char text[64];
	snprintf(text, sizeof(text), "running, %lld s ...",
		(long long)(clock_monotonic_ms() - run->started_ms) / 1000);
	progress(run, text);
}

/* ---- the calls ---- */

/* Sends, and turns every refusal into an error. `stopped` is no error: json is NULL then. */
static bool call_for_json(struct run *run, const struct http_call *call, struct http_answer *answer,
	struct error *err)
{
	if (!http_call(run->client, call, answer, err))
		return false;
	if (answer->is_stopped || answer->status < 400)
		return true;
	http_answer_error(answer, err);
	http_answer_deinit(answer);
	return false;
}

static bool take_id(const struct http_answer *answer, char *id, size_t size, struct error *err)
{
	const char *text = json_string_value(json_object_get(answer->json, "id"));
	size_t digits = text ? strspn(text, "0123456789abcdef-") : 0;
	if (!text || digits == 0 || text[digits] || digits >= size)
		return error_set(err, ERROR_INTERNAL, "the daemon's answer has no usable id");
	memcpy(id, text, digits + 1);
	return true;
}

static bool create_sandbox(struct run *run, struct error *err)
{
	progress(run, "making a sandbox ...");
	json_t *body = json_pack("{s:s, s:{s:s}}", "template", run->template_name, "metadata",
		"made_by", "sandglass run");
	struct http_call call = { .method = "POST",
		.path = "/sandboxes",
		.body = body,
		.stop_fd = -1,
		.limit_s = CREATE_LIMIT_S };
	struct http_answer answer;
	char id[64];
	bool is_made = call_for_json(run, &call, &answer, err);
	json_decref(body);
	if (!is_made)
		return false;
	is_made = take_id(&answer, id, sizeof(id), err);
	http_answer_deinit(&answer);
	if (is_made)
		snprintf(run->path, sizeof(run->path), "/sandboxes/%s", id);
	return is_made;
}

static void kill_sandbox(struct run *run)
{
	if (!run->path[0])
		return;
	const char *id = run->path + strlen("/sandboxes/");
	if (run->is_kept) {
		fprintf(stderr, "sandbox kept: %s\n", id);
		return;
	}
	struct http_call call = {
		.method = "DELETE", .path = run->path, .stop_fd = -1, .limit_s = KILL_LIMIT_S
	};
	struct http_answer answer;
	struct error err = { 0 };
	if (!http_call(run->client, &call, &answer, &err)) {
		fprintf(stderr, "sandglass run: sandbox %s could not be ended: %s\n", id,
			err.message);
		return;
	}
	if (answer.status >= 400 && answer.status != 404) {
		http_answer_error(&answer, &err);
		fprintf(stderr, "sandglass run: sandbox %s could not be ended: %s\n", id,
			err.message);
	}
	http_answer_deinit(&answer);
}

/* ---- the run ---- */

static void on_first_output(void *data)
{
	progress_end(data);
	((struct run *)data)->shows_progress = false; /* it would get into lines of the code */
}

static bool on_bytes(void *data, const char *bytes, size_t size)
{
	return events_take(data, bytes, size);
}

/* Says what was not said with the events; returns the exit status. */
static int finish(const struct shown *shown, const struct http_answer *answer, struct error *err)
{
	if (answer->status != 200) {
		http_answer_error(answer, err);
		return EXIT_NOT_RUN;
	}
	if (!shown->has_ended) {
		error_set(err, ERROR_INTERNAL, "the daemon ended the stream before the code did");
		return EXIT_NOT_RUN;
	}
	if (shown->err.code) {
		*err = shown->err;
		return EXIT_NOT_RUN;
	}
	if (fflush(stdout) != 0 || ferror(stdout)) {
		error_from_os(err, errno, "cannot write to standard output");
		return EXIT_NOT_RUN;
	}
	return shown->status;
}

/* Prints what the code prints, as it comes. */
static int stream(struct run *run, const char *path, json_t *body, struct error *err)
{
	struct shown shown;
	struct events events;
	struct http_answer answer;
	struct http_call call = { .method = "POST",
		.path = path,
		.body = body,
		.stop_fd = run->signal_fd,
		.on_tick = run->shows_progress ? on_tick : NULL,
		.data = run,
		.on_bytes = on_bytes,
		.on_bytes_data = &events };
	shown_init(&shown, &run->figures);
	shown.before = on_first_output;
	shown.data = run;
	events_init(&events, shown_on_event, &shown);
	bool is_answered = http_call(run->client, &call, &answer, err);
	progress_end(run);
	int status = EXIT_NOT_RUN;
	if (is_answered)
		status = answer.is_stopped ? EXIT_OK : finish(&shown, &answer, err);
	http_answer_deinit(&answer);
	events_deinit(&events);
	shown_deinit(&shown);
	return status;
}

/* ---- all of it ---- */

static int run_code(struct run *run, json_t *code, struct error *err)
{
	char path[sizeof(run->path) + 128], session[64];
	snprintf(path, sizeof(path), "%s/repl/sessions", run->path);
	json_t *body = json_pack("{s:s}", "language", "python");
	struct http_call call = { .method = "POST",
		.path = path,
		.body = body,
		.stop_fd = run->signal_fd,
		.limit_s = CREATE_LIMIT_S };
	struct http_answer answer;
	bool is_open = call_for_json(run, &call, &answer, err);
	json_decref(body);
	if (!is_open)
		return EXIT_NOT_RUN;
	if (answer.is_stopped)
		return EXIT_OK;
	is_open = take_id(&answer, session, sizeof(session), err);
	http_answer_deinit(&answer);
	if (!is_open)
		return EXIT_NOT_RUN;

	snprintf(path, sizeof(path), "%s/repl/sessions/%s/run", run->path, session);
	body = json_pack("{s:O, s:b}", "code", code, "stream", 1);
	if (run->timeout_s > 0)
		json_object_set_new(body, "timeout_ms",
			json_integer((json_int_t)(run->timeout_s * 1000 + 0.5)));
	run->started_ms = clock_monotonic_ms();
	progress(run, "running ...");
	int status = stream(run, path, body, err);
	json_decref(body);
	return status;
}

/* The number of a signal that came, or 0. */
static int signal_that_came(int signal_fd)
{
	struct signalfd_siginfo info;
	return read(signal_fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

static int listen_for_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The sandbox's whole life. */
static int live(struct run *run, json_t *code, const struct target *target)
{
	struct error err = { 0 };
	run->client = http_client_new(target, &err);
	run->signal_fd = listen_for_signals();
	int status = EXIT_NOT_RUN;
	if (run->client && create_sandbox(run, &err))
		status = run_code(run, code, &err);
	progress_end(run);
	if (err.code != ERROR_NONE)
		command_fail("run", &err);
	int number = signal_that_came(run->signal_fd);
	kill_sandbox(run);
	http_client_free(run->client);
	fd_close(&run->signal_fd);
	return number ? 128 + number : status;
}

int run_command(int argc, char **argv)
{
	struct run run = { .template_name = "code-interpreter", .figures.folder = "." };
	int status = parse(&run, argc, argv);
	if (status != EXIT_OK)
		return status;
	assert(run.figures.folder);
	run.shows_progress = isatty(STDERR_FILENO);

	struct error err = { 0 };
	struct target target;
	struct stat folder;
	bool has_target = run.state ? target_from_state(&target, run.state, &err)
				    : target_from_environment(&target, &err);
	if (has_target && (stat(run.figures.folder, &folder) < 0 || !S_ISDIR(folder.st_mode)))
		has_target = error_set(
			&err, ERROR_INVALID, "--out '%s' is no folder", run.figures.folder);
	json_t *code = has_target ? read_code(&run, &err) : NULL;
	if (!code) {
		command_fail("run", &err);
		return EXIT_NOT_RUN;
	}
	status = live(&run, code, &target);
	json_decref(code);
	return status;
}
