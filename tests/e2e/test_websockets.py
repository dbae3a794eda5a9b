"""WebSockets, terminals and commands over them, with a client that can break the rules."""

from __future__ import annotations

import json
import os
import re
import threading
import time

import pytest
from boxes import boxes  # noqa: F401
from daemon import PATIENCE, wait_until
from ws import ACCEPT, BINARY, CLOSE, KEY, PING, PONG, TEXT, Refused, WebSocket, frame


@pytest.fixture
def open_socket(daemon, box):
    """open_socket("/ssh?rows=…", …): a WebSocket of the sandbox, closed with the test."""
    made = []

    def make(path, **options):
        options.setdefault("key", daemon.key)
        made.append(WebSocket(f"{daemon.url}/v1/sandboxes/{box.id}{path}", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def terminal(open_socket):
    shell = open_socket("/ssh?rows=24&cols=80")
    shell.receive_until(b"$ ")
    return shell


def say(shell, line: str, wanted: str, seconds: float = 20) -> str:
    """Types a line; what was shown until `wanted` came."""
    shell.send(line.encode() + b"\n")
    return shell.receive_until(wanted.encode(), seconds).decode(errors="replace")


# ---------------------------------------------------------------- the handshake


@pytest.mark.parametrize("path", ["/ssh", "/exec/pty", "/exec/ws"])
def test_the_handshake_is_answered_without_extensions(open_socket, path):
    offered = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
    headers = open_socket(path, headers=offered).headers
    assert headers["sec-websocket-accept"] == ACCEPT
    assert headers["upgrade"] == "websocket" and headers["connection"].lower() == "upgrade"
    assert "sec-websocket-extensions" not in headers and "content-length" not in headers


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Upgrade": None, "Connection": None}, 426),
        ({"Upgrade": "h2c"}, 426),
        ({"Connection": "keep-alive"}, 426),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Version": None}, 426),
        ({"Sec-WebSocket-Key": None}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Key": KEY[:-1] + "A"}, 400),
        ({"Content-Length": "0", "Content-Type": "text/plain"}, 101),
        ({"Connection": "keep-alive, Upgrade"}, 101),
        ({"Origin": "http://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer sg_" + "0" * 40}, 401),
        ({"Host": "evil.test"}, 403),
    ],
)
def test_a_handshake_is_judged_before_anything_is_started(open_socket, headers, status):
    try:
        open_socket("/ssh", headers=headers)
        found = 101
    except Refused as refusal:
        found = refusal.status
        if status == 426:
            assert refusal.headers["sec-websocket-version"] == "13"
            assert json.loads(refusal.body)["code"] == "request.upgrade_required"
    assert found == status


def test_the_key_may_be_in_the_query_of_a_handshake(open_socket, daemon):
    with open_socket(f"/exec/ws?access_token={daemon.key}", key=None) as channel:
        channel.send({"id": 1, "cmd": "true"})
        assert channel.receive_json() == {"id": 1, "exit": 0}
    with pytest.raises(Refused, match="401"):
        open_socket("/exec/ws?access_token=sg_nothing", key=None)


@pytest.mark.parametrize("path", ["/ssh", "/exec/pty", "/exec/ws"])
def test_a_sandbox_that_is_not_there_is_404(daemon, path):
    with pytest.raises(Refused, match="404"):
        WebSocket(f"{daemon.url}/v1/sandboxes/{'0' * 32}{path}", key=daemon.key)


@pytest.mark.parametrize("query", ["rows=1001", "cols=-1", "cols=x", "rows=", "rows=%201"])
def test_a_size_that_is_none_is_refused_by_name(open_socket, query):
    with pytest.raises(Refused, match="400") as refused:
        open_socket(f"/ssh?{query}")
    assert query.split("=")[0] in json.loads(refused.value.body)["error"]


@pytest.mark.parametrize("query", ["cmd=", "cmd=a%00b", "cmd=" + "x" * 4096])
def test_a_command_that_a_terminal_cannot_have_is_refused(open_socket, query):
    with pytest.raises(Refused, match="400") as refused:
        open_socket(f"/exec/pty?{query}")
    assert "cmd" in json.loads(refused.value.body)["error"]


def test_a_command_runs_at_a_terminal_in_place_of_the_shell(open_socket):
    shell = open_socket("/exec/pty?rows=31&cols=99&cmd=tty%20%3E%2Fdev%2Fnull%20%26%26%20stty%20size%3B%20exit%205")
    assert shell.receive() == b"31 99\r\n"
    assert shell.receive_json()["exit"] == 5
    longest = "echo " + "y" * 4090
    shell = open_socket(f"/exec/pty?cmd={longest}".replace(" ", "%20"))
    shell.receive_until(b"y" * 4090)


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize(
    "bytes_sent, code",
    [
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(BINARY, b"x", masked=False), 1002),
        (frame(BINARY, b"x", reserved=4), 1002),
        (frame(3, b"x"), 1002),
        (frame(PING, b"x" * 126), None),
        (frame(PING, b"x", final=False), None),
        (frame(0, b"x"), 1002),
        (frame(BINARY, b"x", final=False) + frame(BINARY, b"y"), 1002),
        (frame(CLOSE, b"\x03\xe8"), 1000),
        (frame(CLOSE), None),
        (frame(CLOSE, b"\x00\x01"), 1002),
    ],
)
def test_a_frame_that_breaks_the_rules_closes_with_its_code(open_socket, bytes_sent, code):
    channel = open_socket("/exec/ws")
    channel.socket.sendall(bytes_sent)
    opcode, payload = channel.receive_frame()
    assert opcode == CLOSE and (int.from_bytes(payload[:2], "big") if payload else None) == code
    with pytest.raises((EOFError, ConnectionResetError)):
        channel.receive_frame()


