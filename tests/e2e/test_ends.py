"""What long calls leave behind when their sandbox, their key, their client or the daemon's parts end, or stand still, in their midst."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest
import requests
from boxes import Box, boxes  # noqa: F401
from census import count
from daemon import PATIENCE, wait_until
from ws import WebSocket


def socket_of(box: Box, path: str, **options) -> WebSocket:
    return WebSocket(f"{box.daemon.url}/v1/sandboxes/{box.id}{path}", **{"key": box.daemon.key, **options})


def sleepers(box: Box) -> int:
    """Programs called sleep that live inside."""
    return int(box.shell("cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^sleep$' || true"))


# ---------------------------------------------------------------- commands over a WebSocket


def test_the_end_of_the_sandbox_ends_an_idle_socket_too(boxes):  # noqa: F811
    box = boxes()
    idle, busy = socket_of(box, "/exec/ws"), socket_of(box, "/exec/ws")
    busy.send({"id": 1, "cmd": "echo begun; sleep 100"})
    assert busy.receive_json()["data"] == "begun\n"
    box.kill()
    assert busy.receive_json()["code"] == "sandbox.ended"
    assert (idle.receive(), busy.receive()) == (1001, 1001)


def test_a_socket_without_commands_does_not_keep_its_sandbox(boxes):  # noqa: F811
    box = boxes(ttl_seconds=2)
    idle = socket_of(box, "/exec/ws")
    assert idle.receive() == 1001
    assert box.send("GET").status_code == 404


def test_sockets_for_commands_are_bounded(boxes):  # noqa: F811
    box, made = boxes(), []
    with pytest.raises(Exception, match="sandbox.busy"):
        for _ in range(300):
            made.append(socket_of(box, "/exec/ws"))
    assert len(made) == 256
    assert box.command("true")["exit_code"] == 0  # calls that work are counted apart
    for one in made:
        one.close()
    wait_until(lambda: _opens(box), 10, "there is room again")


def _opens(box: Box) -> bool:
    try:
        socket_of(box, "/exec/ws").close()
        return True
    except Exception:
        return False


def test_a_revoked_key_starts_nothing_on_a_socket_that_it_opened(daemon, boxes):  # noqa: F811
    box = boxes()
    made = box.session.post(f"{daemon.url}/v1/me/tokens", json={"label": "short"}, timeout=20).json()
    channel = socket_of(box, "/exec/ws", key=made["token"])
    channel.send({"id": 1, "cmd": "echo begun; sleep 2; echo ended"})
    assert channel.receive_json()["data"] == "begun\n"
    assert box.session.delete(f"{daemon.url}/v1/me/tokens/{made['prefix']}", timeout=20).status_code == 204
    channel.send({"id": 2, "cmd": "touch /workspace/started"})
    answer = channel.receive_json()
    assert (answer["id"], answer["code"]) == (2, "auth.unauthorized")
    assert channel.receive() == 1008
    assert box.read("/workspace/started").status_code == 404


# ---------------------------------------------------------------- terminals


@pytest.mark.limit(120)
@pytest.mark.parametrize("how", ["api", "client"])
def test_what_terminals_have_started_ends_with_them_however_they_end(own_daemon, how):
    daemon = own_daemon()
    box = Box(daemon)
    shells = [socket_of(box, "/ssh") for _ in range(24)]
    for shell in shells:
        shell.send(b"setsid sleep 1000 & echo be''gun\n")
    for shell in shells:
        shell.receive_until(b"begun")
    wait_until(lambda: sleepers(box) == 24, 20, "all sleep")
    if how == "api":
        os.kill(daemon.process("api").pid, signal.SIGKILL)
        box.session.close()
    for shell in shells:
        shell.close()
    wait_until(lambda: sleepers(box) == 0, 15, "none is left")


# ---------------------------------------------------------------- standing still

# Answers at once, and takes the body a second later.
HASTY = """
import re, socket, time
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen()
c, _ = s.accept(); got = b""
while b"\\r\\n\\r\\n" not in got: got += c.recv(4096)
head, _, body = got.partition(b"\\r\\n\\r\\n")
size, taken = int(re.search(rb"Content-Length: (\\d+)", head)[1]), len(body)
c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
open("/workspace/answered", "w").close()
time.sleep(1)
while taken < size and (part := c.recv(65536)): taken += len(part)
open("/workspace/taken.new", "w").write(str(taken))
import os; os.rename("/workspace/taken.new", "/workspace/taken")
"""


def test_an_upload_to_a_server_waits_while_the_sandbox_is_paused(daemon, boxes):  # noqa: F811
    box, got, size = boxes(), [], 8_000_000
    box.write("/workspace/hasty.py", HASTY)
    box.shell("nohup python3 hasty.py >/dev/null 2>&1 & for i in $(seq 200); do bash -c 'grep -q :1F40 /proc/net/tcp' && exit; sleep 0.05; done")
    post = threading.Thread(target=lambda: got.append(box.send("POST", "/proxy/8000/", data=b"x" * size)))
    other = requests.Session()
    other.headers.update(box.session.headers)
    ask = lambda method, path, **options: other.request(method, f"{daemon.url}/v1/sandboxes/{box.id}{path}", timeout=20, **options)
    post.start()
    wait_until(lambda: ask("GET", "/fs", params={"path": "/workspace/answered"}).status_code == 200, 20, "it has answered")
    assert ask("POST", "/pause").status_code == 204
    time.sleep(3)  # longer than a server that takes nothing is waited for
    assert post.is_alive() and ask("GET", "/proxy/8000/").status_code == 409
    assert ask("POST", "/resume").status_code == 204
    post.join(20 * PATIENCE)
    assert got[0].text == "ok"
    taken = wait_until(lambda: (answer := ask("GET", "/fs", params={"path": "/workspace/taken"})).status_code == 200 and answer.text, 20, "it has taken all")
    assert int(taken) == size


def test_a_paused_terminal_goes_on_where_it_was(boxes):  # noqa: F811
    box = boxes()
    shell = socket_of(box, "/ssh")
    shell.send(b"for i in 1 2 3; do read line; echo got:$line; done\n")
    shell.send(b"one\n")
    shell.receive_until(b"got:one")
    box.request("POST", "/pause", want=204)
    shell.send(b"two\n")
    with pytest.raises(Exception, match="sandbox.not_running"):
        socket_of(box, "/ssh")
    channel = socket_of(box, "/exec/ws")
    channel.send({"id": 1, "cmd": "true"})
    assert channel.receive_json()["code"] == "sandbox.not_running"
    box.request("POST", "/resume", want=204)
    shell.receive_until(b"got:two")


@pytest.mark.limit(120)
@pytest.mark.parametrize("ends", ["delete", "paused delete", "warden"])
def test_nothing_hangs_and_nothing_is_left_when_all_ends_at_once(own_daemon, ends):
    daemon = own_daemon(config={"pool": 0})  # what stands ready for others comes and goes
    before = count(daemon)
    box = Box(daemon)
    box.shell("nohup python3 -c 'import socket,time; s=socket.socket(); s.bind((\"127.0.0.1\",8000)); s.listen(50); time.sleep(1000)' >/dev/null 2>&1 &")
    wait_until(lambda: box.request("GET", "/ports"), 20, "the server listens")
    kernels = [box.kernel(language) for language in ("python", "bash", "node")]
    key, host = daemon.key, daemon.url.partition("//")[2]
    base = f"/v1/sandboxes/{box.id}"
    lines = f"Host: {host}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n"
    opened = [socket_of(box, path).socket for path in ("/ssh", "/exec/pty", "/exec/ws") for _ in range(4)]
    for target in ("/proxy/8000/", "/logs?follow=1", "/events?follow=1"):
        for _ in range(4):
            opened.append(socket.create_connection((daemon.url.split(":")[1][2:], int(host.rpartition(":")[2])), 20))
            opened[-1].sendall(f"GET {base}{target} HTTP/1.1\r\n{lines}\r\n".encode())
    for kernel, code in zip(kernels, ("while True: pass", "while :; do :; done", "for (;;);")):
        box.request("POST", f"/repl/sessions/{kernel.id}/run", json={"code": code, "detach": True, "timeout_ms": 100000}, want=202)
    wait_until(lambda: box.request("GET", "/metrics")["runs_under_way"] == 3, 10, "all is under way")
    if ends == "paused delete":
        box.request("POST", "/pause", want=204)
    if ends == "warden":
        os.kill(daemon.process("warden").pid, signal.SIGKILL)
    else:
        box.request("DELETE", want=204)
    for one in opened:
        one.settimeout(20 * PATIENCE)
        try:
            while one.recv(65536):
                pass
        except ConnectionResetError:
            pass
        one.close()
    box.session.close()
    same = lambda now: now | {"pids": 0} if ends != "warden" else {k: now[k] for k in ("descriptors", "control groups", "network namespaces", "zombies")}
    wait_until(lambda: same(count(daemon)) == same(before), 30, "all is as before")
