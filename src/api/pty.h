/*
 * A terminal inside a sandbox with a login shell or a command at it: init makes it and hands its
 * master end over, which is read, written and resized here. Freeing it hangs up, and ends the shell
 * with all it started.
 */
#ifndef API_PTY_H
#define API_PTY_H

#include "api/sandbox.h"
#include "wire/inside.h"

#define PTY_SIZE_LIMIT 1000 /* rows, columns */
#define PTY_INPUT ((size_t)64 * 1024)
#define PTY_COMMAND ((size_t)INSIDE_PATH_SIZE - 1)

struct pty;

struct pty_owner {
	/* False: no room; reading stops until pty_resume. The bytes were taken all the same. */
	bool (*on_output)(struct pty *pty, const char *bytes, size_t size);
	/* There is room again after a pty_write that said no. */
	void (*on_room)(struct pty *pty);
	/* Exactly once, the last call: `problem` is ERROR_NONE where the shell ended by itself. The
	 * owner frees it. */
	void (*on_end)(struct pty *pty, const struct error *problem);
};

/* `command` is a text for the shell, at most PTY_COMMAND bytes; NULL: a login shell. NULL and err:
 * nothing was started. What fails later is told by on_end. */
struct pty *pty_start(struct sandbox *sandbox, uint16_t rows, uint16_t columns, const char *command,
	const struct pty_owner *owner, void *state, struct error *err);
void pty_free(struct pty *pty);
void *pty_state(const struct pty *pty);

/* Takes all of it, up to 2 MiB in all; false: more than PTY_INPUT waits, go on after on_room. */
bool pty_write(struct pty *pty, const char *bytes, size_t size);
void pty_resize(struct pty *pty, uint16_t rows, uint16_t columns);
void pty_resume(struct pty *pty);
/* 128 + signal for a shell that was killed. */
int pty_exit_code(const struct pty *pty);

#endif
