"""Plays the processes around a kernel: starts it, sends cells, reads frames and pipes as the api does.

SANDGLASS_TEST_IMAGE names an EROFS image (or a root folder): kernels then run in it, by chroot in a private mount
namespace, with the versions that count. Otherwise they run with the Python that runs the tests.
"""
from __future__ import annotations

import fcntl
import json
import os
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

KERNELS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IMAGE = os.environ.get("SANDGLASS_TEST_IMAGE")
MODULES = ["numpy", "pandas", "matplotlib.pyplot", "IPython"]
PATIENCE = 60

HEADER = struct.Struct("<IHH")
RUN, READY, DISPLAY, RESULT, ERROR, DONE, UPDATE, CLEAR = 1, 16, 17, 18, 19, 20, 21, 22
NAMES = {READY: "ready", DISPLAY: "display", RESULT: "result", ERROR: "error", DONE: "done", UPDATE: "update", CLEAR: "clear"}


@dataclass
class Run:
    """What one cell gave. `log` has everything in the order in which it was read."""
    stdout: str = ""
    stderr: str = ""
    exit: int | None = None
    log: list = field(default_factory=list)

    def all(self, *kinds: str) -> list[dict]:
        return [value for kind, value in self.log if kind in kinds]

    @property
    def displays(self) -> list[dict]:
        return [value["data"] for value in self.all("display", "result")]

    @property
    def result(self) -> dict | None:
        found = self.all("result")
        assert len(found) <= 1
        return found[0]["data"] if found else None

    @property
    def text(self) -> str | None:
        return None if self.result is None else self.result.get("text/plain")

    @property
    def error(self) -> dict | None:
        found = self.all("error")
        return found[0] if found else None

    @property
    def pngs(self) -> list[str]:
        return [data["image/png"] for data in self.displays if "image/png" in data]


# As init starts what it starts: whoever runs the tests in the background ignores SIGINT, and that is inherited.
DEFAULTS = [signal.SIGINT, signal.SIGQUIT]


class KernelDied(Exception):
    pass


class Zygote:
    def __init__(self, modules=MODULES):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.folder = tempfile.mkdtemp(prefix="kernel-test-")
        actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)]
        argv = self._command(modules)
        environment = {k: v for k, v in os.environ.items() if k.startswith("OPENBLAS_CORE") or k == "OPENBLAS_L2_SIZE"}
        self.pid = os.posix_spawn(argv[0], argv, environment | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, file_actions=actions, setsigdef=DEFAULTS)
        theirs.close()

    def _command(self, modules) -> list[str]:
        if not IMAGE:
            return [sys.executable, "-I", "-X", "frozen_modules=on", os.path.join(KERNELS, "tests", "stand_in.py"), KERNELS, *modules]
        root, inside = os.path.join(self.folder, "root"), "/run/kernels"
        os.mkdir(root)
        mount = f"mount --bind {shlex.quote(IMAGE)} {root}" if os.path.isdir(IMAGE) else f"mount -t erofs -o loop,ro {shlex.quote(IMAGE)} {root}"
        script = f"""set -e
{mount}
mount -t tmpfs none {root}/run && mkdir {root}/run/kernels && mount --bind {shlex.quote(KERNELS)} {root}/run/kernels
mount -t tmpfs none {root}/tmp
mount -t proc none {root}/proc
mount --rbind /dev {root}/dev
exec chroot {root} /usr/bin/python3 -I -X frozen_modules=on {inside}/tests/stand_in.py {inside} {" ".join(modules)}"""
        return ["/usr/bin/unshare", "-m", "/bin/sh", "-c", script]

    def kernel(self, cpus: int = 1, name: str = "kernel", is_early: bool = False) -> Kernel:
        base = "/tmp" if IMAGE else self.folder
        return Kernel(self, {"home": f"{base}/{name}/home", "workspace": f"{base}/{name}/work", "cpus": cpus, "is_early": is_early})

    def close(self) -> None:
        self.control.close()
        os.waitpid(self.pid, 0)
        subprocess.run(["rm", "-rf", self.folder], check=True)


