"""Pause and resume: what stands still, what is refused, whose clocks wait, and that nothing frozen is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import requests
from boxes import Box, boxes  # noqa: F401
from daemon import PATIENCE, wait_until

TICKER = "import threading, time\nn = 0\ndef tick():\n    global n\n    while True:\n        n += 1\n        time.sleep(0.01)\nthreading.Thread(target=tick, daemon=True).start()"


def pause(box: Box) -> None:
    box.request("POST", "/pause", want=204)


def resume(box: Box) -> None:
    box.request("POST", "/resume", want=204)


def later(call):
    """Runs the call in a thread; returns a function that waits for its answer."""
    got: list = []
    thread = threading.Thread(target=lambda: got.append(call()), daemon=True)
    thread.start()

    def wait(seconds: float = 30):
        thread.join(seconds * PATIENCE)
        assert got, "the call was not answered"
        return got[0]

    wait.is_answered = lambda: bool(got)
    return wait


def begun(box: Box, mark: str) -> None:
    """Waits for a file that the code under way makes when it has begun."""
    wait_until(lambda: box.read(mark).status_code == 200, 20, f"{mark} is there")


def test_work_is_refused_while_paused_and_says_how_to_go_on(boxes):
    box = boxes()
    kernel = box.kernel()
    box.write("/workspace/f", "f")
    pause(box)
    for answer in (
        kernel.send("1"),
        box.send("POST", "/exec", json={"cmd": "true"}),
        box.send("POST", "/exec/stream", json={"cmd": "true"}),
        box.send("POST", "/repl/sessions", json={}),
        box.read("/workspace/f"),
        box.send("PUT", "/fs", params={"path": "/workspace/g"}, data=b"x" * 100000),
        box.send("GET", "/fs/dir"),
        box.send("GET", "/fs/stat", params={"path": "/workspace/f"}),
        box.send("DELETE", "/fs", params={"path": "/workspace/f"}),
    ):
        body = answer.json()
        assert answer.status_code == 409 and body["code"] == "sandbox.not_running", body
        assert "paused" in body["error"] and f"{box.id}/resume" in body["hint"]
    assert box.request("GET")["status"] == "paused"
    resume(box)
    assert box.request("GET")["status"] == "running"
    assert box.read("/workspace/f").content == b"f" and box.read("/workspace/g").status_code == 404


def test_pause_and_resume_may_be_repeated_and_take_no_fields(boxes):
    box = boxes()
    resume(box)
    pause(box)
    pause(box)
    assert box.send("POST", "/pause", json={"hard": True}).status_code == 400
    resume(box)
    resume(box)
    assert box.shell("echo on") == "on\n"


def test_looking_at_a_paused_sandbox_works(boxes):
    box = boxes()
    box.kernel()
    pause(box)
    assert box.request("GET")["status"] == "paused"
    assert len(box.request("GET", "/repl/sessions")) == 1
    assert box.request("GET", "/metrics")["host_rss_bytes"] > 0
    assert box.send("GET", "/logs").status_code == 200
    assert box.request("GET", "/events")["events"][-1]["type"] == "sandbox.paused"
    assert box.request("GET", "/lifecycle")["ttl_seconds"] == 600
    assert box.request("PATCH", "/lifecycle", json={"ttl_seconds": 500})["ttl_seconds"] == 500


def test_the_clock_of_a_cell_stands_still_and_its_answer_comes_after_resume(boxes):
    box = boxes()
    kernel = box.kernel()
    code = "import time\nopen('/workspace/begun', 'w').close()\nfor _ in range(20): time.sleep(0.05)\nprint('whole')"
    answer = later(lambda: kernel.run(code, seconds=2.5))
    begun(box, "/workspace/begun")
    pause(box)
    time.sleep(3 * PATIENCE)  # longer than the limit; nothing to be waited for may happen in it
    assert not answer.is_answered()
    resume(box)
    body = answer()
    assert body["stdout"] == "whole\n" and not body["timeout"] and body["kernel"]["state_kept"]
    assert body["duration_ms"] < 2500 * PATIENCE


def test_a_cell_that_runs_on_after_the_pause_still_meets_its_limit(boxes):
    box = boxes()
    kernel = box.kernel()
    kernel.run("x = 7")
    answer = later(lambda: kernel.send("import time\nopen('/workspace/begun', 'w').close()\nwhile True: time.sleep(0.01)", seconds=1.5))
    begun(box, "/workspace/begun")
    pause(box)
    resume(box)
    got = answer()
    assert got.status_code == 504 and got.json()["kernel"]["state_kept"]
    assert kernel.value("print(x)") == 7


def test_the_clock_of_a_command_stands_still(boxes):
    box = boxes()
    text = "touch /workspace/begun; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; echo whole"
    answer = later(lambda: box.command(text, seconds=3))
    begun(box, "/workspace/begun")
    pause(box)
    time.sleep(3.5 * PATIENCE)
    assert not answer.is_answered()
    resume(box)
    body = answer()
    assert body["stdout"] == "whole\n" and body["exit_code"] == 0 and body["duration_ms"] < 3000 * PATIENCE


def test_a_command_that_runs_on_after_the_pause_still_meets_its_limit(boxes):
    box = boxes()
    answer = later(lambda: box.send("POST", "/exec", json={"cmd": "touch /workspace/begun; sleep 600", "timeout_seconds": 1.5}))
    begun(box, "/workspace/begun")
    pause(box)
    resume(box)
    assert answer().status_code == 504
    assert box.command("pgrep -x sleep")["exit_code"] == 1


def test_cells_that_wait_in_line_begin_after_resume(boxes):
    box = boxes()
    kernel = box.kernel()
    code = "import os, time\nopen('/workspace/begun', 'w').close()\nwhile not os.path.exists('/workspace/go'):\n    time.sleep(0.01)\n1"
    first = later(lambda: kernel.run(code))
    begun(box, "/workspace/begun")
    second = later(lambda: kernel.run("2"))
    wait_until(lambda: [run["state"] for run in box.request("GET", "/runs")["runs"]] == ["running", "queued"], 20, "one runs and one waits")
    pause(box)
    resume(box)
    box.write("/workspace/go", "")
    assert first()["results"][0]["text/plain"] == "1"
    assert second()["results"][0]["text/plain"] == "2"


def test_background_processes_stand_still(boxes):
    box = boxes()
    box.shell("nohup sh -c 'while :; do date +%s.%N >> /workspace/ticks; sleep 0.02; done' >/dev/null 2>&1 &")

    def ticks() -> list[float]:
        return [float(line) for line in box.read("/workspace/ticks").text.split("\n")[:-1]]

    wait_until(lambda: len(ticks()) > 4, 10, "it ticks")
    pause(box)
    paused = time.time()
    time.sleep(1)
    resumed = time.time()
    resume(box)
    wait_until(lambda: ticks()[-1] > resumed, 10, "it ticks again")
    assert not [t for t in ticks() if paused < t < resumed]


def test_a_client_that_hangs_up_during_the_pause_costs_its_cell_and_not_the_kernel(boxes):
    box = boxes()
    kernel = box.kernel()
    kernel.run("x = 5")
    with pytest.raises(requests.exceptions.RequestException):
        answer = later(lambda: begun(box, "/workspace/begun") or pause(box))
        kernel.send("import time\nopen('/workspace/begun', 'w').close()\ntime.sleep(60)", timeout=2.5 * PATIENCE)
    answer()
    assert box.request("GET")["status"] == "paused"
    resume(box)
    assert kernel.value("print(x)") == 5


def test_a_context_closed_while_paused_is_gone_after_resume(boxes):
    box = boxes()
    kernel = box.kernel()
    pid = kernel.value("import os; print(os.getpid())")
    pause(box)
    assert box.send("DELETE", f"/repl/sessions/{kernel.id}").status_code == 204
    assert box.request("GET", "/repl/sessions") == []
    resume(box)
    wait_until(lambda: box.command(f"kill -0 {pid}")["exit_code"] != 0, 10, "its process is gone")
    assert box.kernel().value("print(1)") == 1


def test_a_paused_sandbox_is_deleted_with_all_its_processes(boxes, daemon):
    box = boxes()
    box.kernel().run(TICKER)
    box.shell("nohup sleep 600 >/dev/null 2>&1 &")
    pause(box)
    answer = box.send("DELETE")
    assert answer.status_code == 204
    assert box.send("GET").status_code == 404
    assert not [p for p in daemon.processes() if f"/box/{box.id}" in cgroups_of(p.pid)]


def cgroups_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def test_a_paused_sandbox_is_reaped_when_it_is_idle_even_with_a_cell_under_way(boxes):
    box = boxes(ttl_seconds=2)
    kernel = box.kernel()
    answer = later(lambda: kernel.send("import time\nopen('/workspace/begun', 'w').close()\ntime.sleep(600)", seconds=700))
    begun(box, "/workspace/begun")
    pause(box)
    wait_until(lambda: box.send("GET").status_code == 404, 20, "it is reaped")
    assert "ended" in answer().json()["error"]


def test_resume_begins_the_idle_time_anew(boxes):
    box = boxes(ttl_seconds=30)
    pause(box)
    wait_until(lambda: box.request("GET", "/lifecycle")["idle_seconds"] >= 2, 10, "it has aged")
    resume(box)
    assert box.request("GET", "/lifecycle")["idle_seconds"] < 2


# ---- the daemon's own ends ----


def paused_box(daemon) -> Box:
    box = Box(daemon)
    box.kernel().run(TICKER)
    box.shell("nohup sleep 600 >/dev/null 2>&1 &")
    pause(box)
    return box


@pytest.mark.slow
def test_a_stop_ends_paused_sandboxes_at_once(own_daemon):
    daemon = own_daemon()
    paused_box(daemon)
    started = time.monotonic()
    daemon.stop()
    assert time.monotonic() - started < 5 * PATIENCE


@pytest.mark.slow
def test_a_new_api_finds_a_paused_sandbox_paused(own_daemon):
    daemon = own_daemon()
    box = Box(daemon)
    kernel = box.kernel()
    kernel.run("x = 11")
    running = later(lambda: kernel_send_quietly(kernel, "import time\nopen('/workspace/begun', 'w').close()\ntime.sleep(600)"))
    begun(box, "/workspace/begun")
    pause(box)
    old = daemon.process("api")
    os.kill(old.pid, signal.SIGKILL)
    wait_until(lambda: not old.is_alive(), 10, "the old api is gone")
    running()
    assert box.request("GET")["status"] == "paused"
    assert kernel.send("x").status_code == 409
    resume(box)
    assert kernel.value("print(x)") == 11


def kernel_send_quietly(kernel, code: str):
    try:
        return kernel.send(code, seconds=700)
    except requests.exceptions.RequestException as gone:
        return gone


def serving_box(daemon) -> Box:
    def attempt():
        try:
            return Box(daemon)
        except AssertionError:
            return None

    return wait_until(attempt, 30, "a new sandbox is made")


@pytest.mark.slow
def test_a_warden_that_is_killed_leaves_nothing_frozen(own_daemon):
    daemon = own_daemon()
    box = paused_box(daemon)
    warden = daemon.process("warden")
    os.kill(warden.pid, signal.SIGKILL)
    wait_until(lambda: not warden.is_alive(), 10, "the warden is gone, with all below")
    wait_until(lambda: box.send("GET").status_code == 404, 20, "its sandbox has ended")
    assert serving_box(daemon).shell("echo new") == "new\n"


@pytest.mark.slow
def test_a_keeper_that_is_killed_leaves_nothing_frozen(own_daemon):
    daemon = own_daemon()
    paused_box(daemon)
    pid = daemon.pid
    daemon.kill()
    groups = [p for p in Path("/sys/fs/cgroup").glob(f"**/sandglass-{pid}")]
    wait_until(lambda: not any(p.exists() for p in groups), 10, "its control groups are gone")
