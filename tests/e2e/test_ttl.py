"""Idle time: what refreshes it, what does not, and what a sandbox says when it ends."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone

import pytest
from boxes import boxes  # noqa: F401
from daemon import wait_until


def is_gone(box) -> bool:
    return box.send("GET").status_code == 404


def expires_in(answer: dict) -> float:
    moment = datetime.fromisoformat(answer["expires_at"].replace("Z", "+00:00"))
    return (moment - datetime.now(timezone.utc)).total_seconds()


def test_an_idle_sandbox_ends_at_its_time_and_leaves_nothing(boxes, daemon):
    import census

    box = boxes(ttl_seconds=1)
    box.shell("(setsid sleep 100 &)")
    start = time.monotonic()
    wait_until(lambda: is_gone(box), 10, "it is reaped")
    assert 0.5 < time.monotonic() - start < 4
    assert box.send("POST", "/exec", json={"cmd": "true"}).status_code == 404
    wait_until(lambda: census.control_groups(daemon) >= 0 and not [p for p in daemon.processes() if p.name == "sleep"], 5, "its processes are gone")


def test_use_keeps_it_alive(boxes):
    box = boxes(ttl_seconds=2)
    kernel = box.kernel()
    end = time.monotonic() + 4
    while time.monotonic() < end:
        kernel.said("1")
        time.sleep(0.3)
    assert not is_gone(box)
    wait_until(lambda: is_gone(box), 10, "it is reaped once nobody uses it")


@pytest.mark.parametrize("look", ["", "/lifecycle", "/repl/sessions", "/fs/stat?path=/tmp", "/fs/dir?path=/tmp", "/ports", "/metrics"])
def test_looking_does_not_keep_it_alive(boxes, look):
    box = boxes(ttl_seconds=2)
    start = time.monotonic()
    while box.send("GET", look).status_code == 200:
        assert time.monotonic() - start < 8, "it lives for ever"
        time.sleep(0.2)
    assert time.monotonic() - start < 6


def test_a_look_inside_leaves_no_trace(boxes):
    box = boxes()
    for look in ("/fs/stat?path=/tmp", "/fs/dir?path=/tmp", "/ports", "/metrics", "/fs/stat?path=/nowhere", "/metrics"):
        assert box.send("GET", look).status_code == (404 if "nowhere" in look else 200), look


def test_a_running_cell_is_never_idle(boxes):
    box = boxes(ttl_seconds=1)
    answer = box.kernel().run("import time; time.sleep(4); print('whole')")
    assert answer["stdout"] == "whole\n"
    assert 0 < expires_in(answer) <= 2


def test_a_running_command_and_stream_are_never_idle(boxes):
    box = boxes(ttl_seconds=1)
    assert box.command("sleep 3; echo whole")["stdout"] == "whole\n"
    box = boxes(ttl_seconds=1)
    answer = box.send("POST", "/exec/stream", json={"cmd": "sleep 3; echo whole"})
    assert '"whole\\n"' in answer.text


def test_every_answer_says_when_it_ends(boxes):
    box = boxes(ttl_seconds=100)
    assert 95 < expires_in(box.about) <= 101
    assert 95 < expires_in(box.kernel().run("1")) <= 101
    assert 95 < expires_in(box.command("true")) <= 101
    assert 95 < expires_in(box.request("GET", "/lifecycle")) <= 101


def test_the_time_can_be_changed(boxes):
    box = boxes(ttl_seconds=600)
    changed = box.request("PATCH", "/lifecycle", json={"ttl_seconds": 1})
    assert changed["ttl_seconds"] == 1
    wait_until(lambda: is_gone(box), 10, "it is reaped")


def test_a_persistent_one_is_not_reaped(boxes):
    box = boxes(ttl_seconds=1, persistent=True)
    other = boxes(ttl_seconds=1)
    wait_until(lambda: is_gone(other), 10, "the other one is reaped")
    assert not is_gone(box)
    box.request("PATCH", "/lifecycle", json={"persistent": False})
    wait_until(lambda: is_gone(box), 10, "now it is")


def test_the_default_is_five_minutes(api):
    made = api.post("/sandboxes", json={}).json()
    assert 290 < expires_in(made) <= 301
    assert api.get(f"/sandboxes/{made['id']}/lifecycle").json()["ttl_seconds"] == 300
    api.delete(f"/sandboxes/{made['id']}")


def test_many_end_at_once(boxes):
    made = [boxes(ttl_seconds=1) for _ in range(10)]
    wait_until(lambda: all(is_gone(box) for box in made), 15, "all are reaped")


def test_it_is_not_reaped_between_two_waiting_cells(boxes):
    box = boxes(ttl_seconds=1)
    kernel = box.kernel()
    answers: list = []
    crowd = [threading.Thread(target=lambda: answers.append(kernel.send("import time; time.sleep(1.2)").status_code)) for _ in range(3)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert answers == [200, 200, 200]
