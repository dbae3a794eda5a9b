"""A killed command's end waits for the warden's counters (command_limits.c). What happens meanwhile must be the end of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from boxes import boxes  # noqa: F401
from daemon import wait_until
from ws import WebSocket


@pytest.fixture
def daemon(own_daemon):
    return own_daemon(config={"templates": ["base"], "pool": 0})


@contextmanager
def stopped_warden(daemon):
    pid = daemon.process("warden").pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def open_socket(daemon, box) -> WebSocket:
    return WebSocket(f"{daemon.url}/v1/sandboxes/{box.id}/exec/ws", key=daemon.key)


def next_about(socket, id):
    while (message := socket.receive_json())["id"] != id:
        pass
    return message


def let_it_die(socket):
    """Two steps: command 1, which kills itself when told, is there; it is gone, and the api has been told so."""
    socket.send({"id": 1, "cmd": "echo $$; read go; kill -9 $$", "stdin": True})
    pid = next_about(socket, 1)["data"].strip()
    yield
    socket.send({"id": 2, "cmd": f"while kill -0 {pid} 2>/dev/null; do :; done"})
    socket.send({"id": 1, "stdin": "go\n"})
    assert next_about(socket, 1) == {"id": 1, "stdin_taken": 3}
    assert next_about(socket, 2) == {"id": 2, "exit": 0}
    yield


def hang_up(daemon, box, socket):
    socket.close()


def cancel(daemon, box, socket):
    socket.send({"id": 1, "stdin": "more\n"})
    socket.send({"id": 1, "cancel": True})
    wait_until(lambda: socket.receive_json().get("code") == "command.cancelled", 10, "it is cancelled")


def kill_sandbox(daemon, box, socket):
    threading.Thread(target=lambda: box.send("DELETE")).start()


@pytest.mark.parametrize("leave", [hang_up, cancel, kill_sandbox])
def test_who_leaves_while_the_counters_are_asked_harms_nobody(daemon, boxes, leave):  # noqa: F811
    box, other = boxes(daemon=daemon, template="base"), boxes(daemon=daemon, template="base")
    api = daemon.process("api").pid
    socket = open_socket(daemon, box)
    steps = let_it_die(socket)
    next(steps)
    with stopped_warden(daemon):
        next(steps)
        leave(daemon, box, socket)
    if leave is kill_sandbox:
        wait_until(lambda: box.send("GET").status_code == 404, 10, "it has ended")
    else:
        assert box.shell("echo here") == "here\n"
    socket.close()
    assert other.shell("echo here") == "here\n" and daemon.process("api").pid == api


def test_a_request_that_hangs_up_while_the_counters_are_asked_harms_nobody(daemon, boxes):  # noqa: F811
    box = boxes(daemon=daemon, template="base")
    api = daemon.process("api").pid
    socket = open_socket(daemon, box)
    connection = http.client.HTTPConnection(urlsplit(daemon.url).netloc, timeout=30)
    head = {"Authorization": f"Bearer {daemon.key}", "Content-Type": "application/json"}
    connection.request("POST", f"/v1/sandboxes/{box.id}/exec", json.dumps({"cmd": "mkfifo /tmp/go; echo $$ >/tmp/its; read go </tmp/go; kill -9 $$"}), head)
    pid = box.shell("until [ -s /tmp/its ]; do sleep 0.01; done; cat /tmp/its").strip()
    with stopped_warden(daemon):
        socket.send({"id": 2, "cmd": f"echo go >/tmp/go; while kill -0 {pid} 2>/dev/null; do :; done"})
        assert next_about(socket, 2) == {"id": 2, "exit": 0}
        connection.close()
    assert box.shell("echo here") == "here\n" and daemon.process("api").pid == api
    socket.close()


def test_counters_that_do_not_come_blame_no_limit(daemon, boxes):  # noqa: F811
    box = boxes(daemon=daemon, template="base")
    with open_socket(daemon, box) as socket:
        steps = let_it_die(socket)
        next(steps)
        with stopped_warden(daemon):
            next(steps)
            assert next_about(socket, 1) == {"id": 1, "exit": 137}
