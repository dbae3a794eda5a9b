/*
 * See pty.h. When init has told the shell's end, the master is read until it says that nobody holds
 * the other end (EIO), or for DRAIN_MS where somebody still does.
 *
 * A master that was hung up reports so all the time, so it is not watched while nothing may be
 * read.
 */
#include "api/pty.h"

#include "api/inside.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS 2
#define START_MS 10000
#define DRAIN_MS 50
#define READ_SIZE ((size_t)16 * 1024)
#define READS_A_TURN 8
#define INPUT_LIMIT ((size_t)2 << 20)

struct pty {
	const struct pty_owner *owner;
	void *state; /* the owner's */
	struct api *api;
	struct guest guest;
	struct loop_source answer, master; /* their descriptors are owned */
	struct loop_timer patience;
	struct buf input; /* owned: typed, and not taken yet */
	uint16_t rows, columns;
	struct inside_command_answer result;
	bool has_result, is_paused, is_full;
};

static void on_answer(struct loop_source *source, uint32_t events);
static void on_master(struct loop_source *source, uint32_t events);

/* ---- ends ---- */

static void finish(struct pty *pty, enum error_code code, const char *text)
{
	struct error problem = { 0 };
	if (code)
		error_set(&problem, code, "%s", text);
	pty->owner->on_end(pty, &problem);
}

static void on_sandbox_end(struct guest *guest, const struct error *why)
{
	struct pty *pty = CONTAINER_OF(guest, struct pty, guest);
	finish(pty, ERROR_SANDBOX_ENDED, "the sandbox ended");
}

static void finish_ended(struct pty *pty)
{
	if (pty->result.start_error)
		return finish(pty, ERROR_COMMAND_START, "the shell could not be started");
	finish(pty, ERROR_NONE, NULL);
}

static void on_patience(struct loop_timer *timer)
{
	struct pty *pty = CONTAINER_OF(timer, struct pty, patience);
	if (!pty->has_result)
		return finish(pty, ERROR_COMMAND_START, "the terminal was not made in time");
	finish_ended(pty);
}

void pty_free(struct pty *pty)
{
	if (!pty)
		return;
	guest_leave(&pty->guest);
	loop_timer_stop(&pty->patience);
	loop_close(&pty->master);
	loop_close(&pty->answer);
	buf_deinit(&pty->input);
	api_return_descriptors(pty->api, DESCRIPTORS);
	free(pty);
}

/* ---- the beginning ---- */

static bool ask(struct pty *pty, struct sandbox *sandbox, const char *command, struct error *err)
{
	struct inside_request request = {
		.op = INSIDE_TERMINAL, .rows = pty->rows, .columns = pty->columns
	};
	if (command)
		memcpy(request.path, command, strnlen(command, PTY_COMMAND));
	return inside_ask_watched(sandbox, &request, &pty->answer, on_answer, err);
}

struct pty *pty_start(struct sandbox *sandbox, uint16_t rows, uint16_t columns, const char *command,
	const struct pty_owner *owner, void *state, struct error *err)
{
	if (!api_take_descriptors(sandbox->api, DESCRIPTORS, err))
		return NULL;
	struct pty *pty = calloc(1, sizeof(*pty));
	if (!pty) {
		api_return_descriptors(sandbox->api, DESCRIPTORS);
		return error_no_memory(err);
	}
	*pty = (struct pty){ .owner = owner,
		.state = state,
		.api = sandbox->api,
		.answer.fd = -1,
		.master.fd = -1,
		.input = buf_make(INPUT_LIMIT),
		.rows = rows,
		.columns = columns };
	if (!guest_enter(&pty->guest, sandbox, on_sandbox_end, err) ||
		!ask(pty, sandbox, command, err)) {
		pty_free(pty);
		return NULL;
	}
	loop_timer_start(&pty->api->loop, &pty->patience, START_MS, on_patience);
	return pty;
}

void *pty_state(const struct pty *pty)
{
	return pty->state;
}

/* ---- input ---- */

static void watch(struct pty *pty)
{
	int fd = pty->master.fd;
	uint32_t events = EPOLLIN | (pty->input.size > 0 ? (uint32_t)EPOLLOUT : 0);
	if (fd < 0)
		return;
	if (pty->is_paused)
		return loop_forget(&pty->master);
	if (pty->master.loop)
		return loop_rewatch(&pty->master, events);
	if (loop_watch(&pty->api->loop, &pty->master, fd, events, on_master, NULL))
		return;
	pty->master.fd = fd;
	pty->has_result = false; /* ends soon, outside of this handler */
	loop_timer_start(&pty->api->loop, &pty->patience, 0, on_patience);
}

