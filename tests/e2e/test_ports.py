"""Servers inside a sandbox seen from outside: by path, by preview host, by preview token; well and ill-behaved ones."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
from urllib.parse import urlsplit

import pytest
from daemon import PATIENCE, wait_until
from ws import ACCEPT, BINARY, TEXT, Refused, WebSocket, frame

# A server that answers each connection with the bytes of a file (a raw answer), and keeps what it was sent.
RAW = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(20)
while True:
    c, _ = s.accept()
    got = b""
    while b"\\r\\n\\r\\n" not in got:
        part = c.recv(65536)
        if not part: break
        got += part
    open("/workspace/got", "wb").write(got)
    try: c.sendall(open("/workspace/answer", "rb").read())
    except OSError: pass
    c.close()
"""

# One that knows what a request's path asks for.
APP = """
import base64, hashlib, json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def answer(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name.replace("_", "-"), one)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(body)
    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            got = b""
            while size := int(self.rfile.readline(), 16):
                got += self.rfile.read(size); self.rfile.readline()
            self.rfile.readline()
            return got
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))
    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/show":
            body = self.body()
            told = {"method": self.command, "path": self.path, "headers": [list(h) for h in self.headers.items()],
                    "size": len(body), "sha": hashlib.sha256(body).hexdigest()}
            self.answer(json.dumps(told).encode(), Content_Type="application/json")
        elif path == "/events":
            self.send_response(200); self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            for i in range(3):
                part = b"data: %d\\n\\n" % i
                self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(part), part)); self.wfile.flush()
                if i < 2: time.sleep(0.5)
            self.wfile.write(b"0\\r\\n\\r\\n")
        elif path == "/endless":
            self.send_response(200); self.end_headers()
            try:
                while True: self.wfile.write(b"z" * 65536)
            except OSError:
                open("/workspace/stopped", "w").close()
        elif path == "/large":
            self.answer(b"y" * 30000000)
        elif path == "/empty":
            self.send_response(204); self.end_headers()
        elif path == "/unchanged":
            self.send_response(304); self.send_header("ETag", '"a"'); self.end_headers()
        elif path == "/teapot":
            self.answer(b"short and stout", 418, X_Odd="a\\tb", X_Empty="", Location="/elsewhere",
                Set_Cookie=["a=1; Domain=localhost; Path=/", "b=2; domain=.example.com; HttpOnly"],
                Service_Worker_Allowed="/", Connection="X-Hop", X_Hop="1", Keep_Alive="timeout=5",
                Strict_Transport_Security="max-age=1", Access_Control_Allow_Origin="*", Clear_Site_Data='"*"',
                Alt_Svc='h3=":1"', Content_Security_Policy="default-src 'self'", Referrer_Policy="unsafe-url",
                Access_Control_Allow_Credentials="true")
        elif path == "/hang":
            time.sleep(1000)
        elif path == "/refuse":
            self.send_response(413); self.send_header("Content-Length", "3"); self.end_headers()
            self.wfile.write(b"no\\n"); self.close_connection = True
        elif path == "/socket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101); self.send_header("Upgrade", "websocket"); self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.send_header("Sec-WebSocket-Protocol", "chat"); self.send_header("X-Other", "no"); self.end_headers()
            self.wfile.write(b"\\x81\\x05first"); self.wfile.flush()
            while part := self.connection.recv(65536): self.connection.sendall(part)
            self.close_connection = True
        else:
            self.answer(b"at " + self.path.encode())
    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_PURGE = do_GET

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), App).serve_forever()
"""


def serve(box, code: str, port: int) -> None:
    box.filesystem.write(f"/workspace/server-{port}.py", code)
    box.exec(f"nohup python3 /workspace/server-{port}.py {port} >/workspace/log-{port} 2>&1 &")
    probe = f"for i in $(seq 200); do (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null && exit 0; sleep 0.05; done; cat log-{port}; exit 1"
    done = box.exec(f"bash -c '{probe}'")
    assert done.exit_code == 0, done.stdout


@pytest.fixture(scope="module")
def app_box(daemon):
    """A sandbox with App on port 3000, for tests that only ask."""
    from pandastack import Client

    sandbox = Client(api_url=daemon.url, api_key=daemon.key).sandboxes.create(ttl_seconds=600)
    serve(sandbox, APP, 3000)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def by_path(daemon, app_box):
    return f"{daemon.url}/v1/sandboxes/{app_box.id}/proxy/3000"


