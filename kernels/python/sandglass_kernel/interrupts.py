"""When a SIGINT may stop what.

A SIGINT means: stop the cell. It must reach user code wherever that runs, also in a __repr__ of the user's, and
must never tear our own work: frames, tracebacks, the end of a cell. Flags would leave gaps of a few byte codes.
So the stack itself tells: the handler walks up from the interrupted frame, and only if it finds the frame of
Gate.call does it raise. All user code is run through there, and nothing else is. Raising in Gate.call itself,
just before or after the user's code, is harmless for the same reason. What must not be torn although it is called by
user code goes through Gate.hold; an interrupt that comes meanwhile is remembered.

Python itself swallows an exception that is raised in a __del__, a weakref callback or a hook of fork, and tells
sys.unraisablehook. An interrupt lost in that way is raised again at the next call or return outside of it, for
which a profile function is set for a moment.
"""
from __future__ import annotations

import _signal  # the functions of signal wrap each number in an enum, which costs more than the call
import logging
import select
import signal
import sys


class Gate:
    """The only door through which user code is called."""

    def __init__(self):
        self.is_running = False  # a cell has been taken and is not yet done
        self.missed = False      # an interrupt came while it ran, but could not be delivered
        self._socket_fd = -1

    def install(self, socket_fd: int) -> None:
        self._socket_fd = socket_fd
        _signal.signal(signal.SIGINT, self._on_sigint)
        sys.unraisablehook = self._on_unraisable

    def begin(self) -> None:
        """A cell is about to run. An earlier one may have changed or blocked the signal."""
        if _signal.getsignal(signal.SIGINT) != self._on_sigint:
            signal.signal(signal.SIGINT, self._on_sigint)
        _signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        self.missed = False
        self.is_running = True

    def end(self) -> None:
        self.is_running = False

    def call(self, function, *args):
        """Call user code, or code that may call some."""
        return function(*args)

    def hold(self, function, *args):
        """Call what must be whole. To be followed by raise_missed()."""
        return function(*args)

    def raise_missed(self) -> None:
        """Deliver an interrupt that came when it could not be. To be called inside of the gate."""
        if self.missed:
            self.missed = False
            raise KeyboardInterrupt

    def call_between_cells(self, function, *args):
        """The same for tasks that live on after their cell: these are stopped only if they keep a cell waiting."""
        return function(*args)

    def _on_sigint(self, number, frame):
        while frame is not None:
            code = frame.f_code
            if code is _CALL:
                raise KeyboardInterrupt
            if code is _HOLD:
                break
            if code in _CRITICAL:
                sys.setprofile(self._raise_later)
                return
            if code is _CALL_BETWEEN:
                if self.cell_is_waiting():
                    raise KeyboardInterrupt
                return
            frame = frame.f_back
        if self.is_running:
            self.missed = True

    def _on_unraisable(self, what):
        if what.exc_type is KeyboardInterrupt and sys.getprofile() is None:
            sys.setprofile(self._raise_later)
        else:
            sys.__unraisablehook__(what)

    def _raise_later(self, frame, event, argument):
        if frame.f_code is _ON_UNRAISABLE or frame.f_code is _ON_SIGINT:
            return  # these are just returning
        sys.setprofile(None)
        self._on_sigint(signal.SIGINT, frame)  # sets it again where the time has not come

    def cell_is_waiting(self) -> bool:
        waiter = select.poll()
        waiter.register(self._socket_fd, select.POLLIN)
        return bool(waiter.poll(0))


_ON_SIGINT, _ON_UNRAISABLE = Gate._on_sigint.__code__, Gate._on_unraisable.__code__
_CRITICAL = {logging._acquireLock.__code__, logging._releaseLock.__code__}  # torn, these would lock out other threads
_HOLD = Gate.hold.__code__
_CALL = Gate.call.__code__
_CALL_BETWEEN = Gate.call_between_cells.__code__

gate = Gate()
