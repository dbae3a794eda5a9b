"""Running `sandglass` as a person or a script would: plainly, in the background, or at a terminal of its own.

sandglass   a function of the fixture file: sandglass("ps", "-q") runs it against the daemon
screen      screen("shell", ID): the program at a terminal that the test types into and reads
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from daemon import PATIENCE, build_folder, wait_until

PROGRAM = [str(build_folder() / "sandglass")]


def surroundings(daemon=None, **more) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PANDASTACK_") and name != "NO_COLOR"}
    return {**clean, **(daemon.variables if daemon else {}), **more}


class Screen:
    """A program at a terminal of its own."""

    def __init__(self, daemon, *arguments, rows=30, columns=100, env=None) -> None:
        self.shown = b""
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns, tell=False)
        self.modes = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            PROGRAM + [str(argument) for argument in arguments],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
            env=surroundings(daemon, **(env or {})), preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def resize(self, rows: int, columns: int, tell=True) -> None:
        """Told to the program by the terminal itself, since it is the one in front."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read(self) -> bool:
        """What is there; false at the end or after a while without."""
        if not select.select([self.master], [], [], 0.1)[0]:
            return False
        self.shown += os.read(self.master, 65536)
        return True

    def wait_for(self, wanted: str, seconds: float = 20) -> str:
        """Reads until a new match of the pattern is shown; what was shown until its end, which is taken away."""
        end = time.monotonic() + seconds * PATIENCE
        while not (match := re.search(wanted.encode(), self.shown)):
            assert time.monotonic() < end, f"{wanted!r} was not shown: {self.shown!r}"
            self.read()
        before, self.shown = self.shown[: match.end()], self.shown[match.end() :]
        return before.decode(errors="replace")

    def wait(self, seconds: float = 20) -> int:
        """The exit code; all that is shown meanwhile is in `shown`."""
        end = time.monotonic() + seconds * PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self.shown!r}"
            self.read()
        while self.read():
            pass
        return self.process.returncode

    @property
    def is_restored(self) -> bool:
        """Are the terminal's modes as they were before?"""
        return termios.tcgetattr(self.slave) == self.modes

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(10 * PATIENCE)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def sandglass(daemon):
    def run(*arguments, **options):
        options.setdefault("timeout", 50 * PATIENCE)
        options.setdefault("text", True)
        env = surroundings(daemon, **options.pop("env", {}))
        return subprocess.run(PROGRAM + [str(argument) for argument in arguments], capture_output=True, env=env, **options)

    return run


@pytest.fixture
def screen(daemon):
    made = []

    def make(*arguments, **options):
        made.append(Screen(daemon, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def start(daemon):
    """start("logs", "-f", ID): in the background, with pipes; ended with the test."""
    made = []

    def make(*arguments, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        made.append(subprocess.Popen(PROGRAM + [str(a) for a in arguments], env=surroundings(daemon), **options))
        return made[-1]

    yield make
    for process in made:
        if process.poll() is None:
            process.kill()
        process.communicate()


__all__ = ["Screen", "sandglass", "screen", "start", "surroundings", "wait_until"]