def test_a_message_of_more_than_a_mebibyte_closes_with_1009(open_socket):
    channel = open_socket("/exec/ws")
    channel.socket.sendall(frame(TEXT, b"x" * 1048577)[:1048500])
    assert channel.receive() == 1009


def test_a_message_of_countless_pieces_is_cut(open_socket):
    channel = open_socket("/exec/ws")
    channel.socket.sendall(frame(TEXT, b"x", final=False) + frame(0, b"x", final=False) * 2000)
    with pytest.raises((EOFError, ConnectionResetError)):
        while True:
            channel.receive_frame()


def test_a_command_reads_what_is_sent_as_its_input(open_socket):
    channel = open_socket("/exec/ws")
    channel.send({"id": "a", "cmd": "cat; echo over", "stdin": True})
    channel.send({"id": "a", "stdin": "text ä\n"})
    assert channel.receive_json() == {"id": "a", "stdin_taken": 8}
    assert channel.receive_json() == {"id": "a", "stream": "stdout", "data": "text ä\n"}
    channel.send({"id": "a", "stdin_base64": "Ynl0ZXMK", "stdin_end": True})
    rest = [channel.receive_json()]
    while "exit" not in rest[-1]:
        rest.append(channel.receive_json())
    assert rest[0] == {"id": "a", "stdin_taken": 6} and rest[-1] == {"id": "a", "exit": 0}
    assert "".join(message["data"] for message in rest[1:-1]) == "bytes\nover\n"


def test_input_that_nobody_asked_for_or_that_is_too_much_is_refused(open_socket):
    channel = open_socket("/exec/ws")
    channel.send({"id": 1, "stdin": "x"})
    assert channel.receive_json()["code"] == "request.invalid"
    channel.send({"id": 2, "cmd": "sleep 100"})
    channel.send({"id": 2, "stdin": "x"})
    assert channel.receive_json()["code"] == "request.invalid"
    channel.send({"id": 3, "cmd": "cat", "stdin": "x"})
    assert channel.receive_json()["code"] == "request.invalid"
    channel.send({"id": 4, "cmd": "sleep 100", "stdin": True})
    channel.send({"id": 4, "stdin_base64": "no base64!"})
    assert channel.receive_json()["code"] == "request.invalid"
    channel.send({"id": 4, "stdin": "x", "stdin_base64": "eA=="})
    assert channel.receive_json()["code"] == "request.invalid"
    channel.send({"id": 4, "stdin": "x" * 120_000})
    assert channel.receive_json()["stdin_taken"] <= 65536  # as much as the pipe holds
    channel.send({"id": 4, "stdin": "x" * 100_000})
    last = channel.receive_json()
    assert (last["id"], last["code"]) == (4, "request.too_large"), last
    channel.send({"id": 4, "cmd": "echo again"})  # the id is free
    assert channel.receive_json()["data"] == "again\n"


