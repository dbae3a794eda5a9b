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
