"""The asyncio loop of the session.

A cell with a top-level await runs in one loop that lives as long as the session, so tasks and locks made in one
such cell are good in the next. A plain cell runs without a loop, so asyncio.run and run_until_complete work in
it as in a script. Tasks that are left when a cell ends go on while the kernel waits for the next one.

The loop holds no descriptor while nothing needs it: poll() instead of epoll, and the socket pair by which other
threads wake the loop is made only once there are other threads, or signals to handle. So a session that has
awaited something can still be kept as a file.
"""
from __future__ import annotations

import _thread
import ast
import asyncio
import selectors
import threading

from .interrupts import gate

NEEDS_LOOP = {"create_task", "ensure_future", "get_running_loop", "current_task", "all_tasks"}
MAKES_LOOP = {"run", "run_until_complete", "run_forever", "Runner"}


class SessionSelector(selectors.PollSelector):
    """Makes sure, ahead of each wait, that other threads can end it. Here and not in the loop's own methods, which
    libraries that allow nested loops replace."""

    loop = None

    def select(self, timeout=None):
        if self.loop is not None and _thread._count():
            self.loop.need_self_pipe()
        return super().select(timeout)


class SessionLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        selector = SessionSelector()
        super().__init__(selector)
        selector.loop = self

    def _make_self_pipe(self):
        self._ssock = self._csock = None

    def _close_self_pipe(self):
        if self._ssock is not None:
            super()._close_self_pipe()

    def need_self_pipe(self):
        if self._ssock is None:
            super()._make_self_pipe()

    def add_signal_handler(self, *args):
        self.need_self_pipe()
        return super().add_signal_handler(*args)

    def let_go(self):
        """Close what a later need would make anew."""
        if self._ssock is not None and not _thread._count() and not self._signal_handlers:
            self._close_self_pipe()

class SessionPolicy(asyncio.DefaultEventLoopPolicy):
    """get_event_loop() of the main thread gives the session's loop, also after an asyncio.run()."""

    def get_event_loop(self):
        if self._local._loop is None and threading.current_thread() is threading.main_thread():
            self.set_event_loop(session_loop())
        return super().get_event_loop()


_loop: SessionLoop | None = None


def install() -> None:
    asyncio.set_event_loop_policy(SessionPolicy())


def session_loop() -> SessionLoop:
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = SessionLoop()
    return _loop


def wants_loop(text: str, tree: ast.AST) -> bool:
    """Does the cell itself, outside of its functions, call what needs a running loop, and nothing that makes one?"""
    if not any(name in text for name in NEEDS_LOOP):
        return False
    names, todo = set(), [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Call):
            called = node.func
            names.add(called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", ""))
        todo.extend(ast.iter_child_nodes(node))
    return bool(names & NEEDS_LOOP) and not names & MAKES_LOOP


def run(coroutine):
    """Run a cell's coroutine. To be called through the gate."""
    loop = session_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt as stop:
        if not task.done():
            raise stop.with_traceback(_cancel(loop, task)) from None
        raise
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # seen: it comes out of here, and needs no complaint of its own
        loop.let_go()


def _cancel(loop, task):
    """Let the clean-up of an interrupted cell run; return where it was interrupted."""
    task.cancel()
    try:
        loop.run_until_complete(task)
    except asyncio.CancelledError as cancelled:
        return cancelled.__traceback__
    return None


def has_tasks() -> bool:
    return _loop is not None and not _loop.is_closed() and bool(asyncio.all_tasks(_loop))


def run_tasks_until_readable(fd: int) -> None:
    """Between cells: let tasks go on until there is something to read at `fd`."""
    loop = _loop
    loop.add_reader(fd, loop.stop)
    try:
        gate.call_between_cells(loop.run_forever)
    except BaseException:
        pass  # SystemExit or KeyboardInterrupt of a task; it has ended by that
    finally:
        loop.remove_reader(fd)
        loop.let_go()


def forget_after_fork() -> None:
    """A process forked off by user code starts without a loop."""
    global _loop
    _loop = None


def forget_warming() -> None:
    """Close what the zygote's warm-up has made; a session makes its own."""
    global _loop
    if _loop is not None:
        asyncio.set_event_loop(None)
        _loop.close()
        _loop = None