def test_a_message_in_pieces_with_a_ping_between_is_whole(open_socket):
    channel = open_socket("/exec/ws")
    text = b'{"id": "a", "cmd": "echo \xc3\xa4"}'
    at = text.index(b"\xa4")
    channel.socket.sendall(frame(TEXT, text[:at], final=False) + frame(PING, b"mark") + frame(0, text[at:]))
    assert channel.receive_frame() == (PONG, b"mark")
    assert channel.receive_json() == {"id": "a", "stream": "stdout", "data": "ä\n"}


def test_a_flood_of_pings_from_a_client_that_reads_nothing_stays_bounded(open_socket, daemon):
    channel = open_socket("/exec/ws", receive_buffer=4096)
    api = daemon.process("api").pid
    pings = frame(PING, b"x" * 125) * 2000

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{api}/status").read())[1])

    before = resident()
    channel.socket.settimeout(2)
    with pytest.raises(TimeoutError):
        for _ in range(2000):
            channel.socket.sendall(pings)
    assert resident() - before < 65536  # of 500 MB that were sent


def test_a_client_that_vanishes_leaves_nothing_behind(open_socket, daemon, box):
    def open_files():
        return len(os.listdir(f"/proc/{daemon.process('api').pid}/fd"))

    before = open_files()
    for _ in range(5):
        for path in ("/ssh", "/exec/pty", "/exec/ws"):
            open_socket(path).close()
    wait_until(lambda: open_files() <= before, 10, "all descriptors are closed")


def test_a_daemon_that_stops_does_not_wait_for_open_terminals(own_daemon):
    import requests

    daemon = own_daemon()
    headers = {"Authorization": f"Bearer {daemon.key}"}
    sandbox = requests.post(f"{daemon.url}/v1/sandboxes", json={}, headers=headers, timeout=20).json()["id"]
    with WebSocket(f"{daemon.url}/v1/sandboxes/{sandbox}/ssh", key=daemon.key) as shell:
        shell.receive_until(b"$ ")
        daemon.stop()


# ---------------------------------------------------------------- terminals


def test_a_terminal_is_a_login_shell_of_the_user_with_a_size(open_socket):
    shell = open_socket("/ssh?rows=33&cols=101")
    shown = say(shell, "stty size; tty; id -un; pwd; echo T=$TERM; shopt login_shell; echo do''ne", "done")
    assert "33 101" in shown and "/dev/pts/0" in shown and "user" in shown and "/workspace" in shown
    assert "T=xterm-256color" in shown and re.search(r"login_shell\s+on", shown)


@pytest.mark.parametrize(
    "order", [{"resize": {"rows": 50, "cols": 132}}, {"type": "resize", "rows": 50, "cols": 132}]
)
def test_a_resize_is_seen_and_signalled(terminal, order):
    say(terminal, "trap 'echo changed-$(stty size)' WINCH; echo rea''dy", "ready")
    terminal.send(order)
    shown = say(terminal, "", "changed-50 132")
    assert "changed-50 132" in shown


def test_text_can_be_typed_as_json(open_socket):
    shell = open_socket("/exec/pty")
    shell.send({"stdin": "echo j''son-ä\n"})
    assert "json-ä".encode() in shell.receive_until("json-ä".encode())


@pytest.mark.parametrize(
    "path, told", [("/ssh", {"exit": 7}), ("/exec/pty", {"exit": 7, "type": "exit", "code": 7})]
)
def test_the_exit_code_is_told_and_the_socket_closed(open_socket, path, told):
    shell = open_socket(path)
    shell.send(b"exit 7\n")
    while isinstance(message := shell.receive(), bytes):
        pass
    assert json.loads(message) == told
    assert shell.receive() == 1000


