/* The terminal that this command runs at. */
#ifndef CLI_TTY_H
#define CLI_TTY_H

#include "base/error.h"

#include <stdint.h>
#include <termios.h>

struct tty {
	struct termios saved;
	bool is_changed;
};

enum tty_mode {
	TTY_RAW,  /* every key is the other side's */
	TTY_KEYS, /* keys come at once and are not shown; Ctrl-C is still a signal */
};

/* Of standard input; nothing, and true, when that is no terminal. */
bool tty_set(struct tty *tty, enum tty_mode mode, struct error *err);
/* As it was. Idempotent. */
void tty_restore(struct tty *tty);
/* Of standard output; 24 and 80 where nothing is known. */
void tty_size(uint16_t *rows, uint16_t *columns);

#endif
