"""The host's view of sandboxes: the processes of one, and all that /proc says about them. Needs root."""

from __future__ import annotations

import os
import re
from pathlib import Path


def process_ids(sandbox: str) -> list[int]:
    """Host pids of all processes in the control groups of a sandbox."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if f"/box/{sandbox}" in Path(f"/proc/{entry}/cgroup").read_text():
                    found.append(int(entry))
            except OSError:
                continue
    return found


def names(sandbox: str) -> set[str]:
    """Of its processes, each cut to 15 characters by the kernel."""
    found = set()
    for pid in process_ids(sandbox):
        try:
            found.add(Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            continue
    return found


def status(pid: int, thread: int | None = None) -> dict[str, str]:
    path = f"/proc/{pid}/status" if thread is None else f"/proc/{pid}/task/{thread}/status"
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return {key: value.strip() for key, _, value in lines}


def inner_pid(pid: int) -> int:
    """The pid in the innermost namespace."""
    return int(status(pid)["NSpid"].split()[-1])


def process_of(sandbox: str, inner: int) -> int:
    for pid in process_ids(sandbox):
        try:
            if inner_pid(pid) == inner:
                return pid
        except OSError:
            continue
    raise AssertionError(f"the sandbox has no process {inner}")


def threads(pid: int) -> list[int]:
    return [int(t) for t in os.listdir(f"/proc/{pid}/task")]


def namespaces(pid: int) -> dict[str, str]:
    folder = f"/proc/{pid}/ns"
    return {name: os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}


def descriptors(pid: int) -> dict[int, str]:
    """Number to kind: inode numbers are left out."""
    found = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(number)] = re.sub(r":?\[\d+\]$", "", os.readlink(f"/proc/{pid}/fd/{number}"))
        except OSError:
            continue
    return found


def limits(pid: int) -> dict[str, tuple[str, str]]:
    found = {}
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]:
        soft, hard = line[26:].split()[:2]
        found[line[:26].strip()] = (soft, hard)
    return found


def memory_contains(pid: int, needle: bytes) -> bool:
    """Is the text anywhere in the process's own memory?"""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, permissions = line.split()[:2]
            if permissions[0] != "r" or line.rstrip().endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            start, end = (int(x, 16) for x in span.split("-"))
            try:
                memory.seek(start)
                if needle in memory.read(end - start):
                    return True
            except (OSError, ValueError, OverflowError):
                continue
    return False
