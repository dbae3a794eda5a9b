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
#include "cli/create.h"
#include "cli/events.h"
#include "cli/options.h"
#include "cli/shown.h"

#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CODE_LIMIT (16u << 20)
#define LONGEST_TIMEOUT_S 86400L

struct run {
	const char *code_text, *file, *state, *template_name;
	double timeout_s; /* 0: the daemon's */
	bool is_kept;
	struct figures figures;

	struct daemon daemon;
	char id[SANDBOX_ID_TEXT]; /* "" until there is a sandbox */
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
	const char *timeout = NULL;
	const struct option_spec specs[] = { OPTION_STATE(&run->state),
		{ NULL, 'c', OPTION_TEXT, &run->code_text },
		{ "template", 0, OPTION_TEXT, &run->template_name },
		{ "timeout", 0, OPTION_TEXT, &timeout },
		{ "out", 0, OPTION_TEXT, &run->figures.folder },
		{ "keep", 0, OPTION_FLAG, &run->is_kept } };
	int first = options_parse("run", argc, argv, specs, ARRAY_SIZE(specs), OPTIONS_STOP);
	if (first < 0 || (timeout && parse_timeout(run, timeout) != EXIT_OK))
		return EXIT_MISUSED;
	run->file = argv[first];
	if (argc - first > 1)
		return command_misused("run", "'%s' is one argument too many", argv[first + 1]);
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
		ssize_t n = TEMP_FAILURE_RETRY(read(STDIN_FILENO, chunk, sizeof(chunk)));
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

/* ---- the sandbox ---- */

static bool make_sandbox(struct run *run, struct error *err)
{
	progress(run, "making a sandbox ...");
	json_t *body = create_body(run->template_name, "sandglass run");
	bool is_made = daemon_create(&run->daemon, body, run->id, err);
	json_decref(body);
	return is_made;
}

/* ---- the run ---- */

static void on_first_output(void *data)
{
	progress_end(data);
	((struct run *)data)->shows_progress = false; /* it would get into lines of the code */
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
static int stream(struct run *run, json_t *body, struct error *err)
{
	char path[DAEMON_PATH];
	struct shown shown;
	struct events events;
	struct http_answer answer;
	struct http_call call = { .method = "POST",
		.path = path,
		.body = body,
		.stop_fd = run->daemon.signal_fd,
		.on_tick = run->shows_progress ? on_tick : NULL,
		.data = run,
		.on_bytes = events_take,
		.on_bytes_data = &events };
	daemon_path(path, run->id, "/repl");
	shown_init(&shown, &run->figures);
	shown.before = on_first_output;
	shown.data = run;
	events_init(&events, shown_on_event, &shown);
	bool is_answered = http_call(run->daemon.client, &call, &answer, err);
	progress_end(run);
	int status = EXIT_NOT_RUN;
	if (is_answered)
		status = answer.is_stopped ? EXIT_OK : finish(&shown, &answer, err);
	http_answer_deinit(&answer);
	events_deinit(&events);
	shown_deinit(&shown);
	return status;
}

static int run_code(struct run *run, json_t *code, struct error *err)
{
	json_t *body = json_pack("{s:O, s:b}", "code", code, "stream", 1);
	if (run->timeout_s > 0)
		json_object_set_new(body, "timeout_ms",
			json_integer((json_int_t)(run->timeout_s * 1000 + 0.5)));
	run->started_ms = clock_monotonic_ms();
	progress(run, "running ...");
	int status = stream(run, body, err);
	json_decref(body);
	return status;
}

/* The sandbox's whole life. */
static int live(struct run *run, json_t *code)
{
	struct error err = { 0 };
	int status = EXIT_NOT_RUN;
	if (daemon_hold_signals(&run->daemon, false, &err) && make_sandbox(run, &err))
		status = run_code(run, code, &err);
	progress_end(run);
	if (err.code != ERROR_NONE)
		command_fail("run", &err);
	int number = daemon_signal(&run->daemon);
	if (run->id[0])
		create_end(&run->daemon, "run", run->id, run->is_kept);
	return number ? 128 + number : status;
}

static bool check_folder(const char *path, struct error *err)
{
	struct stat folder;
	return (stat(path, &folder) == 0 && S_ISDIR(folder.st_mode)) ||
	       error_set(err, ERROR_INVALID, "--out '%s' is no folder", path);
}

int run_command(int argc, char **argv)
{
	struct run run = { .template_name = "code-interpreter", .figures.folder = "." };
	struct error err = { 0 };
	int status = parse(&run, argc, argv);
	if (status != EXIT_OK)
		return status;
	run.shows_progress = isatty(STDERR_FILENO);
	bool is_good =
		daemon_open(&run.daemon, run.state, &err) && check_folder(run.figures.folder, &err);
	json_t *code = is_good ? read_code(&run, &err) : NULL;
	if (code) {
		status = live(&run, code);
	} else {
		command_fail("run", &err);
		status = EXIT_NOT_RUN;
	}
	json_decref(code);
	daemon_close(&run.daemon);
	return status;
}
