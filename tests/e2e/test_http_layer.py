"""The HTTP layer alone, against src/http/test_server.c: what it must do whatever is served with it."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import requests

from daemon import PATIENCE, SANITIZER_MARKS, build_folder, wait_until

MIB = 1 << 20
PATTERN = re.compile(rb"HTTP/1\.1 (\d+) ")


class Server:
    """One http-test-server. Ends with the test, cleanly and without leaks, or fails it."""

    def __init__(self, connections=512, stall_seconds=0, idle_seconds=0, prefix=()):
        program = build_folder() / "src/http/http-test-server"
        if not program.exists():
            pytest.skip(f"there is no {program}: build with cmocka installed")
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=4:exitcode=99"}
        if prefix:
            env["ASAN_OPTIONS"] = "detect_leaks=0"  # it cannot look for leaks while it is traced
        limits = [str(n) for n in (connections, stall_seconds, idle_seconds)]
        self.process = subprocess.Popen(
            [*prefix, str(program), *limits], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        children = open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()
        return int(children[0]) if children else self.process.pid

    def connect(self, receive_buffer=None) -> socket.socket:
        sock = socket.socket()
        sock.settimeout(10 * PATIENCE)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def counters(self, session=requests) -> dict[str, int]:
        text = session.get(f"{self.url}/counters", timeout=10 * PATIENCE).text
        return {name: int(n) for name, n in (line.split() for line in text.splitlines())}

    def resident(self, key="VmRSS") -> int:
        status = open(f"/proc/{self.pid}/status").read()
        return int(re.search(key + r":\s+(\d+)", status)[1]) * 1024

    def stop(self) -> str:
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        _, log = self.process.communicate(timeout=20 * PATIENCE)
        assert not any(mark in log for mark in SANITIZER_MARKS), log
        assert self.process.returncode == 0, log
        return log


@pytest.fixture
def make_server():
    made = []

    def make(*args, **options) -> Server:
        made.append(Server(*args, **options))
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def server(make_server):
    return make_server()


def ask(target: str, method="GET", headers="", body=b"") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode("latin-1") + body


def read_answer(sock: socket.socket, stock=b"") -> tuple[int, dict[str, str], bytes, bytes]:
    """Status, headers, body, and what came behind it; for answers with a Content-Length."""
    data = stock
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        assert piece, f"closed after {data!r}"
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    size = int(headers.get("content-length", 0))
    while len(rest) < size:
        piece = sock.recv(65536)
        assert piece, "closed in the body"
        rest += piece
    return int(status.split()[1]), headers, rest[:size], rest[size:]


def read_until_closed(sock: socket.socket) -> bytes:
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def is_all_done(counters: dict[str, int]) -> bool:
    """All but the question for the counters itself."""
    return counters["heads"] - counters["done"] == 1


def connections_of(session: requests.Session) -> int:
    """How many it ever made."""
    pools = session.adapters["http://"].poolmanager.pools
    return sum(pools[key].num_connections for key in pools.keys())


# ---- answers ----


def test_head_and_body_go_out_in_one_write(make_server, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    trace = tmp_path / "trace"
    calls = "sendmsg,sendto,write,writev,sendfile,setsockopt"
    server = make_server(prefix=("strace", "-qq", "-o", str(trace), "-e", f"trace={calls}"))
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for target in ("/hello", "/later?ms=5", "/head", "/hello"):
        connection.request("GET", target)
        connection.getresponse().read()
    connection.request("POST", "/echo", body=b"y" * 50000)
    assert len(connection.getresponse().read()) == 50000
    connection.close()
    server.stop()
    lines = trace.read_text().splitlines()
    sends = [line for line in lines if re.match(r"(sendmsg|sendto|writev?)\((?!1,|2,)", line)]
    assert len(sends) == 5, sends
    assert all("MSG_MORE" not in line for line in sends)
    assert any("TCP_NODELAY" in line for line in lines)


def test_a_thousand_requests_use_one_connection(server):
    with requests.Session() as session:
        times = []
        for i in range(1000):
            start = time.perf_counter()
            answer = session.get(f"{server.url}/hello")
            times.append(time.perf_counter() - start)
            assert answer.text == "hello\n"
        assert connections_of(session) == 1
    print(f"p50 of a request seen by requests: {sorted(times)[500] * 1e6:.0f} us")


def test_head_is_answered_like_get_without_a_body(server):
    with server.connect() as sock:
        sock.sendall(ask("/hello", "HEAD") + ask("/source?size=500", "HEAD") + ask("/hello"))
        data = b""
        while not data.endswith(b"hello\n"):
            data += sock.recv(65536)
        heads = data.split(b"\r\n\r\n")
        assert b"Content-Length: 6" in heads[0]
        assert b"Content-Length: 500" in heads[1]
        assert heads[3] == b"hello\n"


def test_nothing_follows_the_head_of_a_stream_without_length(server):
    with server.connect() as sock:
        sock.sendall(ask("/source?size=500&chunked", "HEAD"))
        data = b""
        while received := sock.recv(65536):  # it ends the connection: some clients take a body for the next answer
            data += received
    assert data.startswith(b"HTTP/1.1 200 ") and data.index(b"\r\n\r\n") + 4 == len(data)
    assert b"Connection: close" in data and b"chunked" not in data


def test_a_head_request_of_a_long_stream_ends(server):
    assert requests.head(f"{server.url}/source?size={100 * MIB}").headers["Content-Length"] == str(100 * MIB)
    assert requests.head(f"{server.url}/source?size={100 * MIB}&chunked").status_code == 200
    assert is_all_done(server.counters())


def test_request_ids_are_kept_when_sane_and_made_otherwise(server):
    def id_of(sent):
        headers = {} if sent is None else {"X-Request-Id": sent}
        answer = requests.get(f"{server.url}/head", headers=headers)
        assert f"id {answer.headers['X-Request-Id']}\n" in answer.text
        return answer.headers["X-Request-Id"]

    assert id_of("a.B-9_") == "a.B-9_"
    assert id_of("x" * 64) == "x" * 64
    for strange in (None, "x" * 65, "a b", "a/b", "", '"'):
        assert re.fullmatch("[0-9a-f]{16}", id_of(strange))
    assert id_of(None) != id_of(None)


def test_every_answer_has_the_id(server):
    headers = {"X-Request-Id": "mine"}
    for target, status in (("/refuse", 401), ("/none", 404), ("/a%00", 400), ("/source?size=9", 200), ("/later?ms=1", 200)):
        answer = requests.get(server.url + target, headers=headers)
        assert (answer.status_code, answer.headers["X-Request-Id"]) == (status, "mine"), target


def test_headers_are_found_whatever_their_case_and_counted(server):
    with server.connect() as sock:
        sock.sendall(ask("/head", headers="x-TWICE: 1\r\nX-Twice: 2\r\n"))
        status, headers, body, _ = read_answer(sock)
        assert b"host localhost\nx-twice 2\nlength 0\n" in body
        assert headers["x-own"] == "mine"


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as sock:
        wanted = ["/hello", "/later?ms=30", "/target/a", "/later?ms=1", "/hello", "/source?size=10", "/target/b"]
        sock.sendall(b"".join(map(ask, wanted)) + ask("/echo", "POST", "Content-Length: 2\r\n", b"ab") + ask("/hello"))
        rest, bodies = b"", []
        for _ in range(len(wanted) + 2):
            status, _, body, rest = read_answer(sock, rest)
            assert status == 200
            bodies.append(body)
        assert bodies[:2] == [b"hello\n", b"later\n"] and bodies[3:6] == [b"later\n", b"hello\n", b"x" * 10]
        assert b"segment 61" in bodies[2] and b"segment 62" in bodies[6]
        assert bodies[7:] == [b"ab", b"hello\n"] and rest == b""


# ---- targets ----


def shown(label: str, text: bytes) -> str:
    return f"{label} {text.hex()}"


def shown_path(path: bytes, *segments: bytes) -> list[str]:
    return [shown("path", path), *(shown("segment", segment) for segment in segments)]


@pytest.mark.parametrize(
    "target, lines",
    [
        ("/target", shown_path(b"/target", b"target")),
        ("/target/a%2Fb/c", shown_path(b"/target/a/b/c", b"target", b"a/b", b"c")),
        ("/target/%252f", shown_path(b"/target/%2f", b"target", b"%2f")),
        ("/target/a+b", shown_path(b"/target/a+b", b"target", b"a+b")),
        ("/target/%ff\xfe", shown_path(b"/target/\xff\xfe", b"target", b"\xff\xfe")),
        ("/target/../x", shown_path(b"/target/../x", b"target", b"..", b"x")),
        ("/target/", shown_path(b"/target/", b"target", b"")),
    ],
)
def test_paths_are_decoded_once_and_by_segment(server, target, lines):
    with server.connect() as sock:
        sock.sendall(ask(target))
        assert read_answer(sock)[2].decode().splitlines() == lines


@pytest.mark.parametrize(
    "query, value",
    [
        ("q=a+b%2Bc", b"a b+c"), ("q=%2Fa%2Fb", b"/a/b"), ("q=1&q=2", b"1"), ("q", b""), ("x=1&q=%ff", b"\xff"),
        ("q=a%00b", b"a\0b"), ("%71=named", b"named"), ("q=a=b%26", b"a=b&"), ("q=?/", b"?/"),
    ],
)  # fmt: skip
def test_query_values_are_decoded(server, query, value):
    with server.connect() as sock:
        sock.sendall(ask("/target?" + query))
        assert read_answer(sock)[2].decode().splitlines()[-1] == shown("q", value)


@pytest.mark.parametrize("target", ["/a%00b", "/%", "/%4", "/%zz", "/hello?q=%", "/hello?%g0", "*", "hello", "http://x/hello", "/a\tb"])
def test_targets_that_cannot_be_decoded_are_refused(server, target):
    with server.connect() as sock:
        sock.sendall(ask(target) + ask("/hello"))
        status, headers, body, rest = read_answer(sock)
        assert status == 400 and b'"code": "request.invalid"' in body
        assert read_answer(sock, rest)[2] == b"hello\n", "the connection goes on"
    assert server.counters()["heads"] == 2, "it was shown to nobody"


# ---- framing ----

BAD_HEADS = {
    "length and coding": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "two equal lengths": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
    "negative length": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "signed length": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
    "hex length": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na",
    "empty length": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
    "length of 2^63": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n",
    "other coding": b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding twice": b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space before the colon": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
    "NUL in a value": b"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "NUL in a name": b"GET /hello HTTP/1.1\r\nHost: a\r\nX\0Y: a\r\n\r\n",
    "NUL in the target": b"GET /hel\0lo HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in the last value": b"GET /hello HTTP/1.1\r\nHost: a\0b\r\n\r\n",
    "bare line feed": b"GET /hello HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "bare line feed at last": b"GET /hello HTTP/1.1\r\nX: b\r\nHost: a\n\r\n",
    "bare line feed at first": b"GET /hello HTTP/1.1\nHost: a\r\n\r\n",
    "bare line feed for the end": b"GET /hello HTTP/1.1\r\nHost: a\r\n\n",
    "bare carriage return": b"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
    "folded line": b"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    "folded length": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 3\r\n\r\nabc",
    "control character": b"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n",
    "no colon": b"GET /hello HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "no host": b"GET /hello HTTP/1.1\r\n\r\n",
    "space in the target": b"GET /hel lo HTTP/1.1\r\nHost: a\r\n\r\n",
    "two spaces": b"GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n",
    "strange method": b"G{T /hello HTTP/1.1\r\nHost: a\r\n\r\n",
    "broken chunk size": b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "signed chunk size": b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_conflicting_framing_is_refused_and_the_connection_closed(server, name):
    smuggled = ask("/target/smuggled")
    with server.connect() as sock:
        sock.sendall(BAD_HEADS[name] + smuggled)
        answer = read_until_closed(sock)
        # Where the library refuses a length by itself, it sends the head of its answer twice.
        assert set(PATTERN.findall(answer)) == {b"400"}, answer
        assert b"segment" not in answer


def test_a_length_beyond_64_bits_is_refused(server):
    with server.connect() as sock:
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n")
        assert set(PATTERN.findall(read_until_closed(sock))) == {b"413"}


def test_garbage_is_closed(server):
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"hello\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/3.0\r\n\r\n"):
        with server.connect() as sock:
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
            assert not read_until_closed(sock).startswith(b"HTTP/1.1 2")
    assert server.counters()["heads"] == 1


@pytest.mark.parametrize("size", [33, 48])
def test_a_head_that_is_somewhat_too_large_is_answered_with_431(server, size):
    with server.connect() as sock:
        sock.sendall(ask("/hello", headers=f"X: {'x' * size * 1024}\r\n"))
        status, _, body, _ = read_answer(sock)
        assert status == 431


def test_a_huge_head_is_answered_with_431(server):
    for headers in ("X: " + "x" * 200_000 + "\r\n", "X: y\r\n" * 10_000):
        with server.connect() as sock:
            try:
                sock.sendall(ask("/hello", headers=headers))
            except (ConnectionResetError, BrokenPipeError):
                pass
            assert PATTERN.findall(read_until_closed(sock)) == [b"431"]
    with server.connect() as sock:
        sock.sendall(ask("/hello", headers=f"X: {'x' * 30_000}\r\n"))
        assert read_answer(sock)[0] == 200


def test_a_huge_chunk_extension_is_not_kept(make_server):
    server = make_server(stall_seconds=1)
    with server.connect() as sock:
        sock.sendall(ask("/echo", "POST", "Transfer-Encoding: chunked\r\n") + b"1;" + b"x" * 200_000)
        time.sleep(0.1)
        start = _cpu_seconds(server)
        assert requests.get(f"{server.url}/hello").status_code == 200
        time.sleep(0.4)
        assert _cpu_seconds(server) - start < 0.1 * PATIENCE, "it spins"
        assert read_until_closed(sock) == b""


def _cpu_seconds(server: Server) -> float:
    fields = open(f"/proc/{server.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- bodies ----


def test_chunked_bodies_are_read(server):
    pieces = (b"abc", b"d" * 100_000, b"e")
    assert requests.post(f"{server.url}/echo", data=iter(pieces)).content == b"".join(pieces)
    with server.connect() as sock:
        sock.sendall(ask("/head", "POST", "Transfer-Encoding: chunked\r\n", b"3;x=y\r\nabc\r\n0\r\nTrailer: 1\r\n\r\n") + ask("/hello"))
        status, _, body, rest = read_answer(sock)
        assert b"length -1\n" in body
        assert read_answer(sock, rest)[2] == b"hello\n"


def test_expect_100_continue_is_answered(server):
    with server.connect() as sock:
        sock.sendall(ask("/echo", "POST", "Content-Length: 3\r\nExpect: 100-continue\r\n"))
        assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"abc")
        assert read_answer(sock)[2] == b"abc"


def test_a_refusal_of_an_expected_body_comes_without_the_body(server):
    with server.connect() as sock:
        sock.sendall(ask("/refuse", "POST", "Content-Length: 3\r\nExpect: 100-continue\r\n"))
        status, headers, _, _ = read_answer(sock)
        assert status == 401 and headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("target, status", [("/echo", 413), ("/refuse", 401)])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_refusal_waits_until_the_body_is_drained(server, target, status, is_chunked):
    body = b"x" * (15 * MIB)
    with requests.Session() as session:
        answer = session.post(server.url + target, data=iter([body]) if is_chunked else body)
        assert answer.status_code == status
        assert session.get(f"{server.url}/hello").status_code == 200
        assert connections_of(session) == 1
    assert server.resident("VmHWM") < server.resident() + 40 * MIB


def test_a_client_that_reads_only_after_sending_sees_the_refusal(server):
    with server.connect() as sock:
        sock.sendall(ask("/refuse", "POST", f"Content-Length: {MIB}\r\n"))
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(10)
        sock.sendall(b"x" * MIB)
        assert read_answer(sock)[0] == 401


def test_what_is_too_long_to_drain_is_refused_at_once(server):
    with server.connect() as sock:
        sock.sendall(ask("/echo", "POST", f"Content-Length: {1 << 40}\r\n"))
        assert read_answer(sock)[0] == 413
        assert read_until_closed(sock) == b""


def test_an_endless_chunked_body_is_cut(server):
    with server.connect() as sock:
        sock.sendall(ask("/echo", "POST", "Transfer-Encoding: chunked\r\n"))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(40):
                sock.sendall(b"100000\r\n" + b"x" * MIB + b"\r\n")
    assert server.counters()["heads"] == 2


@pytest.mark.parametrize("is_chunked", [False, True])
def test_200_mib_up_need_no_memory(server, is_chunked):
    block = bytes(range(256)) * 4096
    requests.get(f"{server.url}/hello")
    before = server.resident()
    size = 200 * len(block)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {} if is_chunked else {"Content-Length": str(size)}
    connection.request("PUT", "/sink", iter([block] * 200), headers, encode_chunked=is_chunked)
    answer = connection.getresponse().read().decode()
    connection.close()
    assert answer == f"{size} {sum(block) * 200 % (1 << 32)}\n"
    assert server.resident("VmHWM") < before + 8 * MIB


def test_a_body_waits_for_its_reader(server):
    """The sink pauses after each 10,000 bytes."""
    body = b"ab" * 100_000
    start = time.monotonic()
    assert requests.put(f"{server.url}/sink?ms=5", data=body).text == f"200000 {sum(body)}\n"
    assert time.monotonic() - start > 0.1


def test_a_stalled_body_stops_the_sender(server):
    before = server.resident()
    with server.connect() as sock:
        sock.sendall(ask("/sink?ms=100000", "PUT", f"Content-Length: {100 * MIB}\r\n"))
        sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            sock.sendall(b"x" * (50 * MIB))
        assert server.resident() < before + 4 * MIB
        assert server.counters()["gone"] == 0
        # An ordinary end would wait behind the bytes that nobody takes.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    wait_until(lambda: server.counters()["gone"] == 1, 1, "the hang-up was noticed")


def test_an_upload_may_be_refused_midway(server):
    answer = requests.put(f"{server.url}/sink?refuse={MIB}", data=b"x" * (40 * MIB))
    assert (answer.status_code, answer.text) == (507, "full\n")


# ---- streams ----


@pytest.mark.parametrize("suffix", ["", "&chunked"])
def test_200_mib_down_need_no_memory(server, suffix):
    requests.get(f"{server.url}/source?size=1")
    before = server.resident()
    size, start = 0, time.monotonic()
    with requests.get(f"{server.url}/source?size={200 * MIB}{suffix}", stream=True) as answer:
        assert answer.headers.get("Content-Length") == (None if suffix else str(200 * MIB))
        for piece in answer.iter_content(MIB):
            size += len(piece)
            assert piece.count(b"x") == len(piece)
    assert size == 200 * MIB
    assert server.resident("VmHWM") < before + 8 * MIB
    print(f"{200 / (time.monotonic() - start):.0f} MiB/s")


@pytest.mark.parametrize("suffix", ["", "&chunked"])
def test_a_slow_reader_grows_nothing_and_holds_nobody_up(server, suffix):
    before = server.resident()
    with server.connect(receive_buffer=4096) as sock:
        sock.sendall(ask(f"/source?size={1000 * MIB}{suffix}"))
        for _ in range(50):
            sock.recv(1000)
            start = time.monotonic()
            requests.get(f"{server.url}/hello")
            assert time.monotonic() - start < 0.5 * PATIENCE
        assert server.resident() < before + 8 * MIB
    wait_until(lambda: server.counters()["gone"] == 1, 1, "the hang-up was noticed")


def test_each_event_reaches_the_client_at_once(server):
    with server.connect() as sock:
        sock.sendall(ask("/events?n=6&ms=60"))
        seen = []
        while not seen or not seen[-1][1].endswith(b"0\r\n\r\n"):
            seen.append((time.monotonic(), sock.recv(65536)))
        assert seen[0][1].endswith(b"\r\n\r\n") and b"Transfer-Encoding: chunked" in seen[0][1]
        events = [(when, data) for when, data in seen if b"data:" in data]
        assert [data.split(b"\r\n")[1] for _, data in events] == [b"data: %d\n\n" % n for n in (6, 5, 4, 3, 2, 1)]
        gaps = [after - before for (before, _), (after, _) in zip(events, events[1:])]
        assert max(gaps) < 0.06 + 0.1 * PATIENCE, gaps


def test_a_stream_for_an_http_1_0_client_ends_with_the_connection(server):
    with server.connect() as sock:
        sock.sendall(b"GET /events?n=2&ms=5 HTTP/1.0\r\n\r\n")
        answer = read_until_closed(sock)
        assert b"chunked" not in answer and answer.endswith(b"\r\n\r\ndata: 2\n\ndata: 1\n\n")


@pytest.mark.parametrize("target", ["/source?size=100000&claim=200000", "/source?size=100000&chunked&abort", "/source?size=10&claim=20&abort"])
def test_a_stream_that_cannot_be_completed_is_cut(server, target):
    with pytest.raises(requests.exceptions.RequestException):
        requests.get(server.url + target).content
    assert requests.get(f"{server.url}/hello").status_code == 200


def test_a_stream_never_sends_more_than_it_claimed(server):
    with server.connect() as sock:
        sock.sendall(ask("/source?size=100000&claim=10") + ask("/hello"))
        _, _, body, rest = read_answer(sock)
        assert body == b"x" * 10
        assert read_answer(sock, rest)[2] == b"hello\n"


def test_a_write_larger_than_the_limit_is_taken_when_nothing_is_unsent(server):
    answer = requests.get(f"{server.url}/source?size={9 * MIB}&block={3 * MIB}&chunked")
    assert answer.content == b"x" * (9 * MIB)


def test_an_empty_stream_is_an_empty_answer(server):
    for target in ("/source?size=0", "/source?size=0&chunked"):
        assert requests.get(server.url + target).content == b""


# ---- clients that go away ----


@pytest.mark.parametrize(
    "target, method, headers",
    [
        ("/later?ms=60000", "GET", ""),
        ("/events?n=2&ms=60000", "GET", ""),
        (f"/source?size={100 * MIB}", "GET", ""),
        (f"/source?size={100 * MIB}&chunked", "GET", ""),
        ("/sink", "PUT", "Content-Length: 1000000\r\n"),
        ("/sink?ms=60000", "PUT", "Content-Length: 1000000\r\n"),
        ("/sink", "PUT", "Transfer-Encoding: chunked\r\n"),
    ],
)
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_client_that_hangs_up_is_noticed_at_once(server, target, method, headers, is_reset):
    with requests.Session() as session:
        sock = server.connect()
        sock.sendall(ask(target, method, headers, b"400\r\n" + b"x" * 500 if headers else b""))
        wait_until(lambda: not is_all_done(server.counters(session)), 5, "the request arrived")
        if is_reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        start = time.monotonic()
        sock.close()
        while server.counters(session)["gone"] == 0:
            assert time.monotonic() - start < 0.1 * PATIENCE
        wait_until(lambda: is_all_done(server.counters(session)), 1, "all requests are done")
        assert server.counters(session)["gone"] == 1


def test_a_client_that_only_sends_no_more_still_gets_what_is_ready(server):
    with server.connect() as sock:
        sock.sendall(ask("/hello"))
        sock.shutdown(socket.SHUT_WR)
        assert read_until_closed(sock).endswith(b"hello\n")


def test_a_client_that_only_sends_no_more_is_gone_where_it_would_have_to_wait(server):
    for first in (b"", ask("/hello")):
        with server.connect() as sock:
            sock.sendall(first + ask("/later?ms=60000"))
            sock.shutdown(socket.SHUT_WR)
            assert b"later" not in read_until_closed(sock)
    wait_until(lambda: server.counters()["gone"] == 2, 1, "the hang-up was noticed")


def test_hanging_up_between_requests_disturbs_nobody(server):
    for _ in range(20):
        with server.connect() as sock:
            sock.sendall(ask("/hello"))
            read_answer(sock)
    assert server.counters()["gone"] == 0


# ---- slow clients ----


def test_a_head_that_never_ends_is_cut(make_server):
    server = make_server(stall_seconds=1, idle_seconds=60)
    for first in (b"", b"GET", b"GET /hello HTTP/1.1\r\nHost: a\r\n"):
        with server.connect() as sock:
            start = time.monotonic()
            sock.sendall(first)
            sock.settimeout(0.1)
            while time.monotonic() - start < 5 * PATIENCE:  # a byte now and then does not help
                try:
                    if sock.recv(100) == b"":
                        break
                except TimeoutError:
                    pass
                except ConnectionResetError:
                    break
                try:
                    sock.sendall(b"X" if first else b"")
                except OSError:
                    break
            assert 0.9 < time.monotonic() - start < 1 + 2 * PATIENCE
    assert requests.get(f"{server.url}/hello").status_code == 200


def test_a_later_head_that_never_ends_is_cut(make_server):
    server = make_server(stall_seconds=1, idle_seconds=60)
    with server.connect() as sock:
        sock.sendall(ask("/hello"))
        read_answer(sock)
        time.sleep(1.5)
        sock.sendall(b"GET /he")
        start = time.monotonic()
        assert sock.recv(10) == b""
        assert 0.9 < time.monotonic() - start < 1 + 2 * PATIENCE


def test_a_body_that_stalls_is_cut(make_server):
    server = make_server(stall_seconds=1, idle_seconds=60)
    for target in ("/sink", "/echo", "/refuse"):
        with server.connect() as sock:
            sock.sendall(ask(target, "PUT", "Content-Length: 10\r\n", b"abc"))
            start = time.monotonic()
            assert read_until_closed(sock) == b""
            assert 0.9 < time.monotonic() - start < 1 + 2 * PATIENCE
    assert server.counters()["gone"] == 1  # who streams a body is told; the others have nothing to undo


def test_a_body_that_goes_on_is_not_cut(make_server):
    server = make_server(stall_seconds=1, idle_seconds=1)
    with server.connect() as sock:
        sock.sendall(ask("/echo", "POST", "Content-Length: 6\r\n"))
        for _ in range(6):
            time.sleep(0.5)
            sock.sendall(b"a")
        assert read_answer(sock)[2] == b"aaaaaa"


def test_a_pending_answer_and_a_quiet_stream_are_never_timed_out(make_server):
    server = make_server(stall_seconds=1, idle_seconds=1)
    sockets = [server.connect() for _ in range(3)]
    for sock, target in zip(sockets, ("/later?ms=2500", "/events?n=1&ms=2500", "/sink?ms=2500")):
        sock.sendall(ask(target, "PUT", "Content-Length: 1\r\n", b"a"))
    assert read_answer(sockets[0])[2] == b"later\n"
    assert b"data: 1" in sockets[1].recv(65536) + sockets[1].recv(65536)
    assert read_answer(sockets[2])[2] == b"1 97\n"
    for sock in sockets:
        sock.close()


def test_an_idle_connection_is_kept_for_its_time(make_server):
    server = make_server(stall_seconds=1, idle_seconds=3)
    with server.connect() as sock:
        for _ in range(2):
            sock.sendall(ask("/hello"))
            assert read_answer(sock)[0] == 200
            time.sleep(1.8)
        start = time.monotonic()
        assert sock.recv(10) == b""
        assert 0.8 < time.monotonic() - start < 2 + 2 * PATIENCE


def test_a_reader_that_stops_is_cut_in_the_end(make_server):
    server = make_server(idle_seconds=1)
    with server.connect(receive_buffer=4096) as sock:
        sock.sendall(ask(f"/source?size={100 * MIB}"))
        wait_until(lambda: server.counters()["gone"] == 1, 5, "it was given up")


# ---- many ----


def test_200_clients_at_once(server):
    problems = []

    def visit(number: int):
        try:
            with requests.Session() as session:
                for i in range(5):
                    body = f"{number} {i} ".encode() * 1000
                    assert session.get(f"{server.url}/later?ms=10").text == "later\n"
                    assert session.post(f"{server.url}/echo", data=body).content == body
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=visit, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert server.counters()["requests"] == 2001


def test_200_pending_requests_at_once(server):
    sockets = [server.connect() for _ in range(200)]
    for sock in sockets:
        sock.sendall(ask("/later?ms=500"))
    start = time.monotonic()
    for sock in sockets:
        assert read_answer(sock)[2] == b"later\n"
        sock.close()
    assert time.monotonic() - start < 0.5 + PATIENCE


def test_connections_beyond_the_limit_wait_for_their_turn(make_server):
    server = make_server(connections=3)
    sockets = [server.connect() for _ in range(3)]
    for sock in sockets:
        sock.sendall(ask("/hello"))
        assert read_answer(sock)[0] == 200
    with server.connect() as late:
        late.sendall(ask("/hello"))
        late.settimeout(0.3)
        with pytest.raises(TimeoutError):
            late.recv(1)
        start = _cpu_seconds(server)
        time.sleep(0.3)
        assert _cpu_seconds(server) - start < 0.1, "it spins"
        sockets.pop().close()
        late.settimeout(10)
        assert read_answer(late)[0] == 200
    for sock in sockets:
        sock.close()


@pytest.mark.parametrize("sent", [b"", b"GET /hello HTTP/1.1\r\nHost: x\r\n", ask("/hello")], ids=["nothing", "half a head", "a request"])
def test_idle_connections_make_room_for_new_ones(make_server, sent):
    server = make_server(connections=16)
    with server.connect() as working:
        working.sendall(ask("/later?ms=50000"))  # at work
        sockets = []
        for _ in range(40):
            sockets.append(server.connect())
            sockets[-1].sendall(sent)
            if sent.endswith(b"\r\n\r\n"):
                assert read_answer(sockets[-1])[0] == 200
        with server.connect() as late:
            late.sendall(ask("/hello"))
            assert read_answer(late)[0] == 200
        working.settimeout(0.2)
        with pytest.raises(TimeoutError):
            working.recv(1)
        for sock in sockets:
            sock.close()


def test_an_idle_server_does_nothing(server):
    with server.connect() as idle, server.connect() as pending, server.connect() as quiet:
        idle.sendall(ask("/hello"))
        read_answer(idle)
        pending.sendall(ask("/later?ms=60000"))
        quiet.sendall(ask("/events?n=1&ms=60000"))
        quiet.recv(1000)
        before = _cpu_seconds(server)
        time.sleep(0.5)
        assert _cpu_seconds(server) - before <= 0.02


def test_an_end_with_requests_in_flight_leaks_nothing(server):
    flights = [
        ask("/later?ms=60000"), ask("/events?n=9&ms=60000"), ask(f"/source?size={100 * MIB}"),
        ask(f"/source?size={100 * MIB}&chunked"), ask("/sink", "PUT", "Content-Length: 10\r\n", b"abc"),
        ask("/sink?ms=60000", "PUT", "Content-Length: 10\r\n", b"abc"), ask("/echo", "PUT", "Content-Length: 10\r\n", b"abc"),
        ask("/refuse", "PUT", "Content-Length: 10\r\n", b"abc"), ask("/hello"), b"GET /hello HTTP/1.1\r\nHost:", b"",
    ]  # fmt: skip
    sockets = [server.connect() for _ in flights]
    for sock, flight in zip(sockets, flights):
        sock.sendall(flight)
    wait_until(lambda: server.counters()["heads"] >= len(flights) - 2, 5, "all requests arrived")
    log = server.stop()
    heads, done, gone = re.search(r"heads (\d+) done (\d+) gone (\d+)", log).groups()
    assert heads == done and int(gone) == 6
    for sock in sockets:
        sock.close()
