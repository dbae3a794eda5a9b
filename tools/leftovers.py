"""What a run of the tests may leave behind on the host, looked at before and after.

Processes need no list: orphans of the tests are handed to a process that does nothing but bury them
(run_below_reaper), so whatever still lives below it afterwards was left. The rest is compared by name.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/e2e"))

from daemon import Process, processes_below  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
PLACES = ("/tmp", "/var/tmp", "/run", "/dev/shm")


def run_below_reaper() -> None:
    """Goes on in a child; the caller's process becomes the reaper and ends as the child does.

    Burying at once matters: a dead process still counts for its user's limits.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child as well
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def look() -> dict[str, set[str]]:
    """Everything on the host that bears our name, by kind."""
    return {"mount": _mounts(), "control group": _groups(), "net namespace": _net_namespaces(), "loop device": _loops(), "file": _files()}


def since(before: dict[str, set[str]], seconds: float) -> list[str]:
    """What is new and does not go within the time: the machine may have other users, whose things come and go."""
    end = time.monotonic() + seconds
    while True:
        after, used = look(), _used_by_others()
        left = [
            f"{kind} {name}"
            for kind in after
            for name in sorted(after[kind] - before[kind])
            if not _belongs_to_another(kind, name, used)
        ]  # fmt: skip
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.5)


def processes_left(seconds: float) -> list[str]:
    """What the reaper has below it, but for the caller, and does not end within the time; it is ended then."""
    end = time.monotonic() + seconds
    while True:
        left = [p for p in _below_reaper() if p.pid != os.getpid() and p.state not in "ZX"]
        if not left or time.monotonic() > end:
            break
        time.sleep(0.1)
    told = [f"process {p.pid} {p.name}: {_command(p.pid)[:100]}" for p in left]
    for process in left:
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
    return told


def _below_reaper() -> list[Process]:
    return processes_below(os.getppid())[1:]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _used_by_others() -> str:
    """Command lines and open files of all processes that are not below this one."""
    ours = {process.pid for process in _below_reaper()}
    texts = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in ours:
            continue
        texts.append(_command(int(entry)))
        try:
            texts += [os.readlink(one.path) for one in os.scandir(f"/proc/{entry}/fd")]
        except OSError:
            continue
    return "\n".join(texts)


def _belongs_to_another(kind: str, name: str, used: str) -> bool:
    """Someone else's daemon on the same machine: its group is named after a living process that is none of ours,
    its files are open, or named on a command line, or by tests like ours, whose own lie in a folder of the run."""
    if kind == "control group":
        match = re.search(r"sandglass-(\d+)", name)
        return bool(match and Path("/proc", match[1]).exists())
    return kind == "file" and (name in used or bool(re.fullmatch(r"/tmp/sandglass-\w{8}(\.log)?", name)))


def _mounts() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4] for line in lines if "sandglass" in line}


def _groups() -> set[str]:
    found = set()
    for folder, folders, _ in os.walk("/sys/fs/cgroup"):
        ours = [name for name in folders if name.startswith("sandglass-")]
        found |= {os.path.join(folder, name) for name in ours}
        folders[:] = [name for name in folders if name not in ours]
    return found


def _net_namespaces() -> set[str]:
    """Those kept alive by a mount; the others live and die with processes."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[3] for line in lines if " - nsfs " in line}


def _loops() -> set[str]:
    found = set()
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            name = path.read_text().strip()
        except OSError:
            continue
        if "sandglass" in name:
            found.add(f"{path.parts[3]} {name}")
    return found


def _files() -> set[str]:
    return {entry.path for place in PLACES if os.path.isdir(place) for entry in os.scandir(place) if "sandglass" in entry.name}
