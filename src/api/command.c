/*
 * See command.h. When init has told the end, the pipes are read until they are empty: what the
 * command itself wrote is in them by then. Children that live on may hold the pipes; they are
 * waited for only DRAIN_MS, since nobody knows whether they will ever write again.
 */
#include "api/command.h"

#include "api/inside.h"
#include "api/sandbox_events.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DRAIN_MS 50
#define SLACK_MS 10000 /* init's clock decides; this one is for when it fails */
#define DESCRIPTORS 3
#define READ_SIZE ((size_t)32 * 1024)
#define READS_A_TURN 8
#define COMMAND_SHOWN 256 /* bytes of its text in an event */

const char *const command_streams[2] = { "stdout", "stderr" };

/* ---- starting ---- */

/* The text in a memfd that nobody can change any more; -1 and err. */
static int seal_text(const char *text, size_t size, struct error *err)
{
	cleanup_close int fd = memfd_create("command", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || !fd_write_all(fd, text, size) || !fd_seal(fd)) {
		error_from_os(err, errno, "cannot hand over the command");
		return -1;
	}
	return fd_take(&fd);
}

enum { ANSWER, TEXT, STDOUT, STDERR, STDIN, SENT };

/* Makes the descriptors: `theirs` go along, `ours` stay. All of both are closed on failure. */
static bool make_descriptors(
	const char *text, size_t size, int theirs[SENT], int ours[SENT], struct error *err)
{
	int pair[2], pipe_ends[2];
	for (int i = 0; i < SENT; i++)
		theirs[i] = ours[i] = -1;
	if (!inside_pair(SOCK_SEQPACKET, pair, err))
		return false;
	ours[ANSWER] = pair[0];
	theirs[ANSWER] = pair[1];
	for (int i = STDOUT; i <= STDERR; i++) {
		if (pipe2(pipe_ends, O_CLOEXEC) < 0)
			return error_from_os(err, errno, "cannot make a pipe");
		ours[i] = pipe_ends[0];
		theirs[i] = pipe_ends[1];
		fd_set_nonblocking(ours[i], true);
	}
	theirs[TEXT] = seal_text(text, size, err);
	return theirs[TEXT] >= 0;
}

static void close_all(int fds[SENT])
{
	for (int i = 0; i < SENT; i++)
		fd_close(&fds[i]);
}

static void on_answer(struct loop_source *source, uint32_t events);
static void on_stream(struct loop_source *source, uint32_t events);
static void on_patience(struct loop_timer *timer);

static void end(struct command *command, enum command_end how);

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	struct command *command = CONTAINER_OF(guest, struct command, guest);
	end(command, COMMAND_SANDBOX);
}

/* Told to the one who holds the clock, and to our own that is slower. The waiting for pipes after
 * the end goes on: that is no longer the command's time. */
static void on_pause(struct guest *guest, int64_t lasted_us)
{
	struct command *command = CONTAINER_OF(guest, struct command, guest);
	struct inside_command_order order = { .clock = lasted_us < 0 ? INSIDE_CLOCK_STOPS
								     : INSIDE_CLOCK_GOES_ON };
	if (command->has_result)
		return;
	send(command->answer.fd, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL);
	command->is_stopped = lasted_us < 0;
	if (command->is_stopped)
		return loop_timer_halt(&command->patience);
	command->begun_us += lasted_us;
	command->stopped_us += lasted_us;
	loop_timer_go_on(&command->api->loop, &command->patience);
}

/* Takes the descriptors out of `ours` one by one, so that what is left is the caller's to close. */
static bool watch_all(struct command *command, int ours[SENT], struct error *err)
{
	struct loop_source *sources[SENT] = { [ANSWER] = &command->answer,
		[STDOUT] = &command->streams[0].source,
		[STDERR] = &command->streams[1].source };
	for (int i = 0; i < SENT; i++) {
		if (!sources[i])
			continue;
		if (!loop_watch(&command->api->loop, sources[i], ours[i], EPOLLIN,
			    i == ANSWER ? on_answer : on_stream, err)) {
			sources[i]->fd = -1;
			return false;
		}
		ours[i] = -1;
	}
	return true;
}

static void on_taken(struct command_input *input, size_t size)
{
	struct command *command = CONTAINER_OF(input, struct command, input);
	command->owner->on_taken(command, size);
}

static bool ask(struct command *command, struct sandbox *sandbox, const char *text, size_t size,
	bool is_fed, struct error *err)
{
	int theirs[SENT], ours[SENT];
	struct inside_request request = { .op = is_fed ? INSIDE_FED_COMMAND : INSIDE_COMMAND,
		.size = size,
		.timeout_ms = command->limit_ms };
	bool is_asked = make_descriptors(text, size, theirs, ours, err) &&
			(!is_fed || command_input_open(&command->input, &sandbox->api->loop,
					    on_taken, &theirs[STDIN], err)) &&
			inside_ask(sandbox, &request, theirs, is_fed ? SENT : STDIN, err) &&
			watch_all(command, ours, err);
	close_all(theirs);
	close_all(ours);
	return is_asked;
}

