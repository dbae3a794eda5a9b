"""The api is killed in mid-cell, again and again, under load: no kernel loses its state, each interrupted request fails
clearly or was answered, and nothing runs twice.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import requests
from boxes import Kernel, boxes  # noqa: F401
from daemon import wait_until
from test_pool import outer

KILLS = 20
SESSIONS = 6


class Driver:
    """Runs numbered cells in one kernel. Each appends its number to a file inside, then takes a moment."""

    def __init__(self, kernel: Kernel, name: int) -> None:
        self.kernel, self.name = kernel, name
        self.answered: set[int] = set()
        self.failed: dict[int, str] = {}
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._drive)

    def _drive(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            self._cell(number)

    def _cell(self, number: int) -> None:
        code = f"with open('/workspace/ran', 'a') as file:\n    _ = file.write('{number}\\n')\ncount += 1\nimport time; time.sleep(0.02)\nprint('cell {number}')"
        try:
            answer = self.kernel.send(code, timeout=30)
        except requests.RequestException as problem:
            self.failed[number] = type(problem).__name__
            time.sleep(0.02)
            return
        if answer.status_code == 200 and answer.json()["exit"] == 0:
            if answer.json()["stdout"] != f"cell {number}\n":
                self.wrong.append(f"{number}: {answer.text}")
            self.answered.add(number)
        else:
            self.failed[number] = answer.text
            try:
                is_clear = bool(answer.json()["error"])
            except (ValueError, KeyError):
                is_clear = False
            if not is_clear:
                self.wrong.append(f"{number}: HTTP {answer.status_code} {answer.text}")

    def stop(self) -> None:
        self._stop.set()
        self.thread.join()


def kill_api(daemon) -> None:
    old = daemon.process("api")
    os.kill(old.pid, signal.SIGKILL)
    wait_until(lambda: not old.is_alive(), 5, "the api is dead")

    def serves() -> bool:
        try:
            return requests.get(daemon.url + "/healthz", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    wait_until(serves, 10, "a new api serves")


@pytest.mark.slow
@pytest.mark.limit(240)
def test_kernels_survive_twenty_deaths_of_the_api_and_nothing_runs_twice(own_daemon, boxes):
    daemon = own_daemon()
    drivers = []
    for name in range(SESSIONS):
        kernel = boxes(daemon=daemon).kernel()
        kernel.said(f"name = 'kernel {name}'; count = 0; data = list(range(1000))")
        drivers.append(Driver(kernel, name))
    warden = daemon.process("warden")
    for driver in drivers:
        driver.thread.start()
    for _ in range(KILLS):
        done = sum(len(driver.answered) for driver in drivers)
        wait_until(lambda: sum(len(driver.answered) for driver in drivers) >= done + 5, 20, "cells are being answered")
        kill_api(daemon)
    for driver in drivers:
        driver.stop()
    assert daemon.process("warden").pid == warden.pid, "the warden went on through all of it"
    for driver in drivers:
        assert driver.wrong == []
        assert driver.answered
        # The state is all there, and each cell ran at most once; an answered one exactly once.
        assert driver.kernel.said("print(name, len(data))") == f"kernel {driver.name} 1000\n"
        ran = [int(line) for line in driver.kernel.box.shell("cat /workspace/ran").split()]
        assert len(ran) == len(set(ran)), "a cell ran twice"
        assert driver.answered <= set(ran)
        assert int(driver.kernel.said("print(count)")) <= len(ran)
    assert any(driver.failed for driver in drivers), "no request was interrupted: the test did not test"


def test_a_cell_that_was_under_way_is_interrupted_and_its_kernel_usable(own_daemon, boxes):
    daemon = own_daemon()
    box = boxes(daemon=daemon)
    kernel = box.kernel()
    kernel.said("kept = 41")
    outcome: list = []

    def run() -> None:
        try:
            outcome.append(kernel.send("kept += 1\nimport time\nopen('/workspace/started', 'w').close()\ntime.sleep(300)", seconds=200))
        except requests.RequestException as problem:
            outcome.append(problem)

    worker = threading.Thread(target=run)
    worker.start()
    wait_until(lambda: box.send("GET", "/fs/stat", params={"path": "/workspace/started"}).status_code == 200, 10, "the cell runs")
    kill_api(daemon)
    worker.join(10)
    assert outcome and isinstance(outcome[0], requests.RequestException), "the connection broke: a clear failure"
    assert kernel.said("print(kept)") == "42\n"


def test_a_command_that_was_under_way_is_ended(own_daemon, boxes):
    daemon = own_daemon()
    box = boxes(daemon=daemon)

    def run() -> None:
        try:
            box.send("POST", "/exec", json={"cmd": "touch /workspace/started; sleep 300", "timeout_seconds": 200})
        except requests.RequestException:
            pass

    worker = threading.Thread(target=run)
    worker.start()
    wait_until(lambda: box.send("GET", "/fs/stat", params={"path": "/workspace/started"}).status_code == 200, 10, "the command runs")
    kill_api(daemon)
    worker.join(10)
    wait_until(lambda: "sleep" not in box.shell("ps -eo args; true"), 10, "the command has ended")


def test_what_was_stored_is_there_after_a_clean_restart(own_daemon, boxes):
    """M1: sandboxes end with the daemon; keys stay, and what is gone is said to be gone."""
    daemon = own_daemon()
    box, key = boxes(daemon=daemon), daemon.key
    daemon.restart()
    assert daemon.key == key
    assert box.send("GET").status_code == 404
    assert requests.get(daemon.url + "/v1/sandboxes", headers={"Authorization": f"Bearer {key}"}, timeout=20).json() == []


def test_output_of_an_interrupted_run_does_not_appear_in_the_next(own_daemon, boxes):
    daemon = own_daemon()
    box = boxes(daemon=daemon)
    kernel = box.kernel()

    def run() -> None:
        try:
            kernel.send("import time\nopen('/workspace/started', 'w').close()\nwhile True:\n    print('old')\n    time.sleep(0.001)", seconds=100)
        except requests.RequestException:
            pass

    worker = threading.Thread(target=run)
    worker.start()
    wait_until(lambda: box.send("GET", "/fs/stat", params={"path": "/workspace/started"}).status_code == 200, 10, "the cell runs")
    kill_api(daemon)
    worker.join(10)
    assert kernel.said("print('new')") == "new\n"


# ---------------------------------------------------------------- kernels that die between cells


@pytest.mark.parametrize("language", ["python", "bash"])
def test_a_cell_that_its_dead_kernel_had_not_read_runs_in_the_next_one(daemon, boxes, language):  # noqa: F811
    box = boxes()
    kernel = box.kernel(language)
    inside = int(kernel.said("import os; print(os.getpid())" if language == "python" else "echo $PPID"))
    pid, answers = outer(box, inside), []
    os.kill(pid, signal.SIGSTOP)  # so it does not read what is sent now
    worker = threading.Thread(target=lambda: answers.append(kernel.run("print('ran')" if language == "python" else "echo ran")))
    worker.start()
    wait_until(lambda: box.request("GET", "/runs")["runs"][-1]["state"] == "running", 10, "the cell is on its way")
    os.kill(pid, signal.SIGKILL)
    worker.join(30)
    (answer,) = answers
    assert answer["exit"] == 0 and answer["stdout"] == "ran\n", answer
    assert answer["kernel"] == {"state_kept": False, "restarted": True, "reason": "kernel died: signal 9 (SIGKILL)"}
    told = [e["type"] for e in box.request("GET", "/events")["events"] if e.get("payload", {}).get("run_id") == answer["run_id"]]
    assert told == ["run.started", "run.ended"]


def test_a_kernel_killed_between_cells_costs_no_cell(daemon, boxes):  # noqa: F811
    """However soon after it the next cell comes."""
    box = boxes()
    kernel = box.kernel()
    for number in range(12):
        inside = kernel.said("import os; print(os.getpid())").strip()
        box.shell(f"kill -9 {inside}")
        answer = kernel.run(f"print({number})")
        assert answer["exit"] == 0 and answer["stdout"] == f"{number}\n", answer
        assert answer["kernel"]["restarted"] and "signal 9" in answer["kernel"]["reason"], answer
