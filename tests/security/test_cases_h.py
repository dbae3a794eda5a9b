"""Cases H: one sandbox and another."""

from __future__ import annotations

import json
import secrets

import host
import pytest

LISTEN = """
import ctypes, json, os, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
abstract = socket.socket(socket.AF_UNIX); abstract.bind('\\0meeting'); abstract.listen()
path = socket.socket(socket.AF_UNIX); path.bind('/tmp/meeting'); path.listen()
tcp = socket.socket(); tcp.bind(('127.0.0.1', 5555)); tcp.listen()
os.mkfifo('/tmp/fifo')
open('/dev/shm/meeting', 'w').write('here')
key = 0x5a5a
shm = libc.shmget(key, 4096, 0o1666)
sem = libc.semget(key, 1, 0o1666)
msg = libc.msgget(key, 0o1666)
queue = libc.mq_open(b'/meeting', os.O_CREAT | os.O_RDWR, 0o666, (ctypes.c_long * 8)(0, 4, 1024, 0))
os.environ['MEETING'] = SECRET = '%s'
child = subprocess.Popen(['sleep', '600'])
print(json.dumps([shm >= 0, sem >= 0, msg >= 0, queue >= 0, os.getpid(), child.pid]))
"""

MEET = """
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
met = []
def attempt(name, function):
    try:
        if function() is not False:
            met.append(name)
    except OSError:
        pass
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0meeting'))
attempt('path', lambda: socket.socket(socket.AF_UNIX).connect('/tmp/meeting'))
attempt('tcp', lambda: socket.create_connection(('127.0.0.1', 5555), 2))
attempt('tcp all', lambda: socket.create_connection(('0.0.0.0', 5555), 2))
attempt('fifo', lambda: os.open('/tmp/fifo', os.O_RDONLY | os.O_NONBLOCK))
attempt('shm file', lambda: open('/dev/shm/meeting'))
for name, call in (('shm', lambda: libc.shmget(0x5a5a, 0, 0)), ('sem', lambda: libc.semget(0x5a5a, 0, 0)), ('msg', lambda: libc.msgget(0x5a5a, 0)), ('mq', lambda: libc.mq_open(b'/meeting', os.O_RDWR))):
    attempt(name, lambda: call() >= 0)
print(json.dumps(met))
"""


def test_92_two_sandboxes_meet_nowhere(boxes):
    mine, theirs = boxes().kernel(), boxes().kernel()
    made = mine.value(LISTEN % secrets.token_hex(8))
    # POSIX message queues cannot be had at all: Landlock has no rule for their file system.
    assert made[:4] == [True, True, True, False], "the meeting places exist in their own sandbox"
    assert mine.value(MEET) == ["abstract", "path", "tcp", "tcp all", "fifo", "shm file", "shm", "sem", "msg"]
    assert theirs.value(MEET) == []


def test_92_a_signal_to_the_same_pid_stays_here(boxes):
    first, second = boxes().kernel(), boxes().kernel()
    pid = first.value("import json, os, subprocess; child = subprocess.Popen(['sleep', '600']); print(json.dumps(child.pid))")
    second.run(f"import os, signal\nfor p in range(2, {pid} + 50):\n    if p != os.getpid():\n        try: os.kill(p, 9)\n        except OSError: pass")
    assert first.said("print(child.poll())") == "None\n"


@pytest.mark.parametrize("path", ["/usr/bin/env", "/etc/passwd", "/usr/lib/sandglass", "/usr", "/"])
def test_94_locks_on_files_of_the_image_do_not_meet(boxes, path):
    first, second = boxes().with_probe(), boxes().with_probe()
    held = first.kernel().value(
        f"import subprocess; held = subprocess.Popen(['/tmp/probe/sandglass-probe', 'locks', 'hold', {path!r}], stdout=subprocess.PIPE, text=True); print(held.stdout.readline())"
    )
    assert held == {path: "OK"}
    assert second.probe("locks", path) == {path: "OK"}


