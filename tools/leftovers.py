"""What a run of the tests may leave behind on the host, looked at before and after.

Processes need no list: whoever runs the tests makes itself the one to whom orphans are handed
(become_reaper), so whatever still lives below it afterwards was left. The rest is compared by name.
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

from daemon import processes_below  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
PLACES = ("/tmp", "/var/tmp", "/run", "/dev/shm")


def become_reaper() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def look() -> dict[str, set[str]]:
    """Everything on the host that bears our name, by kind."""
    return {"mount": _mounts(), "control group": _groups(), "net namespace": _net_namespaces(), "loop device": _loops(), "file": _files()}


def compare(before: dict[str, set[str]], after: dict[str, set[str]]) -> list[str]:
    used = _used_by_others()
    return [
        f"{kind} {name}"
        for kind in after
        for name in sorted(after[kind] - before[kind])
        if not _belongs_to_another(kind, name, used)
    ]  # fmt: skip


def processes_left(seconds: float) -> list[str]:
    """Descendants of this process that do not end within the time; they are ended then. Zombies that were
    handed to us are buried."""
    end = time.monotonic() + seconds
    while True:
        _bury()
        left = [p for p in processes_below(os.getpid())[1:] if p.state not in "ZX"]
        if not left or time.monotonic() > end:
            break
        time.sleep(0.1)
    told = [f"process {p.pid} {p.name}: {_command(p.pid)[:100]}" for p in left]
    for process in left:
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
    return told


def _bury() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _used_by_others() -> str:
    """Command lines and open files of all processes that are not below this one."""
    ours = {process.pid for process in processes_below(os.getpid())}
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
    its files are open or named on a command line."""
    if kind == "control group":
        match = re.search(r"sandglass-(\d+)", name)
        return bool(match and Path("/proc", match[1]).exists())
    return kind == "file" and name in used


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
