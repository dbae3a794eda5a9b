"""The memory of the api, which all tenants share, stays within bounds whatever clients send, ask for, and do not read."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from urllib.parse import urlsplit

import pytest
from boxes import Box
from census import memory_kb
from daemon import PATIENCE, wait_until

MANY = 60
SHOWN = 14_000_000


@pytest.fixture
def place(own_daemon):
    """A daemon of the test's own with a sandbox in it."""
    daemon = own_daemon(config={"templates": ["code-interpreter"]})
    return daemon, Box(daemon)


@pytest.fixture
def slow(place):
    """slow(head): asks, and reads nothing; closed with the test."""
    daemon, _ = place
    parts, made = urlsplit(daemon.url), []

    def ask(first: str, *lines: str, body: bytes = b"") -> socket.socket:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(30 * PATIENCE)
        one.connect((parts.hostname, parts.port))
        made.append(one)
        one.sendall("\r\n".join([f"{first} HTTP/1.1", f"Host: {parts.netloc}", f"Authorization: Bearer {daemon.key}", *lines, "", ""]).encode())
        if body:
            one.sendall(body)
        return one

    yield ask
    for one in made:
        one.close()


def resident(daemon) -> int:
    """MiB."""
    return memory_kb(daemon.process("api").pid) >> 10


def settled(daemon) -> int:
    """MiB, once it no longer grows."""
    last = -1
    while (now := resident(daemon)) > last:
        last = now
        time.sleep(1)
    return now


def read_all(one: socket.socket) -> bytes:
    got = b""
    while part := one.recv(1 << 20):
        got += part
    return got


def show_much(box: Box) -> str:
    """A run that has shown a random text of that size; its id and the text's hash."""
    answer = box.kernel().run(
        "import os, base64, hashlib\nfrom IPython.display import display\n"
        f"text = base64.b64encode(os.urandom({SHOWN // 4 * 3})).decode()\n"
        "display({'text/plain': text}, raw=True)\nhashlib.sha256(text.encode()).hexdigest()"
    )
    return answer["run_id"], answer["results"][1]["text/plain"].strip("'")


@pytest.mark.limit(120)
def test_slow_followers_of_a_large_result_cost_little_and_get_it_whole(place, slow):
    daemon, box = place
    run, digest = show_much(box)
    before = settled(daemon)
    followers = [slow(f"GET /v1/runs/{run}/stream", "Connection: close") for _ in range(MANY)]
    assert settled(daemon) - before < 60
    for one in followers[:3]:
        text = "".join(part.partition("\r\n")[2] for part in _chunks(read_all(one)))
        events = [event.split("\n") for event in text.split("\n\n") if event]
        names = [line[7:] for event in events for line in event if line.startswith("event: ")]
        assert names == ["run", "display", "result", "end"]
        shown = next(line[6:] for event in events if "event: display" in event for line in event if line.startswith("data: "))
        assert hashlib.sha256(json.loads(shown)["text/plain"].encode()).hexdigest() == digest


def _chunks(answer: bytes) -> list[str]:
    """Of a chunked answer, each with its size ahead."""
    body, found = answer.partition(b"\r\n\r\n")[2], []
    while body:
        size = int(body[: body.index(b"\r\n")], 16)
        start = body.index(b"\r\n") + 2
        found.append(f"{size:x}\r\n" + body[start : start + size].decode())
        body = body[start + size + 2 :]
    return found


@pytest.mark.limit(120)
def test_a_reader_in_the_midst_of_what_is_forgotten_is_cut(place, slow):
    daemon, box = place
    run, _ = show_much(box)
    one = slow(f"GET /v1/runs/{run}/stream", "Connection: close")
    time.sleep(1)
    kernel = box.kernel()
    for _ in range(64):  # ended runs that are kept
        kernel.run("1")
    wait_until(lambda: box.session.get(f"{daemon.url}/v1/runs/{run}", timeout=20).status_code == 404, 20, "it is forgotten")
    got = read_all(one)
    assert len(got) < SHOWN and not got.endswith(b"0\r\n\r\n")
    assert box.shell("echo fine") == "fine\n"


@pytest.mark.limit(120)
def test_large_answers_that_nobody_reads_are_bounded_together(place, slow):
    daemon, box = place
    run, _ = show_much(box)
    before = settled(daemon)
    readers = [slow(f"GET /v1/runs/{run}", "Connection: close") for _ in range(MANY)]
    assert settled(daemon) - before < 330
    statuses = [one.recv(12)[9:] for one in readers]
    assert statuses.count(b"200") > 10 and set(statuses) == {b"200", b"503"}
    for one in readers:
        one.close()
    answer = box.session.get(f"{daemon.url}/v1/runs/{run}", timeout=60)
    assert answer.status_code == 200 and len(answer.content) > SHOWN


@pytest.mark.limit(120)
def test_large_bodies_that_do_not_end_are_bounded_together(place, slow):
    daemon, box = place
    size = 15 << 20
    before = settled(daemon)
    for _ in range(40):
        one = slow(f"POST /v1/sandboxes/{box.id}/exec", "Content-Type: application/json", f"Content-Length: {size}")
        for _ in range(size // 65536 - 1):
            one.sendall(b" " * 65536)
    assert settled(daemon) - before < 330
    refused = box.send("POST", "/exec", data=b" " * size + b'{"cmd": "true"}', headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["code"]) == (503, "host.busy")
    assert box.shell("echo fine") == "fine\n"


@pytest.mark.limit(120)
def test_the_code_of_detached_cells_that_wait_is_bounded(place):
    daemon, box = place
    kernel = box.kernel()
    run = lambda code: box.send("POST", f"/repl/sessions/{kernel.id}/run", json={"code": code, "detach": True, "timeout_ms": 60000})
    first = run("import time; time.sleep(60)")
    answers = [run("#" + "x" * 7_900_000) for _ in range(10)]
    assert [answer.status_code for answer in answers] == [202] * 8 + [429] * 2
    assert answers[-1].json()["code"] == "session.queue_full"
    assert run("1").status_code == 202
    box.session.post(f"{daemon.url}/v1/runs/{first.json()['run_id']}/cancel", timeout=20)
    wait_until(lambda: run("#" + "x" * 7_900_000).status_code == 202, 20, "there is room again")