def test_95_a_new_sandbox_finds_nothing_of_the_last_one(boxes):
    words = "leftover-" + secrets.token_hex(16)
    first = boxes()
    first.kernel().said(
        f"import os, threading, time, builtins, sys, ctypes\n"
        f"words = {words!r}\n"
        "for path in ('/tmp/x', '/home/user/x', '/workspace/x', '/mnt/data/x', '/dev/shm/x'):\n"
        "    open(path, 'w').write(words)\n"
        "os.environ['LEFT'] = words\n"
        "builtins.left = words; sys.modules['left'] = words\n"
        "page = (words.encode() * 100)[:4000] * 2000\n"
        "def late():\n"
        "    while True:\n"
        "        os.write(1, words.encode()); time.sleep(0.01)\n"
        "threading.Thread(target=late, daemon=True).start()\n"
        "print('done')"
    )
    first.kill()
    second = boxes()
    kernel = second.kernel()
    assert words not in kernel.said("import os, sys, builtins; print(dict(os.environ), 'left' in sys.modules, hasattr(builtins, 'left'))")
    assert second.command(f"grep -rl '{words[:20]}' /tmp /home /workspace /mnt /dev/shm 2>/dev/null")["stdout"] == ""
    answer = kernel.run("import numpy as np, time\nfresh = np.empty(300 << 20, dtype='u1')\nprint(int(fresh.max()))\ntime.sleep(0.3)")
    assert answer["stdout"] == "0\n", "freed memory comes back as zeros, and no late output of the last one"


def test_95_the_zygote_and_the_warden_hold_no_words_of_a_sandbox(boxes, daemon):
    words = "canary-" + secrets.token_hex(16)
    box = boxes()
    box.kernel().said(f"canary = {words!r}; print(1)")
    box.shell(f"echo {words} > /tmp/x")
    for process in daemon.processes():
        if process.role in ("keeper", "warden") or process.name.startswith("python"):
            if f"/box/" not in open(f"/proc/{process.pid}/cgroup").read():
                assert not host.memory_contains(process.pid, words.encode()), process


def test_95_no_process_of_a_sandbox_holds_the_key(boxes, daemon):
    box = boxes()
    box.kernel().said("print(1)")
    box.shell("sleep 300 >/dev/null 2>&1 & true")
    digits = daemon.key.rsplit("_", 1)[-1].encode()
    found = [pid for pid in host.process_ids(box.id) if host.memory_contains(pid, digits)]
    assert found == []
    for process in daemon.processes():
        if process.role == "warden" or process.name.startswith("python"):
            assert not host.memory_contains(process.pid, digits), process


ENDPOINTS = [
    ("GET", ""), ("DELETE", ""), ("POST", "/exec"), ("POST", "/exec/stream"), ("POST", "/repl/sessions"), ("GET", "/repl/sessions"),
    ("POST", "/repl/sessions/0123456789abcdef/run"), ("DELETE", "/repl/sessions/0123456789abcdef"), ("GET", "/fs?path=/tmp"), ("PUT", "/fs?path=/tmp/x"),
    ("DELETE", "/fs?path=/tmp/x"), ("GET", "/fs/dir?path=/"), ("GET", "/fs/stat?path=/"), ("GET", "/lifecycle"), ("PATCH", "/lifecycle"),
    ("POST", "/pause"), ("POST", "/repl"), ("GET", "/metrics"),
]  # fmt: skip


@pytest.mark.parametrize("method, path", ENDPOINTS)
def test_96_an_unknown_id_is_like_an_ended_one(boxes, api, method, path):
    """Nothing tells a foreign sandbox from one that never was."""
    ended = boxes()
    ended.kill()
    body = {"json": {"cmd": "true", "code": "1", "language": "python", "ttl_seconds": 5}} if method in ("POST", "PATCH") else {}
    if method == "PATCH":
        body = {"json": {"ttl_seconds": 5}}
    if path.endswith("/exec") or path.endswith("stream"):
        body = {"json": {"cmd": "true"}}
    if path.endswith("/run"):
        body = {"json": {"code": "1"}}
    if path.endswith("/sessions") and method == "POST":
        body = {"json": {"language": "python"}}
    if path in ("/pause", "/repl"):
        body = {"json": {"language": "python", "code": "1"}} if path == "/repl" else {}
    answers = [api.request(method, f"/sandboxes/{sandbox}{path}", **body) for sandbox in (ended.id, secrets.token_hex(16))]
    told = [json.loads(a.text) | {"request_id": ""} for a in answers]
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].status_code in (404, 501)
    assert {key: str(value).replace(ended.id, "") for key, value in told[0].items()}.keys() == told[1].keys()
    assert told[0].get("code") == told[1].get("code")
