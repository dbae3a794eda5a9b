/* See tty.h. */
#include "cli/tty.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool tty_set(struct tty *tty, enum tty_mode mode, struct error *err)
{
	struct termios modes;
	if (!isatty(STDIN_FILENO))
		return true;
	if (tcgetattr(STDIN_FILENO, &modes) < 0)
		return error_from_os(err, errno, "cannot read the terminal's modes");
	if (!tty->is_changed)
		tty->saved = modes;
	modes = tty->saved;
	if (mode == TTY_RAW)
		cfmakeraw(&modes);
	else
		modes.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	modes.c_cc[VMIN] = 1;
	modes.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &modes) < 0)
		return error_from_os(err, errno, "cannot set the terminal's modes");
	tty->is_changed = true;
	return true;
}

void tty_restore(struct tty *tty)
{
	if (tty->is_changed)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &tty->saved);
	tty->is_changed = false;
}

void tty_size(uint16_t *rows, uint16_t *columns)
{
	struct winsize size = { 0 };
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	*rows = size.ws_row ? size.ws_row : 24;
	*columns = size.ws_col ? size.ws_col : 80;
}
