"""A sandglassd of the tests' own: started on a free port, watched, ended, and nothing else touched.

As a library:

    with Daemon() as daemon:
        requests.get(daemon.url + "/healthz")
        daemon.process("api").pid

As a program it runs a command against a fresh daemon, with the clients' variables set:

    python3 tests/e2e/daemon.py [--config FILE] [--state DIR] -- COMMAND ...

The programs come from the folder in SANDGLASS_BUILD, else from build/ of this source tree. Nothing
beyond the standard library is used.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Sanitized programs are slow to start; every wait of this file is stretched by this.
PATIENCE = float(os.environ.get("SANDGLASS_PATIENCE", "1"))
SANITIZER_MARKS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:", "UndefinedBehaviorSanitizer")
# The kernel keeps 15 characters of a name, so "sandglass-warden" has to be recognised by less.
ROLES = {"sandglassd": "keeper", "sandglass-warden": "warden", "sandglass-api": "api", "sandglass-init": "init"}


def build_folder() -> Path:
    return Path(os.environ.get("SANDGLASS_BUILD") or REPOSITORY / "build")


class DaemonError(Exception):
    """The daemon did not do what it was asked; the text ends with the last lines of its log."""


class Process:
    """One process of the daemon, as /proc tells. `role` is keeper, warden, api, init or the name it has."""

    def __init__(self, pid: int) -> None:
        folder = Path("/proc") / str(pid)
        name, _, rest = (folder / "stat").read_text().rpartition(")")
        fields = rest.split()
        self.pid = pid
        self.name = name.partition("(")[2]
        self.state = fields[0]
        self.parent = int(fields[1])
        self.started = int(fields[19])  # in ticks since boot: tells a process from a later one of the same pid
        try:
            program = os.path.basename(os.readlink(folder / "exe")).removesuffix(" (deleted)")
        except OSError:
            program = self.name
        self.role = ROLES.get(program) or ROLES.get(self.name)
        if not self.role:
            short = [role for full, role in ROLES.items() if full[:15] == self.name]
            self.role = short[0] if short else self.name

    def is_alive(self) -> bool:
        try:
            now = Process(self.pid)
        except OSError:
            return False
        return now.started == self.started and now.state not in "ZX"

    def __repr__(self) -> str:
        return f"<{self.role} {self.pid}>"


def processes_below(root: int) -> list[Process]:
    """The process and all its descendants, parents first."""
    everyone: dict[int, list[Process]] = {}
    found: list[Process] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            process = Process(int(entry))
        except (OSError, IndexError, ValueError):
            continue  # it ended while being looked at
        everyone.setdefault(process.parent, []).append(process)
        if process.pid == root:
            found.append(process)
    for process in found:
        found.extend(everyone.get(process.pid, []))
    return found


def wait_until(condition, seconds: float, what: str):
    """Polls until the condition gives something true, and returns that."""
    end = time.monotonic() + seconds * PATIENCE
    while not (got := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds * PATIENCE:g} s still not: {what}")
        time.sleep(0.02)
    return got


class Daemon:
    """sandglassd with a state folder of its own.

    state    the folder; a temporary one, removed at the end, when not given
    config   a dict (written to a file) or the path of a configuration file
    args     further arguments
    env      further environment variables
    """

    def __init__(self, state=None, *, listen="127.0.0.1:0", config=None, args=(), env=None, build=None) -> None:
        self.build = Path(build or build_folder())
        self._own_state = state is None
        self.state = Path(state or tempfile.mkdtemp(prefix="sandglass-"))
        self.listen = listen
        self.config = config
        self.args = [str(argument) for argument in args]
        self.env = dict(env or {})
        self.url = ""
        self._popen: subprocess.Popen | None = None
        self._logs: list[str] = []
        self._log_path: Path | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()

    # ---- life ----

    def start(self, seconds: float = 30) -> "Daemon":
        """Returns once the daemon serves; raises DaemonError with its log otherwise."""
        assert self._popen is None, "it runs already"
        program = self.build / "sandglassd"
        if not program.exists():
            raise DaemonError(f"there is no {program}: run make first")
        self._log_path = Path(tempfile.mkstemp(prefix="sandglass-", suffix=".log")[1])
        self._logs.append("")
        command = [str(program), "--state", str(self.state), "--listen", self.listen]
        if self.config is not None:
            command += ["--config", str(self._config_file())]
        with open(self._log_path, "wb") as log:
            self._popen = subprocess.Popen(
                command + self.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=self._environment(), start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip
        self._ready.clear()
        self.url = ""
        self._reader = threading.Thread(target=self._read_stdout, args=(self._popen.stdout,), daemon=True)
        self._reader.start()
        end = time.monotonic() + seconds * PATIENCE
        while not self._ready.wait(0.05):
            code = self._popen.poll()
            if code is not None:
                self._reader.join(5)
                text = f"sandglassd ended with {_ending(code)} instead of getting ready"
                raise self._give_up(text)
            if time.monotonic() > end:
                raise self._give_up(f"sandglassd was not ready after {seconds * PATIENCE:g} s")
        return self

    def stop(self, seconds: float = 20) -> None:
        """SIGTERM, and waits: a daemon that does not end, ends badly or leaves a process fails the test."""
        if self._popen is None:
            return
        family = processes_below(self._popen.pid)
        self._popen.terminate()
        try:
            code = self._popen.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._give_up(f"sandglassd did not end within {seconds * PATIENCE:g} s of SIGTERM") from None
        problem = f"sandglassd ended with {_ending(code)}" if code else ""
        try:
            wait_until(lambda: not any(p.is_alive() for p in family), 5, "all its processes are gone")
        except AssertionError:
            problem = problem or f"sandglassd left {[p for p in family if p.is_alive()]}"
        self._finish()
        found = [line for line in self.log.splitlines() if any(mark in line for mark in SANITIZER_MARKS)]
        if found:
            problem = problem or f"a sanitizer spoke: {found[0]}"
        if problem:
            raise DaemonError(problem + self._tail())

    def kill(self, seconds: float = 10) -> None:
        """SIGKILL to the keeper, as a crash: all below has to end by itself within the time."""
        assert self._popen is not None
        family = processes_below(self._popen.pid)
        self._popen.kill()
        self._popen.wait()
        self._finish()
        wait_until(lambda: not any(p.is_alive() for p in family), seconds, f"{family} ended with their keeper")

    def restart(self, seconds: float = 30) -> "Daemon":
        """Stops it cleanly and starts it on the same state folder; the port is another one if none was fixed."""
        self.stop()
        return self.start(seconds)

    def close(self) -> None:
        """Stops it and removes what is this object's own."""
        try:
            self.stop()
        finally:
            if self._popen is not None:
                self._end_by_force()
            if self._own_state:
                shutil.rmtree(self.state, ignore_errors=True)

    def __enter__(self) -> "Daemon":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    # ---- what a test wants to know ----

    @property
    def pid(self) -> int:
        """The keeper's."""
        assert self._popen is not None, "the daemon does not run"
        return self._popen.pid

    @property
    def key(self) -> str:
        return (self.state / "key").read_text().strip()

    @property
    def variables(self) -> dict[str, str]:
        """What aims PandaStack's clients at this daemon. The rest keeps a netrc or a proxy out of the way."""
        quiet = {"NETRC": os.devnull, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        return {"PANDASTACK_API": self.url, "PANDASTACK_API_KEY": self.key, **quiet}

    def processes(self, role: str | None = None) -> list[Process]:
        """Those that live now, parents first."""
        return [p for p in processes_below(self.pid) if p.state not in "ZX" and role in (None, p.role)]

    def process(self, role: str) -> Process:
        """The first of that role."""
        found = self.processes(role)
        assert found, f"there is no {role}; there are {self.processes()}"
        return found[0]

    @property
    def log(self) -> str:
        """All that it wrote to stderr, over all its starts."""
        running = ""
        if self._log_path and self._log_path.exists():
            running = self._log_path.read_text(errors="replace")
        return "".join(self._logs) + running

    def events(self, name: str | None = None) -> list[dict]:
        """The log's lines, those of one event or all. Lines that are not JSON (a sanitizer's) are left out."""
        lines = []
        for text in self.log.splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and name in (None, line.get("event")):
                lines.append(line)
        return lines

    def wait_for_pool(self, seconds: float = 20) -> None:
        """Until as many sandboxes stand ready as are configured, after the last that was taken from them."""

        def is_full() -> bool:
            lines = [line["event"] for line in self.events() if line.get("event") == "zygote.warm" or line.get("event", "").startswith("pool.")
                     or str(line.get("message", "")).endswith("from the pool")]  # fmt: skip
            return bool(lines) and lines[-1] == "pool.full"

        wait_until(is_full, seconds, "the pool is full")

    # ---- inside ----

    def _config_file(self) -> Path:
        if not isinstance(self.config, dict):
            return Path(self.config)
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.state / "test-config.json"
        path.write_text(json.dumps(self.config))
        return path

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.env}

    def _read_stdout(self, stream) -> None:
        with stream:
            for line in iter(stream.readline, b""):
                match = re.fullmatch(rb"ready (http://\S+)\n", line)
                if match and not self._ready.is_set():
                    self.url = match[1].decode()
                    self._ready.set()

    def _finish(self) -> None:
        """After the end: takes the log in and forgets the process."""
        if self._reader:
            self._reader.join(5)
        if self._log_path:
            self._logs.append(self._log_path.read_text(errors="replace"))
            self._log_path.unlink(missing_ok=True)
        self._popen = self._reader = self._log_path = None

    def _end_by_force(self) -> None:
        """Only what this object started, by pid and start time."""
        family = processes_below(self._popen.pid)
        self._popen.kill()
        self._popen.wait()
        for process in family:
            if process.is_alive():
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self._finish()

    def _give_up(self, text: str) -> DaemonError:
        self._end_by_force()
        return DaemonError(text + self._tail())

    def _tail(self, lines: int = 40) -> str:
        last = self.log.splitlines()[-lines:]
        return "\n--- the end of its log ---\n" + "\n".join(last) if last else "\n(it logged nothing)"


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def main(arguments: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(description="Run a command against a daemon of its own.")
    parser.add_argument("--state", help="the daemon's state folder; a temporary one if not given")
    parser.add_argument("--config", help="a configuration file for the daemon")
    parser.add_argument("--log", help="append the daemon's log to this file")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    daemon = Daemon(options.state, config=options.config)
    try:
        with daemon:
            code = subprocess.call(options.command, env={**os.environ, **daemon.variables})
    except DaemonError as error:
        print(f"daemon: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if options.log:
            with open(options.log, "a") as log:
                log.write(daemon.log)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