@pytest.mark.parametrize(
    "text, word",
    [
        ("no json", "JSON"), ("[]", "object"), ('{"rows": 5}', "resize"), ('{"other": 1}', "other"),
        ('{"resize": {"rows": -1, "cols": 5}}', "rows"), ('{"resize": {"rows": 5}}', "cols"), ('{"resize": 5}', "resize"),
        ('{"type": "resize", "rows": 5, "cols": 1001}', "cols"), ('{"stdin": 5}', "stdin"),
    ],
)
def test_a_wrong_order_is_answered_and_the_terminal_goes_on(terminal, text, word):
    terminal.send(text)
    while isinstance(message := terminal.receive(), bytes):
        pass
    assert word.lower() in json.loads(message)["error"].lower()
    assert "on" in say(terminal, "echo still''-on", "still-on")


def test_control_c_interrupts_what_runs(terminal, box):
    terminal.send(b"sleep 4240\n")
    wait_until(lambda: box.exec("pgrep -f '^sleep 4240'").stdout, 10, "it runs")
    terminal.send(b"\x03")
    assert "130" in say(terminal, "echo code-$?", "code-130")


def test_job_control_works(terminal):
    shown = say(terminal, "sleep 500 & jobs; kill %1; wait; echo job''s-done", "jobs-done")
    assert "no job control" not in shown and "Running" in shown


def test_a_hang_up_ends_all_that_the_terminal_started(terminal, box):
    say(terminal, "setsid nohup sleep 4242 >/dev/null 2>&1 & (trap '' HUP TERM; sleep 4243) & echo star''ted", "started")
    assert box.exec("pgrep -fc 'sleep 424[23]'").stdout.strip() != "0"
    terminal.close()
    wait_until(lambda: box.exec("pgrep -f '^sleep 424[23]'").stdout == "", 10, "they are ended")


def test_background_work_outlives_an_exit(terminal, box):
    # It has left the terminal's session when its file is there; until then it ends with the terminal.
    detached = "nohup setsid sh -c 'touch /tmp/out; exec sleep 4244' >/dev/null 2>&1 &"
    say(terminal, f"{detached} until test -e /tmp/out; do sleep 0.01; done; echo star''ted", "started")
    terminal.send(b"exit\n")
    while isinstance(message := terminal.receive(), bytes):
        pass
    assert json.loads(message) == {"exit": 0}
    wait_until(lambda: box.exec("pgrep -f '^sleep 4244'").stdout, 10, "what was detached goes on")


def test_nothing_of_a_long_output_is_lost_however_slowly_it_is_read(open_socket):
    shell = open_socket("/ssh", receive_buffer=8192)
    shell.send(b"stty -onlcr; printf begin:; head -c 6000000 /dev/zero | tr '\\0' z; printf :end; exit\n")
    time.sleep(1)
    got = b""
    while isinstance(message := shell.receive(), bytes):
        got += message
    assert got.count(b"z" * 6000000 + b":end") == 1
    assert json.loads(message) == {"exit": 0}


def test_a_terminal_whose_client_does_not_read_stops_the_program(terminal, daemon, box):
    terminal.socket.setsockopt(6, 10, 1)  # nothing to read it: the system's buffers fill
    terminal.send(b"head -c 50000000 /dev/zero | tr '\\0' z > /dev/tty; touch /workspace/through\n")
    api = daemon.process("api").pid

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{api}/status").read())[1])

    time.sleep(2)
    before = resident()
    time.sleep(1)
    assert resident() - before < 4096
    assert not box.filesystem.exists("/workspace/through")


def test_a_large_paste_arrives_whole(terminal):
    say(terminal, "stty raw -echo; echo rea''dy; head -c 3000000 | sha256sum; stty sane", "ready")
    bytes_pasted = os.urandom(3000000)
    sender = threading.Thread(target=lambda: [terminal.send(bytes_pasted[i:i + 1000000]) for i in (0, 1000000, 2000000)])
    sender.start()
    import hashlib

    terminal.receive_until(hashlib.sha256(bytes_pasted).hexdigest().encode(), 30)
    sender.join()