def by_host(daemon, box, port=3000, name="localhost"):
    """Session and base URL of a preview host; no key."""
    import requests

    session = requests.Session()
    session.headers["Host"] = f"{port}-{box.id}.{name}"
    return session, daemon.url


@pytest.fixture(params=["path", "host", "token"])
def seen(request, daemon, app_box, api, by_path):
    """seen(method, "/x", …): the same server in each way it can be seen; seen.kind says which."""
    import requests

    session, base = requests.Session(), by_path
    if request.param == "path":
        session.headers["Authorization"] = f"Bearer {daemon.key}"
    elif request.param == "host":
        session, base = by_host(daemon, app_box)
    else:
        base = api.post(f"/sandboxes/{app_box.id}/preview-token", json={"port": 3000}).json()["url"].rstrip("/")

    def ask(method, path, **options):
        options.setdefault("timeout", 30 * PATIENCE)
        options.setdefault("allow_redirects", False)
        return session.request(method, base + path, **options)

    ask.kind, ask.base, ask.session = request.param, base, session
    yield ask
    session.close()


def shown_headers(answer) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.json()["headers"]}


# ---------------------------------------------------------------- the list


def test_ports_are_listed_as_they_come_and_go(api, box):
    assert api.get(f"/sandboxes/{box.id}/ports").json() == []
    box.exec("nohup python3 -m http.server 8001 --bind 127.0.0.1 >/dev/null 2>&1 &")
    wait_until(lambda: api.get(f"/sandboxes/{box.id}/ports").json(), 20, "a port is listed")
    port = api.get(f"/sandboxes/{box.id}/ports").json()[0]
    assert (port["port"], port["listening"], port["source"]) == (8001, True, "detected")
    assert api.get(port["proxy_url"]).status_code == 200
    box.exec("pkill -f 'http.server 8001'")
    wait_until(lambda: api.get(f"/sandboxes/{box.id}/ports").json() == [], 20, "it is gone")


def test_a_declared_port_is_kept_with_its_label(api, box):
    made = api.post(f"/sandboxes/{box.id}/ports", json={"port": 3000, "label": "the äpp"})
    assert made.status_code == 201
    entry = {"port": 3000, "label": "the äpp", "listening": False, "source": "declared"}
    assert {k: v for k, v in made.json().items() if k != "proxy_url"} == entry
    api.post(f"/sandboxes/{box.id}/ports", json={"port": 80})
    assert [p["port"] for p in api.get(f"/sandboxes/{box.id}/ports").json()] == [80, 3000]
    serve(box, APP, 3000)
    listed = api.get(f"/sandboxes/{box.id}/ports").json()[1]
    assert listed["listening"] and listed["source"] == "declared" and listed["label"] == "the äpp"
    assert box.preview_urls().keys() >= {80, 3000}
    assert api.delete(f"/sandboxes/{box.id}/ports/80").status_code == 204
    assert api.delete(f"/sandboxes/{box.id}/ports/80").json()["code"] == "port.not_found"
    assert [p["port"] for p in api.get(f"/sandboxes/{box.id}/ports").json()] == [3000]


def test_declared_ports_outlive_a_restart_of_the_api(own_daemon):
    import requests

    daemon = own_daemon()
    headers = {"Authorization": f"Bearer {daemon.key}"}
    box = requests.post(f"{daemon.url}/v1/sandboxes", json={}, headers=headers, timeout=20).json()["id"]
    requests.post(f"{daemon.url}/v1/sandboxes/{box}/ports", json={"port": 5}, headers=headers, timeout=20)
    token = requests.post(f"{daemon.url}/v1/sandboxes/{box}/preview-token", json={"port": 5}, headers=headers, timeout=20).json()
    os.kill(daemon.process("api").pid, 9)
    ports = requests.get(f"{daemon.url}/v1/sandboxes/{box}/ports", headers=headers, timeout=20).json()
    assert [p["port"] for p in ports] == [5]
    assert requests.get(token["url"], timeout=20).json()["code"] == "proxy.port_closed"  # and the seal still holds


@pytest.mark.parametrize(
    "body, word",
    [
        ({}, "port"), ({"port": 0}, "port"), ({"port": 65536}, "port"), ({"port": "80"}, "port"), ({"port": 1.5}, "port"),
        ({"port": 1, "label": 5}, "label"), ({"port": 1, "label": "x" * 65}, "label"), ({"port": 1, "label": "a\0"}, "label"),
        ({"port": 1, "name": "x"}, "name"),
    ],
)
def test_a_wrong_declaration_names_the_field(api, box, body, word):
    answer = api.post(f"/sandboxes/{box.id}/ports", json=body)
    assert answer.status_code == 400 and word in answer.json()["error"]


