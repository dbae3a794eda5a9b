/*
 * See terminal.h. Keys go as binary messages, a change of size as text; what comes is written as it
 * is. Every way out passes finish(), so the terminal's modes are put back. An own line that begins
 * with "~." hangs up, as with ssh: the way out when the other side does not answer.
 */
#include "cli/terminal.h"

#include "cli/tty.h"
#include "cli/websocket.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

#define SILENCE_MS 60000 /* the daemon pings every 20 s */
#define TICK_MS 5000
#define READ_SIZE 4096

enum escape { ESCAPE_NO, ESCAPE_LINE_BEGINS, ESCAPE_TILDE };

struct terminal {
	struct websocket *socket; /* owned */
	int signal_fd;            /* not owned */
	struct tty tty;
	enum escape escape;
	bool has_ended, has_hung_up, has_no_input;
	int status, signal;
	struct error problem; /* what the daemon said */
};

/* ---- from the daemon ---- */

static void take_order(struct terminal *terminal, const char *text, size_t size)
{
	json_t *order = json_loadb(text, size, 0, NULL);
	const json_t *exit_code = json_object_get(order, "exit");
	const char *error = json_string_value(json_object_get(order, "error"));
	if (json_is_integer(exit_code)) {
		terminal->has_ended = true;
		terminal->status = (int)(json_integer_value(exit_code) & 0xff);
	} else if (error) {
		error_set(&terminal->problem, ERROR_INTERNAL, "%s", error);
	}
	json_decref(order);
}

static void on_message(void *data, bool is_text, const char *bytes, size_t size)
{
	struct terminal *terminal = data;
	if (is_text)
		take_order(terminal, bytes, size);
	else if (!fd_write_all(STDOUT_FILENO, bytes, size))
		terminal->has_hung_up = true; /* nobody sees it any more */
}

/* ---- from here ---- */

static void send_size(struct terminal *terminal)
{
	uint16_t rows, columns;
	char text[96];
	tty_size(&rows, &columns);
	int size = snprintf(
		text, sizeof(text), "{\"resize\": {\"rows\": %u, \"cols\": %u}}", rows, columns);
	websocket_send(terminal->socket, true, text, (size_t)size);
}

/* Goes through the keys for "~." at the beginning of a line; gives on what is not of it. */
static size_t look_for_escape(struct terminal *terminal, const char *keys, size_t size, char *out)
{
	size_t kept = 0;
	for (size_t i = 0; i < size && !terminal->has_hung_up; i++) {
		bool was_tilde = terminal->escape == ESCAPE_TILDE;
		bool begins = terminal->escape == ESCAPE_LINE_BEGINS;
		terminal->escape =
			keys[i] == '\r' || keys[i] == '\n' ? ESCAPE_LINE_BEGINS : ESCAPE_NO;
		if (begins && keys[i] == '~') {
			terminal->escape = ESCAPE_TILDE;
			continue;
		}
		if (was_tilde && keys[i] == '.') {
			terminal->has_hung_up = true;
			continue;
		}
		if (was_tilde)
			out[kept++] = '~';
		out[kept++] = keys[i];
	}
	return kept;
}

static void on_keys(struct terminal *terminal)
{
	char keys[READ_SIZE], out[READ_SIZE + 1];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		terminal->has_no_input = true;
		terminal->has_hung_up = true; /* our terminal is gone */
		return;
	}
	size_t size = look_for_escape(terminal, keys, (size_t)n, out);
	if (size > 0)
		websocket_send(terminal->socket, false, out, size);
}

/* Stops as an ordinary program would, with the modes as they were meanwhile. */
static void stop(struct terminal *terminal)
{
	tty_restore(&terminal->tty);
	raise(SIGSTOP);
	tty_set(&terminal->tty, TTY_RAW, NULL);
	send_size(terminal);
}

static void on_signals(struct terminal *terminal)
{
	struct signalfd_siginfo info;
	while (read(terminal->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGWINCH)
			send_size(terminal);
		else if (info.ssi_signo == SIGTSTP)
			stop(terminal);
		else if (info.ssi_signo == SIGCONT && tty_set(&terminal->tty, TTY_RAW, NULL))
			send_size(terminal);
		else
			terminal->signal = (int)info.ssi_signo;
	}
}

/* ---- the loop ---- */

static bool turn(struct terminal *terminal)
{
	bool wants_keys = websocket_has_room(terminal->socket) && !terminal->has_no_input;
	struct pollfd waits[] = {
		{ .fd = websocket_fd(terminal->socket),
			.events = websocket_events(terminal->socket) },
		{ .fd = terminal->signal_fd, .events = POLLIN },
		{ .fd = wants_keys ? STDIN_FILENO : -1, .events = POLLIN },
	};
	if (poll(waits, ARRAY_SIZE(waits), TICK_MS) < 0 && errno != EINTR)
		return false;
	if (waits[1].revents)
		on_signals(terminal);
	if (waits[2].revents)
		on_keys(terminal);
	bool is_open = websocket_turn(terminal->socket) &&
		       websocket_silence_ms(terminal->socket) < SILENCE_MS;
	return is_open && !terminal->has_ended && !terminal->has_hung_up && !terminal->signal &&
	       !terminal->problem.code;
}

/* What a program left behind when it could not clean up: colours, a hidden cursor, pasting marks.
 */
static void clean_screen(void)
{
	static const char codes[] = "\033[0m\033[?25h\033[?2004l\r\n";
	if (isatty(STDOUT_FILENO))
		fd_write_all(STDOUT_FILENO, codes, sizeof(codes) - 1);
}

static bool finish(struct terminal *terminal, int *ret_status, struct error *err)
{
	tty_restore(&terminal->tty);
	websocket_free(terminal->socket);
	*ret_status = terminal->signal ? 128 + terminal->signal : terminal->status;
	if (terminal->has_ended)
		return true;
	clean_screen();
	if (terminal->problem.code) {
		*err = terminal->problem;
		return false;
	}
	if (terminal->has_hung_up && !terminal->signal)
		*ret_status = 128 + SIGHUP;
	return terminal->signal || terminal->has_hung_up ||
	       error_set(err, ERROR_INTERNAL, "the connection to the sandbox broke");
}

static bool make_path(struct buf *path, const char *id, const char *command, struct error *err)
{
	uint16_t rows, columns;
	tty_size(&rows, &columns);
	if (buf_printf(path, "/sandboxes/%s/exec/pty?rows=%u&cols=%u", id, MIN(rows, 1000),
		    MIN(columns, 1000)) &&
		(!command || (buf_append(path, "&", 1) && http_query(path, "cmd", command))))
		return true;
	return error_set(err, ERROR_INVALID, "the command is too long for a terminal");
}

bool terminal_run(struct daemon *daemon, const char *id, const char *command, int *ret_status,
	struct error *err)
{
	cleanup_buf struct buf path = buf_make((size_t)16 << 10);
	struct terminal terminal = { .signal_fd = daemon->signal_fd, .escape = ESCAPE_LINE_BEGINS };
	if (!isatty(STDIN_FILENO)) {
		error_set(err, ERROR_INVALID, "standard input is no terminal");
		return error_hint(err, "for commands in scripts: sandglass exec ID COMMAND");
	}
	if (!make_path(&path, id, command, err))
		return false;
	terminal.socket =
		websocket_connect(&daemon->target, buf_text(&path), on_message, &terminal, err);
	if (!terminal.socket || !tty_set(&terminal.tty, TTY_RAW, err)) {
		websocket_free(terminal.socket);
		return false;
	}
	while (turn(&terminal))
		;
	return finish(&terminal, ret_status, err);
}