def test_typing_cannot_be_forged_from_inside(terminal):
    code = "import fcntl, termios\ntry: fcntl.ioctl(0, termios.TIOCSTI, b'x')\nexcept OSError as e: print('errno', e.errno)"
    shown = say(terminal, f"""python3 -c "{code}"; echo prob''ed""", "probed")
    assert "errno 1" in shown or "errno 5" in shown  # refused by the filter, else by the kernel's switch


def test_other_switches_of_terminals_are_refused(terminal):
    calls = {"TIOCSETD": 0x5423, "TIOCCONS": 0x541D, "TIOCLINUX": 0x541C}
    for name, number in calls.items():
        code = f"import fcntl\\ntry: fcntl.ioctl(0, {number}, b'0000')\\nexcept OSError as e: print('{name}', e.errno)"
        assert f"{name} 1" in say(terminal, f"""python3 -c "$(printf "{code}")"; echo prob''ed""", "probed")


def test_when_terminals_run_out_it_is_said(open_socket, box):
    box.exec("nohup python3 -c 'import os,time; e=[os.openpty() for _ in range(64)]; print(1,flush=True); time.sleep(100)' > /tmp/o &")
    wait_until(lambda: box.exec("cat /tmp/o").stdout == "1\n", 20, "all are taken")
    shell = open_socket("/ssh")
    assert "64 are in use" in shell.receive_json()["error"]
    assert shell.receive() == 1011


def test_a_terminal_keeps_the_sandbox_busy_and_its_end_is_told(client, daemon):
    box = client.sandboxes.create(ttl_seconds=1)
    with WebSocket(f"{daemon.url}/v1/sandboxes/{box.id}/ssh", key=daemon.key) as shell:
        shell.receive_until(b"$ ")
        time.sleep(2.5)
        say(shell, "echo al''ive", "alive")
        box.kill()
        while isinstance(message := shell.receive(), bytes):
            pass
        assert json.loads(message)["code"] == "sandbox.ended"
        assert shell.receive() == 1011


# ---------------------------------------------------------------- what is sent first


def test_the_first_output_is_held_back(open_socket):
    begun = time.monotonic()
    shell = open_socket("/ssh")
    assert not shell.arrived_with_head
    shell.receive_frame()
    assert time.monotonic() - begun > 0.09


def test_what_the_client_sends_together_with_its_handshake_counts(open_socket):
    shell = open_socket("/ssh", together=frame(BINARY, b"echo ear''ly\n"))
    shell.receive_until(b"early")


# ---------------------------------------------------------------- commands over one socket


@pytest.fixture
def channel(open_socket):
    return open_socket("/exec/ws")


def test_many_commands_run_at_once(channel):
    for i in range(20):
        channel.send({"id": i, "cmd": f"sleep 0.3; echo {i}; echo e{i} >&2; exit {i}"})
    begun, got = time.monotonic(), {}
    while sum("exit" in m for messages in got.values() for m in messages) < 20:
        message = channel.receive_json()
        got.setdefault(message["id"], []).append(message)
    assert time.monotonic() - begun < 6 * PATIENCE
    for i in range(20):
        texts = {m["stream"]: m["data"] for m in got[i] if "stream" in m}
        assert texts == {"stdout": f"{i}\n", "stderr": f"e{i}\n"}
        assert got[i][-1] == {"id": i, "exit": i}


def test_a_command_that_dies_of_the_memory_limit_says_so(boxes, daemon):
    box = boxes(limits={"memory_mb": 256, "files_mb": 32})
    channel = WebSocket(f"{daemon.url}/v1/sandboxes/{box.id}/exec/ws", key=daemon.key)
    channel.send({"id": 1, "cmd": "exec python3 -c 'x = bytearray(1 << 30)'"})
    told = channel.receive_json()
    assert told["stream"] == "stderr" and told["data"].startswith("memory limit reached: ")
    assert channel.receive_json() == {"id": 1, "exit": 137, "limits_hit": ["memory"]}
    channel.close()


def test_an_id_comes_back_as_it_was_sent(channel):
    for name in ("", "a \"quoted\" ä", -5, 2**53):
        channel.send({"id": name, "cmd": "true"})
        assert channel.receive_json() == {"id": name, "exit": 0}