def test_declarations_are_bounded(api, box):
    for port in range(1, 65):
        assert api.post(f"/sandboxes/{box.id}/ports", json={"port": port}).status_code == 201
    assert api.post(f"/sandboxes/{box.id}/ports", json={"port": 65}).json()["code"] == "port.too_many"
    assert api.post(f"/sandboxes/{box.id}/ports", json={"port": 64, "label": "again"}).status_code == 201


@pytest.mark.parametrize("port", ["0", "65536", "080", "x", "-1", "80%20", ""])
def test_a_port_that_is_none_is_refused(api, box, port):
    assert api.delete(f"/sandboxes/{box.id}/ports/{port}").status_code == 400
    assert api.get(f"/sandboxes/{box.id}/proxy/{port}/").status_code == 400


def test_looking_at_ports_is_no_use_but_asking_a_server_is(api, daemon, app_box):
    idle = lambda: api.get(f"/sandboxes/{app_box.id}/lifecycle").json()["idle_seconds"]
    wait_until(lambda: idle() >= 1, 10, "it is idle")
    api.get(f"/sandboxes/{app_box.id}/proxy/3000/")
    assert idle() == 0


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE"])
def test_any_method_is_passed_on(seen, method):
    told = seen(method, "/show?a=b%20c&d", data=b"body" if method != "GET" else None).json()
    assert told["method"] == method and told["path"] == "/show?a=b%20c&d"
    assert told["size"] == (4 if method != "GET" else 0)


@pytest.mark.parametrize("path", ["/a%2Fb", "/%C3%A4", "/a//b/", "/~x;y=1", "/a+b?q=%26", "/?"])
def test_the_target_is_passed_on_as_it_is(seen, path):
    assert seen("GET", path).text.rstrip("?") == f"at {path}".rstrip("?")


def test_head_has_no_body_but_its_length(seen):
    answer = seen("HEAD", "/large")
    assert answer.headers["Content-Length"] == "30000000" and answer.content == b""
    assert seen("GET", "/x").text == "at /x"


def test_a_path_without_slash_is_the_root(api, app_box):
    assert api.get(f"/sandboxes/{app_box.id}/proxy/3000").text == "at /"
    assert api.get(f"/sandboxes/{app_box.id}/proxy/3000?x=1").text == "at /?x=1"


