"""Counting what a daemon holds on the host, to see that nothing is left behind."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path


def control_groups(daemon) -> int:
    """Folders of the daemon's own control groups, over all hierarchies."""
    name, count = f"sandglass-{daemon.pid}", 0
    for folder, _, _ in os.walk("/sys/fs/cgroup"):  # passes over folders that go meanwhile, as glob does not
        count += name in folder.split("/")
    return count


def descriptors(pid: int) -> Counter:
    """By kind; inode numbers are left out."""
    kinds: Counter = Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            kinds[os.readlink(f"/proc/{pid}/fd/{name}").split("[")[0].rstrip(":")] += 1
        except OSError:
            continue
    return kinds


def mounts(pid: int) -> int:
    return len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())


def host_mounts() -> list[str]:
    """What of ours is mounted where everybody sees it: nothing should be."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "sandglass" in line]


def network_namespaces(daemon) -> int:
    found = set()
    for process in daemon.processes():
        try:
            found.add(os.readlink(f"/proc/{process.pid}/ns/net"))
        except OSError:
            continue
    return len(found)


def files(folder: Path) -> set[str]:
    """Names below a folder; what a database keeps beside itself comes and goes."""
    return {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if not p.name.endswith(("-wal", "-shm"))}


def count(daemon) -> dict:
    """Everything of a daemon that must be as before once its sandboxes are gone."""
    roles = {role: daemon.process(role) for role in ("keeper", "warden", "api")}
    return {
        "processes": sorted(p.role for p in daemon.processes()),
        "zombies": sum(1 for p in daemon.processes() if p.state == "Z"),
        "pids": {role: p.pid for role, p in roles.items()},
        "descriptors": {role: dict(descriptors(p.pid)) for role, p in roles.items()},
        "mounts": {role: mounts(p.pid) for role, p in roles.items()} | {"host": len(host_mounts())},
        "control groups": control_groups(daemon),
        "network namespaces": network_namespaces(daemon),
        "files": files(daemon.state),
    }


def memory_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0