def test_a_command_can_be_cancelled(channel, box):
    channel.send({"id": "long", "cmd": "echo here; sleep 4245"})
    assert channel.receive_json()["data"] == "here\n"
    channel.send({"id": "long", "cancel": True})
    end = channel.receive_json()
    assert end["id"] == "long" and end["code"] == "command.cancelled"
    wait_until(lambda: box.exec("pgrep -f '^sleep 4245'").stdout == "", 10, "it is ended")
    channel.send({"id": "long", "cmd": "echo again"})
    assert channel.receive_json()["data"] == "again\n"


def test_a_limit_is_kept_and_told(channel):
    channel.send({"id": 1, "cmd": "sleep 30", "timeout_seconds": 0.5})
    assert channel.receive_json()["code"] == "command.timeout"


@pytest.mark.parametrize(
    "message, word",
    [
        ("nonsense", "JSON"), ({}, "id"), ({"id": [1], "cmd": "true"}, "id"), ({"id": "x" * 129, "cmd": "true"}, "id"),
        ({"id": 1}, "cmd"), ({"id": 1, "cmd": ""}, "cmd"), ({"id": 1, "cmd": "a\0b"}, "NUL"), ({"id": 1, "cmd": 5}, "cmd"),
        ({"id": 1, "cmd": "true", "cwd": "/"}, "cwd"), ({"id": 1, "cmd": "true", "timeout_seconds": 0}, "timeout_seconds"),
        ({"id": 1, "cancel": True}, "id"), ({"id": 1, "cancel": True, "cmd": "true"}, "cancel"), ({"id": 1, "cancel": 1}, "cancel"),
    ],
)
def test_a_wrong_order_is_answered_and_the_socket_goes_on(channel, message, word):
    channel.send(message)
    answer = channel.receive_json()
    assert word.lower() in answer["error"].lower() and answer["code"]
    if isinstance(message, dict) and message.get("id") == 1:
        assert answer["id"] == 1, "who waits for that command learns that it will never run"
    channel.send({"id": 9, "cmd": "true"})
    assert channel.receive_json() == {"id": 9, "exit": 0}


def test_a_message_that_is_no_text_closes_with_1003(channel):
    channel.send(json.dumps({"id": 1, "cmd": "true"}).encode())
    assert channel.receive() == 1003


def test_an_id_in_use_and_too_many_commands_are_refused(channel):
    for i in range(33):
        channel.send({"id": i, "cmd": "sleep 60"})
    assert channel.receive_json()["code"] == "sandbox.busy"
    channel.send({"id": 0, "cmd": "true"})
    assert "under way" in channel.receive_json()["error"]


def test_characters_are_not_torn(channel):
    channel.send({"id": 1, "cmd": r"printf 'a\303'; sleep 0.2; printf '\244b\377'; sleep 0.1; printf '\303'"})
    text = ""
    while "exit" not in (message := channel.receive_json()):
        text += message["data"]
    assert text == "aäb��"


def test_output_is_whole_however_slowly_it_is_read(open_socket):
    channel = open_socket("/exec/ws", receive_buffer=8192)
    for i in range(3):
        channel.send({"id": i, "cmd": "head -c 2000000 /dev/zero | tr '\\0' y"})
    time.sleep(1)
    sizes, ends = [0, 0, 0], 0
    while ends < 3:
        message = channel.receive_json()
        sizes[message["id"]] += len(message.get("data", ""))
        ends += "exit" in message
    assert sizes == [2000000] * 3


def test_the_end_of_the_socket_ends_its_commands(channel, box):
    channel.send({"id": 1, "cmd": "echo here; sleep 4246"})
    channel.receive_json()
    channel.close()
    wait_until(lambda: box.exec("pgrep -f '^sleep 4246'").stdout == "", 10, "it is ended")


def test_the_end_of_the_sandbox_closes_the_channel(channel, box):
    channel.send({"id": 1, "cmd": "echo here; sleep 50"})
    channel.receive_json()
    box.kill()
    assert channel.receive_json()["code"] == "sandbox.ended"
    assert channel.receive() == 1001