static void note_started(
	struct command *command, struct sandbox *sandbox, const char *text, size_t size)
{
	struct note note;
	uint8_t id[SHORT_ID_SIZE];
	id_random(id, sizeof(id));
	id_to_text(id, sizeof(id), command->id);
	command->sandbox = sandbox;
	size_t shown = MIN(size, (size_t)COMMAND_SHOWN);
	struct writer *writer = note_begin(&note, sandbox, "command.started");
	writer_text(writer, "command_id", command->id);
	writer_bytes(writer, "cmd", text, shown - utf8_open_end(text, shown));
	if (shown < size)
		writer_int(writer, "cmd_bytes", (int64_t)size);
	note_end(&note);
}

static void count_ended(const struct command *command)
{
	struct stats *stats = &command->api->stats;
	stats->commands++;
	stats->command_timeouts += command->result.timed_out != 0;
	histogram_add(&stats->commands_took, clock_monotonic_us() - command->begun_us);
}

/* Once: how it ended, or that nobody wanted it any more. */
static void note_ended(struct command *command)
{
	struct note note;
	struct sandbox *sandbox = command->sandbox;
	if (!sandbox)
		return;
	count_ended(command);
	log_finish(sandbox->log, &command->lines);
	struct writer *writer = note_begin(&note, sandbox, "command.ended");
	writer_text(writer, "command_id", command->id);
	if (command->has_result && !command->result.timed_out && !command->result.start_error)
		writer_int(writer, "exit_code", command_exit_code(command));
	writer_bool(writer, "timeout", command->result.timed_out);
	writer_bool(writer, "cancelled", !command->has_result);
	writer_int(writer, "duration_ms", (clock_monotonic_us() - command->begun_us + 999) / 1000);
	note_end(&note);
	if (command->result.timed_out)
		note_limit(sandbox, "time", "command_id", command->id);
	command->sandbox = NULL;
}

static struct command *command_new(struct sandbox *sandbox, uint32_t limit_ms,
	const struct command_owner *owner, void *state, unsigned descriptors, struct error *err)
{
	if (!api_take_descriptors(sandbox->api, descriptors, err))
		return NULL;
	struct command *command = calloc(1, sizeof(*command));
	if (!command) {
		api_return_descriptors(sandbox->api, descriptors);
		return error_no_memory(err);
	}
	*command = (struct command){ .owner = owner,
		.state = state,
		.api = sandbox->api,
		.answer.fd = -1,
		.streams = { { command, { .fd = -1 } }, { command, { .fd = -1 } } },
		.descriptors = descriptors,
		.limit_ms = limit_ms,
		.begun_us = clock_monotonic_us() };
	command_input_init(&command->input);
	return command;
}

static struct command *start(struct sandbox *sandbox, const char *text, size_t size,
	uint32_t limit_ms, const struct command_owner *owner, void *state, bool is_fed,
	struct error *err)
{
	struct command *command = command_new(
		sandbox, limit_ms, owner, state, is_fed ? DESCRIPTORS + 1 : DESCRIPTORS, err);
	if (!command)
		return NULL;
	command->limits.oom_before = sandbox->oom_kills;
	if (!guest_enter(&command->guest, sandbox, on_sandbox_end, err) ||
		!ask(command, sandbox, text, size, is_fed, err)) {
		command_free(command);
		return NULL;
	}
	command->guest.on_pause = on_pause;
	note_started(command, sandbox, text, size);
	loop_timer_start(
		&command->api->loop, &command->patience, (int64_t)limit_ms + SLACK_MS, on_patience);
	return command;
}

struct command *command_start(struct sandbox *sandbox, const char *text, size_t size,
	uint32_t limit_ms, const struct command_owner *owner, void *state, struct error *err)
{
	return start(sandbox, text, size, limit_ms, owner, state, false, err);
}

struct command *command_start_fed(struct sandbox *sandbox, const char *text, size_t size,
	uint32_t limit_ms, const struct command_owner *owner, void *state, struct error *err)
{
	return start(sandbox, text, size, limit_ms, owner, state, true, err);
}

static void let_go(struct command *command)
{
	loop_timer_stop(&command->patience);
	loop_close(&command->answer);
	loop_close(&command->streams[0].source);
	loop_close(&command->streams[1].source);
	command_input_deinit(&command->input);
	warden_cancel(&command->limits.usage);
}

static void tell_ended(struct command *command)
{
	command->owner->on_end(command, COMMAND_ENDED);
}

static void end(struct command *command, enum command_end how)
{
	let_go(command);
	note_ended(command);
	if (how == COMMAND_ENDED && command->owner->tells_no_process)
		command->limits.tells_no_process = command->owner->tells_no_process(command);
	if (how != COMMAND_ENDED || !command_limits_ask(command, tell_ended))
		command->owner->on_end(command, how);
}

void command_free(struct command *command)
{
	note_ended(command);
	guest_leave(&command->guest);
	let_go(command);
	api_return_descriptors(command->api, command->descriptors);
	free(command);
}