@pytest.mark.parametrize("size", [0, 1, 100000, 20000000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_arrives_whole(seen, size, is_chunked):
    import hashlib

    body = os.urandom(size)
    pieces = (body[i:i + 70000] for i in range(0, size, 70000))
    told = seen("POST", "/show", data=pieces if is_chunked else body).json()
    assert told["size"] == size and told["sha"] == hashlib.sha256(body).hexdigest()


def test_a_large_answer_arrives_whole(seen):
    assert seen("GET", "/large").content == b"y" * 30000000


def test_the_head_of_what_has_no_length_is_followed_by_nothing(seen):
    for _ in range(3):
        answer = seen("HEAD", "/events")
        assert answer.status_code == 200 and answer.content == b""
        assert seen("GET", "/x").text == "at /x"


@pytest.mark.parametrize("path, status", [("/empty", 204), ("/unchanged", 304)])
def test_answers_without_a_body(seen, path, status):
    answer = seen("GET", path)
    assert answer.status_code == status and answer.content == b""
    assert seen("GET", "/x").text == "at /x"


def test_events_come_when_they_are_sent(seen):
    begun, times = time.monotonic(), []
    for line in seen("GET", "/events", stream=True).iter_lines():
        if line:
            times.append(time.monotonic() - begun)
    assert len(times) == 3 and times[0] < 0.4 * PATIENCE and times[2] > 0.9


def test_an_early_refusal_reaches_who_still_uploads(seen):
    answer = seen("POST", "/refuse", data=b"x" * 8000000)
    assert answer.status_code == 413 and answer.text == "no\n"


def test_who_stops_reading_stops_the_server(daemon, box, api):
    serve(box, APP, 3000)
    answer = api.get(f"/sandboxes/{box.id}/proxy/3000/endless", stream=True)
    next(answer.iter_content(1000))
    api_pid = daemon.process("api").pid

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{api_pid}/status").read())[1])

    time.sleep(1)
    before = resident()
    time.sleep(1)
    assert resident() - before < 2048
    answer.close()
    wait_until(lambda: box.filesystem.exists("/workspace/stopped"), 20, "the server hears of it")


# ---------------------------------------------------------------- headers


def test_what_the_server_is_told(seen, daemon, app_box):
    sent = {
        "X-Own": "1", "Connection": "X-Secret, keep-alive", "X-Secret": "s", "Keep-Alive": "5", "TE": "trailers",
        "Proxy-Authorization": "Basic x", "X-Forwarded-Host": "forged", "X-Forwarded-For": "forged", "Forwarded": "for=x",
        "Referer": "http://somewhere/", "Cookie": "a=1; sandglass_preview=t", "X-Preview-Token": "t",
        "Authorization": f"Bearer {daemon.key}",
    }
    told = shown_headers(seen("GET", "/show", headers=sent))
    assert told["x-own"] == "1" and told["connection"] == "close"
    for name in ("x-secret", "keep-alive", "te", "proxy-authorization", "x-forwarded-for", "forwarded", "authorization", "x-preview-token"):
        assert name not in told
    assert daemon.key not in json.dumps(told)
    host = f"3000-{app_box.id}.localhost"
    if seen.kind == "host":
        assert told["host"] == told["x-forwarded-host"] == host
        assert told["referer"] == "http://somewhere/" and told["cookie"] == "a=1"
    else:
        assert told["host"] == "localhost:3000" and "referer" not in told and "x-forwarded-host" not in told
        assert told.get("cookie") == ("a=1" if seen.kind == "path" else None)
    assert told.get("x-forwarded-prefix") == (urlsplit(seen.base).path if seen.kind == "path" else None)


def test_a_proxy_in_front_may_say_that_it_does_tls(seen, api, app_box):
    assert shown_headers(seen("GET", "/show"))["x-forwarded-proto"] == "http"
    told = shown_headers(seen("GET", "/show", headers={"X-Forwarded-Proto": "https"}))
    assert told["x-forwarded-proto"] == "https"
    made = api.post(f"/sandboxes/{app_box.id}/preview-token", json={"port": 1}, headers={"X-Forwarded-Proto": "https"})
    assert made.json()["url"].startswith("https://")


def test_another_authorization_is_the_servers_own(seen):
    told = shown_headers(seen("GET", "/show", headers={"Authorization": "Basic dTpw"})) if seen.kind != "path" else {}
    assert told.get("authorization") == ("Basic dTpw" if seen.kind != "path" else None)


def test_a_body_is_announced_only_where_there_is_one(seen):
    told = shown_headers(seen("GET", "/show"))
    assert "content-length" not in told and "transfer-encoding" not in told
    assert shown_headers(seen("POST", "/show", data=b""))["content-length"] == "0"


def test_what_the_client_is_told(seen):
    answer = seen("GET", "/teapot")
    headers = answer.headers
    assert answer.status_code == 418 and answer.text == "short and stout" and headers["X-Odd"] == "a b"
    for name in ("X-Hop", "Service-Worker-Allowed", "Alt-Svc", "Server-Sent"):
        assert name not in headers
    assert headers.get("Connection", "").lower() != "x-hop" and "Keep-Alive" not in headers
    cookies = answer.raw.headers.getlist("Set-Cookie")
    assert "omain" not in " ".join(cookies)
    shares_origin = ("Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Strict-Transport-Security", "Clear-Site-Data")
    if seen.kind == "host":
        assert cookies == ["a=1; Path=/", "b=2; HttpOnly"] and headers["Location"] == "/elsewhere"
        assert headers["Content-Security-Policy"] == "default-src 'self'" and headers["Access-Control-Allow-Origin"] == "*"
        return
    prefix = urlsplit(seen.base).path
    assert headers["Location"] == f"{prefix}/elsewhere"
    assert re.fullmatch(r"default-src 'self', sandbox (?!.*allow-same-origin).*", headers["Content-Security-Policy"])
    assert not any(name in headers for name in shares_origin)
    if seen.kind == "path":
        assert cookies == [f"a=1; Path={prefix}/", f"b=2; HttpOnly; Path={prefix}/"]
    else:
        assert cookies == [] and headers["Referrer-Policy"] == "no-referrer"


# ---------------------------------------------------------------- ill-behaved servers


@pytest.fixture(scope="module")
def raw_box(daemon):
    from pandastack import Client

    sandbox = Client(api_url=daemon.url, api_key=daemon.key).sandboxes.create(ttl_seconds=600)
    sandbox.filesystem.write("/workspace/answer", b"HTTP/1.1 204 x\r\n\r\n")
    serve(sandbox, RAW, 4000)
    yield sandbox
    sandbox.kill()


def answered(api, raw_box, answer: bytes, **options):
    raw_box.filesystem.write("/workspace/answer", answer)
    return api.request(options.pop("method", "GET"), f"/sandboxes/{raw_box.id}/proxy/4000/", allow_redirects=False, **options)


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"<html>no head</html>", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 200 OK", OK,
        OK + b"X: " + b"a" * 1000000 + b"\r\n\r\n",
        OK + b"X: a\r\n" * 300 + b"\r\n",
        OK + b"X: a\rSet-Cookie: forged=1\r\n\r\n",
        OK + b"X: a\0b\r\n\r\n", OK + b"X: a\r\n folded\r\n\r\n", OK + b"X : a\r\n\r\n", OK + b"no colon\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\nx", OK + b"Content-Length: -5\r\n\r\n",
        b"HTTP/1.1 700 Odd\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    ],
    ids=lambda answer: repr(answer[:60]),
)
def test_an_answer_that_is_none_is_a_502_of_ours(api, raw_box, answer):
    got = answered(api, raw_box, answer)
    assert got.status_code == 502 and got.json()["code"] == "proxy.upstream"
    assert "Set-Cookie" not in got.headers
    assert not re.search("connection refused|no route to host|i/o timeout", got.text)


def test_interim_answers_are_skipped(api, raw_box):
    answer = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nok"
    assert answered(api, raw_box, answer).text == "ok"


@pytest.mark.parametrize(
    "answer, text",
    [
        (b"HTTP/1.0 200 OK\n\nto the end", "to the end"),
        (OK + b"\r\nto the end", "to the end"),
        (OK + b"Content-Length: 2\r\n\r\nokmore that nobody asked for", "ok"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\nHTTP/1.1 200", "ok!"),
        (OK + b"Content-Length: 0\r\n\r\n", ""),
        (OK + b"X: " + b"a" * 30000 + b"\r\nContent-Length: 2\r\n\r\nok", "ok"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_bodies_end_where_they_end(api, raw_box, answer, text):
    assert answered(api, raw_box, answer).text == text


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 10\r\n\r\nshort",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"x" * 10000 + b"\r\nhello\r\n0\r\n\r\n",
    ],
    ids=lambda answer: repr(answer[-30:]),
)
def test_a_body_that_breaks_off_breaks_the_connection(api, raw_box, answer):
    import requests

    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        got = answered(api, raw_box, answer)
        if got.headers.get("Content-Length") == "10" and len(got.content) < 10:  # an old requests does not tell
            raise requests.ConnectionError


def test_nothing_a_client_sends_adds_a_line(api, daemon, raw_box):
    raw_box.filesystem.write("/workspace/answer", OK + b"Content-Length: 0\r\n\r\n")
    port = urlsplit(daemon.url).port
    for target in (b"/a%0d%0aX-Forged:%201", b"/a%00b", b"/?a%0d%0aX-Forged:1"):
        with socket.create_connection(("127.0.0.1", port), 20) as sock:
            sock.sendall(
                b"GET /v1/sandboxes/%s/proxy/4000%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
                % (raw_box.id.encode(), target, daemon.key.encode())
            )
            status = int(sock.recv(4096).split()[1])
        if status == 200:
            assert b"\nX-Forged" not in raw_box.filesystem.read("/workspace/got")
    for name, value in (("X", "a\x01b"), ("X", "a\rb")):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.putrequest("GET", f"/v1/sandboxes/{raw_box.id}/proxy/4000/")
        connection._buffer.append(f"{name}: {value}".encode())
        connection.putheader("Authorization", f"Bearer {daemon.key}")
        connection.endheaders()
        assert connection.getresponse().status == 400


# ---------------------------------------------------------------- who may ask, and when not


def test_a_closed_port_is_told_from_a_broken_server(api, daemon, app_box):
    answer = api.get(f"/sandboxes/{app_box.id}/proxy/3001/")
    assert answer.status_code == 502 and answer.json()["code"] == "proxy.port_closed"
    session, base = by_host(daemon, app_box, 3001)
    assert session.get(base, timeout=20).json()["code"] == "proxy.port_closed"


def test_the_path_needs_a_key_and_the_right_sandbox(daemon, api, by_path):
    import requests

    assert requests.get(f"{by_path}/", timeout=20).status_code == 401
    assert requests.get(f"{by_path}/?access_token={daemon.key}", timeout=20).status_code == 401
    assert api.get(f"/sandboxes/{'0' * 32}/proxy/3000/").status_code == 404
    assert api.get(f"{by_path}/", headers={"Origin": "http://evil.test"}).status_code == 403


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "sandbox.example:8080"])
def test_a_preview_host_needs_its_id_only(daemon, app_box, name):
    session, base = by_host(daemon, app_box, name=name)
    assert session.get(f"{base}/v1/sandboxes", timeout=20).text == "at /v1/sandboxes"
    assert session.get(f"{base}/healthz", timeout=20).text == "at /healthz"
    assert session.post(f"{base}/x", headers={"Origin": "http://evil.test"}, data="x", timeout=20).text == "at /x"


@pytest.mark.parametrize("host", ["3000-{id}", "03000-{id}.localhost", "0-{id}.localhost", "99999-{id}.evil", "x-{id}.evil"])
def test_what_is_no_preview_host_is_an_ordinary_one(daemon, app_box, host):
    import requests

    answer = requests.get(f"{daemon.url}/v1/me", headers={"Host": host.format(id=app_box.id)}, timeout=20)
    assert answer.status_code in (401, 403)


def test_an_id_that_is_none_is_404(daemon):
    import requests

    answer = requests.get(daemon.url, headers={"Host": f"3000-{'0' * 32}.localhost"}, timeout=20)
    assert answer.status_code == 404 and answer.json()["code"] == "sandbox.not_found"


def test_the_end_of_the_sandbox_ends_what_is_under_way(api, daemon, box):
    import threading

    serve(box, APP, 3000)
    got = []
    asking = threading.Thread(target=lambda: got.append(api.get(f"/sandboxes/{box.id}/proxy/3000/hang")))
    asking.start()
    socket_ = WebSocket(f"{daemon.url}/v1/sandboxes/{box.id}/proxy/3000/socket", key=daemon.key)
    assert socket_.receive() == "first"
    time.sleep(0.3)
    box.kill()
    asking.join(20)
    assert got[0].status_code == 410 and got[0].json()["code"] == "sandbox.ended"
    with pytest.raises((EOFError, ConnectionResetError)):
        socket_.receive_frame()


def test_a_client_that_leaves_is_noticed_inside(api, box):
    import requests

    serve(box, RAW.replace("c.sendall(open", "c.recv(1); open('/workspace/left', 'w'); (open"), 4000)
    with pytest.raises(requests.Timeout):
        api.get(f"/sandboxes/{box.id}/proxy/4000/", timeout=0.5)
    wait_until(lambda: box.filesystem.exists("/workspace/left"), 10, "the server sees the end")


def test_strangers_cannot_use_up_the_sandbox(api, daemon, box):
    serve(box, APP, 3000)
    port = urlsplit(daemon.url).port
    held = []
    for _ in range(140):
        sock = socket.create_connection(("127.0.0.1", port), 20)
        sock.sendall(b"GET /hang HTTP/1.1\r\nHost: 3000-%s.localhost\r\n\r\n" % box.id.encode())
        held.append(sock)
    session, base = by_host(daemon, box)
    wait_until(lambda: session.get(f"{base}/", timeout=20).status_code == 503, 20, "no more are taken")
    assert box.exec("echo fine").stdout == "fine\n"
    for sock in held:
        sock.close()
    wait_until(lambda: session.get(f"{base}/", timeout=20).status_code == 200, 20, "there is room again")


def test_nothing_is_left_open(daemon, app_box, seen):
    def open_files():
        return len(os.listdir(f"/proc/{daemon.process('api').pid}/fd"))

    seen("GET", "/x")
    before = open_files()
    for path in ("/x", "/large", "/empty", "/refuse", "/teapot"):
        seen("GET", path)
    for _ in range(3):
        WebSocket(f"{seen.base}/socket", headers=ws_headers(seen)).close()
    wait_until(lambda: open_files() <= before, 10, "all descriptors are closed")


# ---------------------------------------------------------------- WebSockets through


def ws_headers(seen) -> dict[str, str]:
    return {k: v for k, v in seen.session.headers.items() if k in ("Authorization", "Host")}


def test_a_websocket_goes_through(seen):
    with WebSocket(f"{seen.base}/socket", headers={**ws_headers(seen), "Sec-WebSocket-Protocol": "chat"}) as sock:
        assert sock.headers["sec-websocket-accept"] == ACCEPT and sock.headers["sec-websocket-protocol"] == "chat"
        assert "x-other" not in sock.headers
        assert sock.receive() == "first"
        sent = frame(BINARY, os.urandom(70000))
        sock.socket.sendall(sent)
        assert sock._take(len(sent)) == sent


def test_what_comes_together_with_the_handshake_goes_through(seen):
    sent = frame(TEXT, b"early")
    with WebSocket(f"{seen.base}/socket", headers=ws_headers(seen), together=sent) as sock:
        assert sock.receive() == "first"
        assert sock._take(len(sent)) == sent


def test_a_tunnel_holds_back_who_is_faster(seen, daemon):
    api_pid = daemon.process("api").pid
    with WebSocket(f"{seen.base}/socket", headers=ws_headers(seen)) as sock:
        before = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{api_pid}/status").read())[1])
        sock.socket.settimeout(1.5)
        with pytest.raises(TimeoutError):
            while True:
                sock.socket.sendall(b"x" * 1000000)
        after = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{api_pid}/status").read())[1])
        assert after - before < 4096


def test_an_upgrade_may_bring_the_key_in_the_query_and_the_server_never_sees_it(daemon, by_path, raw_box):
    raw_box.filesystem.write("/workspace/answer", b"HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n")
    url = f"{daemon.url}/v1/sandboxes/{raw_box.id}/proxy/4000/x?a=1&access_token={daemon.key}&b=2"
    with pytest.raises(Refused, match="404"):
        WebSocket(url, headers={"Cookie": "other=app", "Origin": daemon.url})
    got = raw_box.filesystem.read("/workspace/got")
    assert got.startswith(b"GET /x?a=1&b=2 HTTP/1.1\r\n") and daemon.key.encode() not in got
    assert b"Cookie" not in got and b"Origin" not in got and b"Upgrade: websocket" in got
    with WebSocket(f"{by_path}/socket?access_token={daemon.key}") as sock:
        assert sock.receive() == "first"
    with pytest.raises(Refused, match="403"):
        WebSocket(f"{by_path}/socket?access_token={daemon.key}", headers={"Origin": "http://evil.test"})


def test_only_websockets_are_tunnelled(api, raw_box):
    answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nPRI"
    got = answered(api, raw_box, answer, headers={"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings", "HTTP2-Settings": "x"})
    assert got.status_code == 502
    asked = raw_box.filesystem.read("/workspace/got")
    assert b"h2c" not in asked and b"HTTP2-Settings" not in asked


# ---------------------------------------------------------------- tokens


def test_a_token_answer_says_what_it_is_for(api, box):
    answer = api.post(f"/sandboxes/{box.id}/preview-token", json={"port": 3000, "paths": ["/a", "/b/c"]})
    made = answer.json()
    assert answer.status_code == 201 and set(made) == {"url", "token", "sandbox_id", "port", "paths", "expires_at"}
    assert made["url"].endswith(f"/v1/p/{made['token']}/") and made["sandbox_id"] == box.id
    assert made["port"] == 3000 and made["paths"] == ["/a", "/b/c"]
    left = time.mktime(time.strptime(made["expires_at"][:19], "%Y-%m-%dT%H:%M:%S")) - time.mktime(time.gmtime())
    assert 3590 <= left <= 3600


@pytest.mark.parametrize(
    "body, word",
    [
        ({}, "port"), ({"port": 1, "ttl_seconds": 604801}, "ttl_seconds"), ({"port": 1, "ttl_seconds": 0}, "ttl_seconds"),
        ({"port": 1, "paths": "/a"}, "paths"), ({"port": 1, "paths": ["a"]}, "paths"), ({"port": 1, "paths": ["/a/../b"]}, "paths"),
        ({"port": 1, "paths": ["/a\n/b"]}, "paths"), ({"port": 1, "paths": ["/" + "x" * 1100]}, "paths"),
        ({"port": 1, "paths": ["/a"] * 17}, "paths"), ({"port": 1, "label": "x"}, "label"),
    ],
)
def test_a_wrong_wish_for_a_token_names_the_field(api, box, body, word):
    answer = api.post(f"/sandboxes/{box.id}/preview-token", json=body)
    assert answer.status_code == 400 and word in answer.json()["error"]


def test_a_token_is_for_one_server_and_its_paths_only(api, app_box):
    import requests

    made = api.post(f"/sandboxes/{app_box.id}/preview-token", json={"port": 3000, "paths": ["/a", "/b/c"]}).json()
    ask = lambda path: requests.Session().send(
        requests.Request("GET", made["url"]).prepare() if path is None else _prepared(made["url"] + path), timeout=20
    )
    for path in ("a", "a/", "a/x?y", "b/c", "b/c/d", "%61"):
        assert ask(path).status_code == 200, path
    for path in ("", "ab", "b", "b/d", "a/../x", "a/..%2fx", "a/%2e%2e/x", "a//x", "A", "a/.;/x"):
        answer = ask(path)
        assert (answer.status_code, answer.json()["code"]) == (403, "preview.path"), path


def _prepared(url):
    """A request whose path is sent as it stands."""
    import requests

    prepared = requests.Request("GET", url).prepare()
    prepared.url = url
    return prepared


def test_a_token_expires(api, app_box):
    import requests

    made = api.post(f"/sandboxes/{app_box.id}/preview-token", json={"port": 3000, "ttl_seconds": 1}).json()
    wait_until(lambda: requests.get(made["url"], timeout=20).status_code == 401, 10, "it has expired")


def test_a_forged_token_is_refused(api, daemon, app_box):
    import requests

    token = api.post(f"/sandboxes/{app_box.id}/preview-token", json={"port": 3000}).json()["token"]
    forged = [token[:-1], token + "00", token[:-1] + ("0" if token[-1] != "0" else "1"), token.upper(), "x", "0" * 118, token[:36] + "0bb9" + token[40:]]
    for one in forged:
        answer = requests.get(f"{daemon.url}/v1/p/{one}/", timeout=20)
        assert answer.status_code == 401 and answer.json()["code"] == "preview.token", one


def test_a_token_ends_with_its_sandbox(api, box):
    import requests

    made = api.post(f"/sandboxes/{box.id}/preview-token", json={"port": 3000}).json()
    box.kill()
    assert requests.get(made["url"], timeout=20).status_code == 404


def test_a_page_under_a_token_may_ask_its_own_server_from_its_opaque_origin(api, app_box):
    import requests

    made = api.post(f"/sandboxes/{app_box.id}/preview-token", json={"port": 3000}).json()
    answer = requests.post(made["url"] + "form", headers={"Origin": "null"}, data="x", timeout=20)
    assert answer.text == "at /form" and "Access-Control-Allow-Origin" not in answer.headers


def test_previews_can_demand_a_token(own_daemon):
    import requests
    from pandastack import Client

    daemon = own_daemon(config={"preview_token_required": True})
    box = Client(api_url=daemon.url, api_key=daemon.key).sandboxes.create(ttl_seconds=600)
    serve(box, APP, 3000)
    with requests.Session() as api:
        make = lambda **body: requests.post(
            f"{daemon.url}/v1/sandboxes/{box.id}/preview-token", json=body, headers={"Authorization": f"Bearer {daemon.key}"}, timeout=20
        ).json()["token"]
        host = {"Host": f"3000-{box.id}.localhost"}
        ask = lambda path, **headers: requests.get(daemon.url + path, headers={**host, **headers}, allow_redirects=False, timeout=20)
        token, other = make(port=3000), make(port=3001)
        assert ask("/").json()["code"] == "preview.token"
        assert ask("/", **{"X-Preview-Token": other}).status_code == 401
        shown = ask("/show", **{"X-Preview-Token": token})
        assert shown.status_code == 200 and token not in shown.text
        link = ask(f"//evil.test/x?preview_token={token}&a=1")
        assert link.status_code == 303 and link.headers["Location"] == "/evil.test/x?a=1"
        cookie = link.headers["Set-Cookie"]
        assert cookie.startswith(f"sandglass_preview={token};") and "HttpOnly" in cookie
        shown = ask("/show", Cookie=f"a=1; sandglass_preview={token}")
        assert shown.status_code == 200 and token not in shown.text
        posted = requests.post(f"{daemon.url}/show?preview_token={token}&a=1", headers=host, data=b"x", timeout=20)
        assert posted.json()["path"] == "/show?a=1"
        limited = make(port=3000, paths=["/only"])
        assert ask("/only/x", **{"X-Preview-Token": limited}).status_code == 200
        assert ask("/other", **{"X-Preview-Token": limited}).status_code == 403
