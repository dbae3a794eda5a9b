/*
 * See terminal.h. The slave is opened through the master, not by a name: what user code does to the
 * names in /dev/pts does not matter then. Who opens the master owns the slave, so the user's file
 * ids are borrowed for that moment.
 */
#include "init/terminal.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static bool open_ends(int *master, int *slave)
{
	const int unlocked = 0;
	*master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (*master < 0 || ioctl(*master, TIOCSPTLCK, &unlocked) < 0)
		return false;
	*slave = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return *slave >= 0;
}

/* Keys give and take whole characters, not bytes. */
static bool set_up(int master, int slave, uint16_t rows, uint16_t columns)
{
	const struct winsize size = { .ws_row = rows, .ws_col = columns };
	struct termios modes;
	if (tcgetattr(slave, &modes) < 0)
		return false;
	modes.c_iflag |= IUTF8;
	return tcsetattr(slave, TCSANOW, &modes) == 0 && ioctl(master, TIOCSWINSZ, &size) == 0;
}

bool terminal_open(
	uid_t uid, gid_t gid, uint16_t rows, uint16_t columns, int *ret_master, int *ret_slave)
{
	cleanup_close int master = -1, slave = -1;
	gid_t own_gid = (gid_t)setfsgid(gid);
	uid_t own_uid = (uid_t)setfsuid(uid);
	bool is_open = open_ends(&master, &slave);
	int open_error = errno;
	setfsuid(own_uid);
	setfsgid(own_gid);
	prctl(PR_SET_DUMPABLE, 0); /* a change of file ids may have undone it */
	errno = open_error;
	if (!is_open || !set_up(master, slave, rows, columns))
		return false;
	*ret_master = fd_take(&master);
	*ret_slave = fd_take(&slave);
	return true;
}

bool terminal_take(int slave)
{
	return ioctl(slave, TIOCSCTTY, 0) == 0 && dup2(slave, STDIN_FILENO) >= 0 &&
	       dup2(slave, STDOUT_FILENO) >= 0 && dup2(slave, STDERR_FILENO) >= 0;
}