/* ---- output ---- */

static bool is_drained(const struct command *command)
{
	return command->streams[0].source.fd < 0 && command->streams[1].source.fd < 0;
}

/* The pipes are not even watched meanwhile: a hang-up would be told again and again. */
static void pause_reading(struct command *command)
{
	command->is_paused = true;
	for (unsigned i = 0; i < 2; i++)
		loop_forget(&command->streams[i].source);
}

/* Reads once; false when there is nothing more now. */
static bool read_once(struct command *command, unsigned which)
{
	struct loop_source *source = &command->streams[which].source;
	if (source->fd < 0 || command->is_paused)
		return false;
	ssize_t n = TEMP_FAILURE_RETRY(read(source->fd, command->api->frame, READ_SIZE));
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		loop_close(source);
		return false;
	}
	command->api->stats.output_bytes[which] += (size_t)n;
	if (which == 1)
		command->limits.is_line_open = command->api->frame[n - 1] != '\n';
	log_take(command->sandbox->log, &command->lines, which, command->api->frame, (size_t)n);
	if (!command->owner->on_output(command, which, command->api->frame, (size_t)n))
		pause_reading(command);
	return true;
}

static void read_some(struct command *command, unsigned which)
{
	for (unsigned n = 0; n < READS_A_TURN && read_once(command, which); n++)
		;
}

/* After the end: all is read, or will be soon, or nobody can tell. */
static void finish_when_drained(struct command *command)
{
	if (command->is_paused)
		return;
	if (is_drained(command))
		end(command, COMMAND_ENDED);
}

static void on_stream(struct loop_source *source, uint32_t events)
{
	struct command_stream *stream = CONTAINER_OF(source, struct command_stream, source);
	struct command *command = stream->command;
	read_some(command, (unsigned)(stream - command->streams));
	if (command->has_result)
		finish_when_drained(command);
}

static void begin_draining(struct command *command)
{
	for (unsigned i = 0; i < 2; i++)
		read_some(command, i);
	if (!command->is_paused)
		loop_timer_start(&command->api->loop, &command->patience, DRAIN_MS, on_patience);
	finish_when_drained(command);
}

static void watch_again(struct command_stream *stream)
{
	struct loop_source *source = &stream->source;
	int fd = source->fd;
	if (fd < 0)
		return;
	struct error err = { 0 };
	if (!loop_watch(&stream->command->api->loop, source, fd, EPOLLIN, on_stream, &err))
		source->fd = fd; /* it is closed with the command */
}

void command_resume(struct command *command)
{
	if (command->limits.usage.warden)
		return; /* it has ended, and its owner hears so soon */
	command->is_paused = false;
	for (unsigned i = 0; i < 2; i++)
		watch_again(&command->streams[i]);
	if (command->has_result)
		begin_draining(command); /* may free the command */
}

/* ---- the end ---- */

static void on_answer(struct loop_source *source, uint32_t events)
{
	struct command *command = CONTAINER_OF(source, struct command, answer);
	ssize_t n = TEMP_FAILURE_RETRY(
		recv(source->fd, &command->result, sizeof(command->result), MSG_DONTWAIT));
	if (n < 0 && errno == EAGAIN)
		return;
	loop_close(source);
	if (n != (ssize_t)sizeof(command->result))
		return end(command, COMMAND_LOST);
	command->has_result = true;
	begin_draining(command);
}

static void on_patience(struct loop_timer *timer)
{
	struct command *command = CONTAINER_OF(timer, struct command, patience);
	if (!command->has_result)
		return end(command, COMMAND_LOST);
	for (unsigned i = 0; i < 2; i++)
		read_some(command, i);
	if (!command->is_paused)
		end(command, COMMAND_ENDED);
}

int command_exit_code(const struct command *command)
{
	int status = command->result.status;
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

void command_problem(const struct command *command, enum command_end end, struct error *err)
{
	*err = (struct error){ 0 };
	double limit_s = command->limit_ms / 1000.0;
	bool is_late =
		clock_monotonic_us() - command->begun_us >= command->limit_ms * (int64_t)1000;
	if (end == COMMAND_SANDBOX) {
		error_set(err, ERROR_SANDBOX_ENDED, "the sandbox ended while the command ran");
	} else if (end == COMMAND_LOST && !is_late) {
		error_set(err, ERROR_COMMAND_START, "the command was lost before it ended");
	} else if (end == COMMAND_LOST || command->result.timed_out) {
		error_set(err, ERROR_COMMAND_TIMEOUT,
			"command timeout after %g s: it was ended, with all it had started",
			limit_s);
		error_hint(err, "ask for more time with 'timeout_seconds'");
	} else if (command->result.start_error) {
		error_set(err, ERROR_COMMAND_START, "the command could not be started: %s",
			strerror(command->result.start_error));
		if (command->result.start_error == EAGAIN)
			error_hint(err, "the sandbox's limit of processes is reached");
	}
	if (err->code)
		command->api->stats.errors[err->code]++;
}
