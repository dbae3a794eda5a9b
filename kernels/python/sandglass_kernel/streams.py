"""sys.stdout and sys.stderr, and the exact order of prints and frames.

Python's streams write straight through to descriptors 1 and 2, since child processes and C code write there as
well. The reader sees three queues: two pipes and the socket. To make it see them in the order of writing, a
writer that changes from one queue to another first waits until the reader has emptied what was written before:
FIONREAD tells it for a pipe, at either end, and SIOCOUTQ for the socket. Only changes of queue pay.

User code may close its streams or put files over the descriptors. The stream objects cannot be closed at all
(a log handler of an earlier cell may hold them), and the pipes are kept at two spare descriptors, from which 1
and 2 are restored ahead of the next cell.
"""
from __future__ import annotations

import fcntl
import io
import os
import select
import sys
import time

FIONREAD = 0x541B
SIOCOUTQ = 0x5411
OUT, ERR, EVENT, UNKNOWN = 1, 2, 3, 0
WAIT_SECONDS = 2.0        # for a reader that does not read; then order is given up, not the cell
WAIT_SECONDS_AGAIN = 0.02  # for one that was waited for in vain before


class Queue:
    """One of the three ways out, as the writer sees it."""

    def __init__(self, fd: int, request: int):
        self.fd, self.request = fd, request
        self.is_stuck = False
        self._count = bytearray(4)

    def is_empty(self) -> bool:
        try:
            fcntl.ioctl(self.fd, self.request, self._count, True)
        except OSError:
            return True  # closed by user code: nothing to wait for
        return self._count == b"\0\0\0\0"

    def wait_until_empty(self) -> None:
        if self.is_empty():
            self.is_stuck = False
            return
        end = time.monotonic() + (WAIT_SECONDS_AGAIN if self.is_stuck else WAIT_SECONDS)
        pause = 0.0
        while not self.is_empty():
            if time.monotonic() > end:
                self.is_stuck = True
                return
            if pause < 0.00002:
                os.sched_yield()
                pause += 0.000001
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, 0.005)


class Order:
    """Knows which queue was written to last."""

    def __init__(self):
        self.last = UNKNOWN
        self._queues = {}

    def attach(self, out_fd: int, err_fd: int, socket_fd: int) -> None:
        self._queues = {OUT: Queue(out_fd, FIONREAD), ERR: Queue(err_fd, FIONREAD), EVENT: Queue(socket_fd, SIOCOUTQ)}

    def before(self, who: int) -> None:
        """Called ahead of a write to queue `who`."""
        if self.last != who:
            for name, queue in self._queues.items():
                if name != who:
                    queue.wait_until_empty()
            self.last = who

    def before_event(self) -> None:
        """Ahead of a frame; children and C code may have written since we did, so always look."""
        for name, queue in self._queues.items():
            if name != EVENT:
                queue.wait_until_empty()
        self.last = EVENT

    def before_others(self) -> None:
        """Ahead of somebody else's writing: let the reader catch up with all we wrote."""
        for queue in self._queues.values():
            queue.wait_until_empty()
        self.last = UNKNOWN


order = Order()


class PipeWriter(io.RawIOBase):
    """Writes all it is given to a descriptor, at once. Cannot be closed."""

    mode = "wb"

    def __init__(self, fd: int, name: str):
        self._fd = fd
        self.name = name

    def write(self, data) -> int:
        order.before(self._fd)
        if type(data) is not bytes:
            data = bytes(memoryview(data).cast("B"))
        size = len(data)
        done = self._write_some(data)
        while done < size:
            done += self._write_some(memoryview(data)[done:])
        return size

    def _write_some(self, data) -> int:
        while True:
            try:
                return os.write(self._fd, data)
            except BlockingIOError:  # a child has made the shared pipe non-blocking
                waiter = select.poll()
                waiter.register(self._fd, select.POLLOUT)
                waiter.poll(1000)

    def close(self) -> None:
        pass

    @property
    def closed(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False


def make_stream(fd: int) -> io.TextIOWrapper:
    raw = PipeWriter(fd, "<stdout>" if fd == OUT else "<stderr>")
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)
    stream.mode = "w"
    return stream


class Streams:
    """The three standard streams of the session and their mending."""

    def __init__(self):
        self.out = self.err = None
        self._kept = {}

    def install(self) -> None:
        """Put our objects in place of the interpreter's."""
        self.out, self.err = make_stream(OUT), make_stream(ERR)
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        self._tell_print()

    def _tell_print(self) -> None:
        """print() writes to these what a call prints at once; the interpreter's writes each value by itself."""
        tell = getattr(sys.modules.get("_sandglass"), "print_to", None)  # tests run without the extension, too
        if tell:
            tell(self.out, self.err)

    def attach(self, socket_fd: int, spare_out: int, spare_err: int) -> None:
        """Keep descriptors 1 and 2 at the spare numbers, out of the way of user code."""
        for fd, spare in ((OUT, spare_out), (ERR, spare_err)):
            os.dup2(fd, spare, inheritable=False)
            self._kept[fd] = (spare, _identity(spare))
        order.attach(spare_out, spare_err, socket_fd)

    def mend(self) -> None:
        """Undo, ahead of a cell, what an earlier one did to the descriptors and stream objects."""
        for fd, (spare, identity) in self._kept.items():
            if _identity(fd) != identity:
                if _identity(spare) == identity:
                    os.dup2(spare, fd, inheritable=True)
            elif _identity(spare) != identity:
                os.dup2(fd, spare, inheritable=False)
        if _identity(0) is None:
            null = os.open("/dev/null", os.O_RDONLY)
            if null != 0:
                os.dup2(null, 0, inheritable=True)
                os.close(null)
        if _is_unusable(self.out):
            self.out = sys.__stdout__ = make_stream(OUT)
        if _is_unusable(self.err):
            self.err = sys.__stderr__ = make_stream(ERR)
        self._tell_print()
        if _is_unusable(sys.stdout) or self._leads_away(sys.stdout):
            sys.stdout = self.out
        if _is_unusable(sys.stderr) or self._leads_away(sys.stderr):
            sys.stderr = self.err
        if sys.stdin is None or getattr(sys.stdin, "closed", True):
            sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)

    def _leads_away(self, stream) -> bool:
        """Would nobody see what is printed there? Known of files and of what only collects; other objects may pass it on."""
        if stream is self.out or stream is self.err:
            return False
        if isinstance(stream, io.StringIO) or isinstance(getattr(stream, "buffer", None), io.BytesIO):
            return True
        try:
            return _identity(stream.fileno()) not in [identity for _, identity in self._kept.values()]
        except Exception:
            return False

    def are_ours(self) -> bool:
        """True unless user code has put other objects in place, to catch what is printed."""
        return sys.stdout is self.out and sys.stderr is self.err

    def flush(self) -> None:
        """Push out what is still in buffers of the user's own wrappers."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_unusable(stream) -> bool:
    try:
        return stream is None or stream.closed
    except ValueError:  # detached
        return True
    except AttributeError:  # an object of the user's with a write() and little else
        return not hasattr(stream, "write")


streams = Streams()
