"""A thousand sandboxes made, used and killed, some with a kernel killed under them: everything is as at the start.

CHURN=N sets another number of cycles.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import census
import pytest
from boxes import Box, boxes  # noqa: F401
from daemon import wait_until

CYCLES = int(os.environ.get("CHURN", "1000"))
WORKERS = 4
POOL = 4


def kernel_pids(sandbox: str) -> list[int]:
    """Host pids of a sandbox's kernels: its processes that came from no init."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if f"/box/{sandbox}" in Path(f"/proc/{name}/cgroup").read_text() and Path(f"/proc/{name}/comm").read_text().startswith("python"):
                found.append(int(name))
        except OSError:
            continue
    return found


def cycle(daemon, chance: random.Random) -> None:
    box = Box(daemon)
    try:
        kernel = box.kernel()
        assert kernel.said("print(6 * 7)") == "42\n"
        what = chance.randrange(10)
        if what == 0:  # a kernel dies between cells
            for pid in kernel_pids(box.id):
                os.kill(pid, signal.SIGKILL)
            answer = kernel.run("print('again')")
            if answer["exit"] != 0:  # it was sent before the death was seen
                assert answer["kernel"]["restarted"] is True, answer
                answer = kernel.run("print('again')")
            assert answer["stdout"] == "again\n", answer
        elif what == 1:  # a kernel dies in a cell
            assert kernel.run("import os; os.kill(os.getpid(), 9)")["exit"] != 0
        elif what == 2:
            assert box.shell("(setsid sleep 100 &); echo done") == "done\n"
        elif what == 3:
            box.write("/tmp/file", b"x" * 100000)
            kernel.close()
        elif what == 4:  # killed while a cell runs
            worker = threading.Thread(target=lambda: kernel.send("import time; time.sleep(30)"))
            worker.start()
            box.kill()
            worker.join()
    finally:
        box.kill()


def settle(daemon, wanted: dict) -> dict:
    """The first count that equals the wanted one, or the last seen."""
    last: dict = {}

    def same() -> bool:
        nonlocal last
        last = census.count(daemon)
        return last == wanted

    try:
        wait_until(same, 15, "everything is as at the start")
    except AssertionError:
        pass
    return last


@pytest.mark.slow
@pytest.mark.limit(1200)
def test_after_a_thousand_cycles_everything_is_as_at_the_start(own_daemon):
    daemon = own_daemon(config={"pool": POOL, "templates": ["code-interpreter"]})
    chance = random.Random(7)
    for _ in range(3):  # what is made once, on first use, is made now
        cycle(daemon, chance)
    daemon.wait_for_pool()
    wait_until(lambda: len([p for p in daemon.processes() if p.role == "init"]) == POOL, 15, "the first sandboxes are gone")
    before = census.count(daemon)
    memory = {role: census.memory_kb(daemon.process(role).pid) for role in ("keeper", "warden", "api")}
    problems: list[str] = []
    left = [CYCLES]
    lock = threading.Lock()

    def work(seed: int) -> None:
        own = random.Random(seed)
        while True:
            with lock:
                if left[0] <= 0 or problems:
                    return
                left[0] -= 1
            try:
                cycle(daemon, own)
            except Exception as problem:
                problems.append(repr(problem))

    crowd = [threading.Thread(target=work, args=(seed,)) for seed in range(WORKERS)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert problems == []
    after = settle(daemon, before)
    different = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    assert different == {}
    for role, old in memory.items():
        assert census.memory_kb(daemon.process(role).pid) - old < 16 << 10, f"{role} grew from {old} kB"
