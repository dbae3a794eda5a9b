"""Servers inside a sandbox and who asks them: no secret of the client's goes in, and who only visits changes nothing."""

from __future__ import annotations

import base64
import socket
from urllib.parse import urlsplit

import pytest
from boxes import Box, boxes  # noqa: F401
from daemon import PATIENCE, wait_until

# Answers each request with the head that it got.
MIRROR = """
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 8000)); s.listen(50)
while True:
    c, _ = s.accept(); got = b""
    while b"\\r\\n\\r\\n" not in got and (part := c.recv(65536)): got += part
    c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(got) + got); c.close()
"""


def put_mirror(box: Box) -> Box:
    box.write("/workspace/mirror.py", MIRROR)
    box.shell("nohup python3 mirror.py >/dev/null 2>&1 & for i in $(seq 200); do bash -c ': </dev/tcp/127.0.0.1/8000' && exit; sleep 0.05; done 2>/dev/null")
    return box


@pytest.fixture(scope="module")
def mirror(daemon):
    box = put_mirror(Box(daemon))
    yield box
    box.kill()


def ask(daemon, target: str, host: str, *lines: str) -> tuple[str, str]:
    """Head and body of the answer to a request that is sent as it stands."""
    parts = urlsplit(daemon.url)
    with socket.create_connection((parts.hostname, parts.port), 20 * PATIENCE) as connection:
        connection.sendall("\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}", "Connection: close", *lines, "", ""]).encode())
        got = b""
        while part := connection.recv(65536):
            got += part
    head, _, body = got.decode("latin-1").partition("\r\n\r\n")
    return head, body


KEY_LINES = {
    "bearer": ["Authorization: Bearer {key}"],
    "twice": ["Authorization: Bearer {key}", "Authorization: Bearer {key}"],
    "another first": ["Authorization: Basic dTpw", "Authorization: Bearer {key}"],
    "lower": ["authorization: bearer {key}"],
    "tab": ["Authorization: Bearer\t{key}"],
    "bare": ["Authorization: {key}"],
    "digits only": ["Authorization: Bearer {digits}"],
    "of a netrc": ["Authorization: Basic {basic}"],
    "under another name": ["X-API-Key: {key}"],
    "in a referer": ["Referer: http://localhost/?access_token={key}&a=1"],
    "in a cookie": ["Cookie: a=1; key={key}"],
    "as a protocol": ["Sec-WebSocket-Protocol: chat, {key}"],
}


@pytest.mark.parametrize("way", ["path", "host", "token"])
@pytest.mark.parametrize("case", KEY_LINES)
def test_91_a_key_never_reaches_a_server_inside(daemon, mirror, way, case):
    digits = daemon.key.partition("_")[2]
    basic = base64.b64encode(f"user:{daemon.key}".encode()).decode()
    lines = [line.format(key=daemon.key, digits=digits, basic=basic) for line in KEY_LINES[case]]
    host, target = urlsplit(daemon.url).netloc, f"/v1/sandboxes/{mirror.id}/proxy/8000/x"
    if way == "host":
        host, target = f"8000-{mirror.id}.localhost", "/x"
    elif way == "token":
        target = "/v1/p/" + mirror.request("POST", "/preview-token", json={"port": 8000}, want=201)["token"] + "/x"
    elif not case.startswith("bearer"):
        lines = [line for line in lines if not line.lower().startswith("authorization")] + [f"Authorization: Bearer {daemon.key}"]
    head, body = ask(daemon, target, host, "X-Kept: yes", *lines)
    assert head.startswith("HTTP/1.1 200") and "X-Kept: yes" in body
    assert digits not in body and basic not in body


@pytest.mark.parametrize("name", ["access_token", "access%5Ftoken", "%61ccess_token", "access%5ftoke%6E", "key"])
@pytest.mark.parametrize("way", ["path", "host", "token"])
def test_91_a_key_in_the_query_stays_outside_however_its_name_is_spelled(daemon, mirror, way, name):
    digits = daemon.key.partition("_")[2]
    spelled = daemon.key.replace("_", "%5f") if name == "key" else daemon.key
    query = f"?a=1&{name}={spelled}&b=%20"
    host, target = urlsplit(daemon.url).netloc, f"/v1/sandboxes/{mirror.id}/proxy/8000/x"
    lines = ["Connection: upgrade", "Upgrade: websocket"] if way == "path" and name != "key" else []
    if way == "host":
        host, target = f"8000-{mirror.id}.localhost", "/x"
    elif way == "token":
        target = "/v1/p/" + mirror.request("POST", "/preview-token", json={"port": 8000}, want=201)["token"] + "/x"
    elif name == "key":
        lines = [f"Authorization: Bearer {daemon.key}"]
    head, body = ask(daemon, target + query, host, *lines)
    assert head.startswith("HTTP/1.1 200") and body.startswith("GET /x?a=1&b=%20 HTTP/1.1"), head
    assert digits not in body


@pytest.mark.limit(120)
def test_91_a_preview_token_stays_outside_and_its_link_leads_nowhere_else(own_daemon):
    daemon = own_daemon(config={"preview_token_required": True})
    box = put_mirror(Box(daemon))
    host = f"8000-{box.id}.localhost"
    token = box.request("POST", "/preview-token", json={"port": 8000}, want=201)["token"]
    for name in ("preview_token", "preview%5Ftoken", "%70review_token"):
        head, body = ask(daemon, f"/x?{name}={token}&a=1", host, "Connection: upgrade", "Upgrade: websocket")
        assert head.startswith("HTTP/1.1 200") and body.startswith("GET /x?a=1 HTTP/1.1"), name
        assert token not in body
    for path in ("/x", "//evil.test/x", "/\\evil.test/x", "/\\/evil.test/x", "///\\\\evil.test/x"):
        head, _ = ask(daemon, f"{path}?preview_token={token}", host)
        location = next(line for line in head.split("\r\n") if line.startswith("Location: "))
        assert head.startswith("HTTP/1.1 303") and location == "Location: /" + path.lstrip("/\\"), path


@pytest.mark.limit(90)
def test_who_visits_a_paused_sandbox_does_not_keep_it(daemon, boxes):  # noqa: F811
    box = boxes()
    box.request("POST", "/pause", want=204)
    box.request("PATCH", "/lifecycle", json={"ttl_seconds": 2})
    token = box.request("POST", "/preview-token", json={"port": 8000}, want=201)["token"]
    gone = []

    def visit():
        answers = [ask(daemon, "/", f"8000-{box.id}.localhost")[0], ask(daemon, f"/v1/p/{token}/", urlsplit(daemon.url).netloc)[0]]
        gone.extend(answer.split()[1] for answer in answers)
        return box.send("GET").status_code == 404

    wait_until(visit, 10, "it has ended all the same")
    assert set(gone) <= {"409", "404"}