/* Gives on what the terminal takes. */
static void type(struct pty *pty)
{
	while (pty->master.fd >= 0 && pty->input.size > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(
			write(pty->master.fd, pty->input.bytes, pty->input.size));
		if (n <= 0) {
			if (n < 0 && errno != EAGAIN)
				pty->input.size = 0; /* nobody is there to read it */
			break;
		}
		buf_consume(&pty->input, (size_t)n);
	}
}

bool pty_write(struct pty *pty, const char *bytes, size_t size)
{
	buf_append(&pty->input, bytes, size);
	type(pty);
	watch(pty);
	pty->is_full = pty->input.size > PTY_INPUT;
	return !pty->is_full;
}

static void tell_room(struct pty *pty)
{
	if (!pty->is_full || pty->input.size > PTY_INPUT / 2)
		return;
	pty->is_full = false;
	pty->owner->on_room(pty);
}

void pty_resize(struct pty *pty, uint16_t rows, uint16_t columns)
{
	const struct winsize size = { .ws_row = rows, .ws_col = columns };
	pty->rows = rows;
	pty->columns = columns;
	if (pty->master.fd >= 0)
		ioctl(pty->master.fd, TIOCSWINSZ, &size);
}

/* ---- output ---- */

/* False when there is nothing more now. */
static bool read_once(struct pty *pty)
{
	if (pty->master.fd < 0 || pty->is_paused)
		return false;
	ssize_t n = TEMP_FAILURE_RETRY(read(pty->master.fd, pty->api->frame, READ_SIZE));
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) { /* EIO: the other end is closed */
		loop_close(&pty->master);
		return false;
	}
	pty->is_paused = !pty->owner->on_output(pty, pty->api->frame, (size_t)n);
	return true;
}

static void read_some(struct pty *pty)
{
	for (unsigned n = 0; n < READS_A_TURN && read_once(pty); n++)
		;
	watch(pty);
}

/* After the shell's end; may end in on_end. */
static void drain(struct pty *pty)
{
	read_some(pty);
	if (pty->is_paused)
		return loop_timer_stop(&pty->patience);
	if (pty->master.fd < 0)
		return finish_ended(pty);
	if (!pty->patience.loop)
		loop_timer_start(&pty->api->loop, &pty->patience, DRAIN_MS, on_patience);
}

static void on_master(struct loop_source *source, uint32_t events)
{
	struct pty *pty = CONTAINER_OF(source, struct pty, master);
	if (events & EPOLLOUT) {
		type(pty);
		tell_room(pty);
	}
	if (pty->has_result)
		return drain(pty);
	read_some(pty);
}

void pty_resume(struct pty *pty)
{
	pty->is_paused = false;
	watch(pty);
	if (pty->has_result)
		loop_timer_start(&pty->api->loop, &pty->patience, DRAIN_MS, on_patience);
}

/* ---- what init tells ---- */

static void take_master(struct pty *pty)
{
	struct inside_gift gift;
	if (!inside_receive(pty->answer.fd, INSIDE_GIFT_TERMINAL, &gift))
		return;
	loop_timer_stop(&pty->patience);
	if (gift.os_error == ENOSPC)
		return finish(pty, ERROR_BUSY, "the sandbox has no terminal left: 64 are in use");
	if (gift.os_error == EAGAIN)
		return finish(pty, ERROR_BUSY, "the sandbox has no process left for a terminal");
	if (gift.fd < 0)
		return finish(pty, ERROR_COMMAND_START, "the terminal could not be made");
	pty->master.fd = gift.fd;
	pty_resize(pty, pty->rows, pty->columns); /* it may have changed meanwhile */
	type(pty);
	watch(pty);
}

static void take_result(struct pty *pty)
{
	ssize_t n = TEMP_FAILURE_RETRY(
		recv(pty->answer.fd, &pty->result, sizeof(pty->result), MSG_DONTWAIT));
	if (n < 0 && errno == EAGAIN)
		return;
	loop_close(&pty->answer);
	if (n != (ssize_t)sizeof(pty->result))
		return finish(pty, ERROR_COMMAND_START, "the terminal was lost");
	pty->has_result = true;
	drain(pty);
}

static void on_answer(struct loop_source *source, uint32_t events)
{
	struct pty *pty = CONTAINER_OF(source, struct pty, answer);
	if (pty->patience.loop)
		take_master(pty);
	else
		take_result(pty);
}

int pty_exit_code(const struct pty *pty)
{
	int status = pty->result.status;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
