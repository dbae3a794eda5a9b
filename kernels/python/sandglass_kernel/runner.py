"""The loop of a kernel: a RUN frame in, a cell run, a DONE frame out.

main() is called once, by the zygote in a fresh child or by dev.py, and never returns. Descriptors: 0 is /dev/null,
1 and 2 are the pipes for output, `fd` the socket; 10 and 11 are taken for spare copies of the pipes.

All user code runs through the gate (see interrupts); what stands outside of gate.call() here cannot be interrupted.
"""
from __future__ import annotations

import faulthandler
import json
import os
import platform
import sys

from . import bundles, cells, figures, hooks, loops, shell as shells, surroundings, tracebacks
from .interrupts import gate
from .streams import order, streams
from .wire import DONE, ERROR, READY, wire

SPARE_OUT, SPARE_ERR = 10, 11
READY_TOLD = json.dumps({"language": "python", "version": platform.python_version()}).encode()


class Kernel:
    def __init__(self, shell, flush_stdio, workspace):
        self.shell = shell
        self.pid = os.getpid()
        self.number = 0
        self.exit = 0
        self._flush_stdio = flush_stdio
        self.workspace = workspace
        shell.on_error = self.report

    def report(self, error: BaseException) -> None:
        """The cell has failed: tell it on both ways."""
        self.exit = self.exit or 1
        told = tracebacks.show(error)
        if wire.takes_values:
            wire.send(ERROR, told)

    def run(self, source: str) -> int:
        """One cell, up to but without DONE. Returns the exit code."""
        self.number += 1
        self.exit = 0
        self.shell.budget = bundles.Budget()
        self.shell.remember_input(source)
        self.attempt(cells.run, self.shell, source, f"<cell {self.number}>")
        if os.getpid() != self.pid:
            self.end_forked_process()
        self.attempt(figures.flush)
        figures.close_all()
        streams.flush()
        self._flush_stdio()
        return self.exit

    def attempt(self, function, *args) -> None:
        """Call through the gate, and turn whatever comes out into exit code and report."""
        try:
            gate.call(function, *args)
        except SystemExit as request:
            self.take_exit(request)
        except BaseException as error:
            self.report(error)

    def take_exit(self, request: SystemExit) -> None:
        """What Python itself does with a SystemExit, but the session goes on."""
        code = request.code
        if code is None:
            self.exit = 0
        elif isinstance(code, int):
            self.exit = int(code) & 0xFF
        else:
            self.exit = 1
            message = tracebacks.message_of(code).encode("utf-8", "backslashreplace").decode("utf-8")
            try:
                sys.stderr.write(message + "\n")
            except Exception:
                pass
            if wire.takes_values:
                wire.send(ERROR, {"name": "SystemExit", "message": message, "traceback": message})

    def end_forked_process(self) -> None:
        """User code has forked and this is the child, back from the cell: it must not serve the socket."""
        streams.flush()
        self._flush_stdio()
        os._exit(self.exit)

    def serve(self) -> None:
        is_first = True
        while True:
            while loops.has_tasks() and not gate.cell_is_waiting():
                loops.run_tasks_until_readable(wire.fileno())
            request = wire.receive()
            if request is None:
                os._exit(0)
            wire.run, source = request
            self.answer(source, is_first)
            wire.run = 0
            is_first = False

    def answer(self, source: str, is_first: bool) -> None:
        """One cell, with all that belongs to it."""
        gate.begin()
        streams.mend()
        surroundings.look_again_for_modules(surroundings.find_working_folder(self.workspace))
        if is_first:
            surroundings.read_path_files()
        code = self.run(source)
        gate.end()
        # the reader empties the pipes after DONE, so there is no need to wait for it here
        wire.send_bytes(DONE, b'{"exit":%d}' % code, order=False)


def _find_flush_stdio():
    """C code may print through libc's own buffers."""
    flush = getattr(sys.modules.get("_sandglass"), "flush_stdio", None)
    if flush is not None:
        return flush

    def flush_by_ctypes():
        ctypes = sys.modules.get("ctypes")  # not loaded: costly to load, and code that prints by it would have
        if ctypes is not None and hasattr(ctypes, "PyDLL"):
            ctypes.PyDLL(None).fflush(None)

    return flush_by_ctypes


def main(fd: int, cpus: int = 1, home: str = "/home/user", workspace: str = "/workspace", is_early: bool = False) -> None:
    """Serve cells from the socket `fd` until it ends. Early: nobody waits for READY."""
    shell = shells.Shell.instance() if shells.Shell.initialized() else prepare()
    streams.attach(fd, SPARE_OUT, SPARE_ERR)
    wire.attach(fd, order.before_event)
    gate.install(fd)
    surroundings.settle(home, workspace, cpus)
    shell.user_ns["_dh"][:] = [workspace]
    shell.home_dir = home
    kernel = Kernel(shell, _find_flush_stdio(), workspace)
    if is_early:
        from . import warming
        warming.rehearse(kernel)
    wire.send_bytes(READY, READY_TOLD)
    kernel.serve()


def prepare():
    """What needs no descriptors and can be done in the zygote."""
    from . import commands
    streams.install()
    shell = shells.build()
    cells.prepare(shell)
    loops.install()
    hooks.install()
    faulthandler.enable(2)
    commands.watch_children()
    os.register_at_fork(after_in_child=loops.forget_after_fork)
    return shell