class Kernel:
    """One kernel and the reader of its three ways out."""

    def __init__(self, zygote: Zygote, how: dict):
        self.how = how
        self._start(lambda *ends: socket.send_fds(zygote.control, [repr(how).encode()], list(ends)))
        self.pid = int(zygote.control.recv(100))
        self._read(lambda: self.current.all("ready"))

    def _start(self, start) -> None:
        """Makes the three ways; start(stdout, stderr, frames) gets the kernel's ends."""
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        start(out, err, theirs.fileno())
        for fd in (out, err):
            os.close(fd)
        theirs.close()
        self.poll = select.poll()
        for fd in (self.sock.fileno(), self.out, self.err):
            os.set_blocking(fd, False)
            self.poll.register(fd, select.POLLIN)
        self.number, self.parts, self.current = 0, {}, Run()
        self.is_reading = True

    # ------------------------------------------------------------ reading

    def _read(self, is_enough, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not is_enough():
            left = end - time.monotonic()
            assert left > 0, f"waited {seconds} s in vain; so far: {self.current.log[-5:]!r}"
            ready = {fd for fd, _ in self.poll.poll(left * 1000)}
            # the socket first: were the kernel not to wait, this would get the order wrong
            for fd in (self.sock.fileno(), self.err, self.out):
                if fd in ready:
                    self._read_one(fd)
                    break

    def _read_one(self, fd: int) -> bool:
        try:
            if fd != self.sock.fileno():
                data = os.read(fd, 1 << 16)
                if not data:
                    self.poll.unregister(fd)
                    return False
                self._take_text("stdout" if fd == self.out else "stderr", data)
                return True
            packet = self.sock.recv(1 << 17)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            packet = b""
        if not packet:
            raise KernelDied
        assert len(packet) <= 65536
        run, kind, flags = HEADER.unpack_from(packet)
        assert run == (0 if kind == READY else self.number), "a frame of another run"
        before = self.parts.get(kind, b"")
        assert not (set(self.parts) - {kind}), "a value was torn by another"
        self.parts[kind] = before + packet[8:]
        if not flags & 1:
            value = json.loads(self.parts.pop(kind).decode("ascii"))
            for text in value.get("data", {}).values():
                assert isinstance(text, str)
            if kind == DONE:
                self.current.exit = value["exit"]
            self.current.log.append((NAMES[kind], value))
        return True

    def _take_text(self, stream: str, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        setattr(self.current, stream, getattr(self.current, stream) + text)
        log = self.current.log
        if log and log[-1][0] == stream:
            log[-1] = (stream, log[-1][1] + text)
        else:
            log.append((stream, text))

    # ------------------------------------------------------------ driving

    def start(self, code: str) -> None:
        self.number += 1
        self.current = Run()
        data = code.encode("utf-8", "surrogatepass")
        for start in range(0, max(1, len(data)), 60000):
            more = 1 if start + 60000 < len(data) else 0
            packet = HEADER.pack(self.number, RUN, more) + data[start:start + 60000]
            while True:
                try:
                    self.sock.send(packet)
                    break
                except BlockingIOError:
                    select.select([], [self.sock], [], PATIENCE)

    def wait_for(self, text: str, stream: str = "stdout") -> None:
        """Read until the cell has printed this."""
        self._read(lambda: text in getattr(self.current, stream))

    def finish(self, seconds: float = PATIENCE) -> Run:
        self._read(lambda: self.current.exit is not None, seconds)
        for fd in (self.out, self.err):
            while self._read_one(fd):
                pass
        log = self.current.log  # what was in the pipes at DONE belongs before it
        done = next(entry for entry in log if entry[0] == "done")
        log.remove(done)
        texts = [(n, entry) for n, entry in enumerate(log) if n and entry[0] == log[n - 1][0] in ("stdout", "stderr")]
        for n, entry in reversed(texts):
            log[n - 1:n + 1] = [(entry[0], log[n - 1][1] + entry[1])]
        log.append(done)
        return self.current

    def run(self, code: str, seconds: float = PATIENCE) -> Run:
        self.start(code)
        return self.finish(seconds)

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def wait_for_end(self) -> None:
        """Read until the socket ends."""
        try:
            self._read(lambda: False)
        except KernelDied:
            pass

    def close(self) -> None:
        self.sock.close()
        for fd in (self.out, self.err):
            os.close(fd)


class Spawned(Kernel):
    """A kernel whose runner is a program of its own: started here as the zygote's child would execute it."""

    def __init__(self, language: str, words: list[str], folder: str):
        build = os.environ.get("SANDGLASS_BUILD") or os.path.join(os.path.dirname(os.path.dirname(KERNELS)), "build")
        programs = [os.path.join(build, "kernels", name) for name in (f"{language}-runner-sanitized", f"sandglass-{language}-runner")]
        program = next(path for path in programs if os.path.exists(path))
        self.folder = folder
        environment = {"HOME": folder, "USER": "user", "PATH": os.path.expandvars("$PATH"), "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "dumb"}

        def start(out, err, frames):
            null = os.open(os.devnull, os.O_RDWR)
            # high first: the places 0 to 3 may be taken by what goes there
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (null, out, err, frames)]
            places = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(high)]
            places += [(os.POSIX_SPAWN_CLOSE, int(fd)) for fd in os.listdir("/proc/self/fd") if int(fd) > 3]
            command = ["/usr/bin/env", "-C", folder, program, *words]
            self.pid = os.posix_spawn(command[0], command, environment, file_actions=places, setsid=True, setsigdef=DEFAULTS)
            for fd in (null, *high):
                os.close(fd)

        self._start(start)
        self._read(lambda: self.current.all("ready"))

    def close(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            self.status = os.waitpid(self.pid, 0)[1]
        except ChildProcessError:
            pass
        self._sweep()
        super().close()

    def _sweep(self) -> None:
        """As init does in a sandbox: nothing of the session outlives its runner."""
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.getsid(int(entry)) == self.pid:
                    os.kill(int(entry), signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended while being looked at
