"""The wire: envelopes, ids, unknown fields, content types, what clients trip over."""

from __future__ import annotations

import json
import re
import socket
from urllib.parse import unquote

import pytest
import requests
from boxes import boxes  # noqa: F401
from daemon import wait_until


def check_envelope(answer: requests.Response, status: int, code: str | None = None) -> dict:
    told = answer.json()
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"].startswith("application/json")
    assert isinstance(told["error"], str) and told["error"] and re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", told["code"]), told
    assert told["request_id"] == answer.headers["X-Request-Id"]
    assert set(told) <= {"error", "code", "hint", "request_id"}, told
    assert code is None or told["code"] == code
    return told


FAILURES = [
    ("GET", "/nothing", None, 404, "request.route_unknown"),
    ("PUT", "/sandboxes", None, 405, "request.method"),
    ("GET", "/sandboxes/" + "0" * 32, None, 404, "sandbox.not_found"),
    ("DELETE", "/sandboxes/" + "0" * 32, None, 404, "sandbox.not_found"),
    ("POST", "/sandboxes", {"template": "no-such"}, 400, "template.unknown"),
    ("POST", "/sandboxes", {"no_such_field": 1}, 400, "request.unknown_field"),
    ("POST", "/sandboxes", {"ttl_seconds": "x"}, 400, "request.invalid"),
    ("POST", "/sandboxes", {"metadata": {"a": 1}}, 400, "request.invalid"),
    ("POST", "/sandboxes", {"from_snapshot": "0123456789abcdef"}, 501, "not_implemented"),
    ("POST", "/sandboxes", {"volumes": [{"name": "x"}]}, 501, "not_implemented"),
]


@pytest.mark.parametrize("method, path, body, status, code", FAILURES)
def test_each_failure_has_the_same_envelope(api, method, path, body, status, code):
    check_envelope(api.request(method, path, json=body), status, code)


BOX_FAILURES = [
    ("POST", "/exec", {}, 400, "request.invalid"),
    ("POST", "/exec", {"cmd": 1}, 400, "request.invalid"),
    ("POST", "/exec", {"cmd": "true", "shell": "bash"}, 400, "request.unknown_field"),
    ("POST", "/exec", {"cmd": ["ls"]}, 400, "request.invalid"),
    ("POST", "/repl/sessions", {"language": "cobol"}, 400, "language.unknown"),
    ("POST", "/repl/sessions/0123456789abcdef/run", {"code": "1"}, 404, "session.not_found"),
    ("DELETE", "/repl/sessions/0123456789abcdef", None, 404, "session.not_found"),
    ("POST", "/fork", None, 501, "not_implemented"),
    ("POST", "/hibernate", None, 501, "not_implemented"),
    ("GET", "/fs?path=/missing", None, 404, "file.not_found"),
    ("GET", "/fs?path=", None, 400, None),
    ("GET", "/fs", None, 400, None),
]


@pytest.mark.parametrize("method, path, body, status, code", BOX_FAILURES)
def test_each_failure_of_a_sandbox_has_the_same_envelope(boxes, method, path, body, status, code):
    check_envelope(boxes().send(method, path, json=body), status, code)


@pytest.mark.parametrize(
    "path, body, field",
    [("", {"tll_seconds": 5}, "tll_seconds"), ("", {"limits": {"memroy_mb": 5}}, "memroy_mb"), ("/exec", {"cmd": "true", "timeout": 5}, "timeout"), ("/repl/sessions", {"language": "python", "name": "x"}, "name")],
)
def test_an_unknown_field_is_named(boxes, api, path, body, field):
    answer = boxes().send("POST", path, json=body) if path else api.post("/sandboxes", json=body)
    assert field in check_envelope(answer, 400)["error"]


def test_a_cell_with_an_unknown_field_is_refused_by_name(boxes):
    box = boxes()
    answer = box.send("POST", f"/repl/sessions/{box.kernel().id}/run", json={"code": "1", "timout_ms": 5})
    assert "timout_ms" in check_envelope(answer, 400, "request.unknown_field")["error"]


@pytest.mark.parametrize("field, value", [("cpu", 2), ("memory_mb", 512), ("volumes", [])])
def test_what_clients_send_without_need_is_accepted(api, field, value):
    answer = api.post("/sandboxes", json={field: value, "ttl_seconds": 60})
    assert answer.status_code == 201, answer.text
    api.delete(f"/sandboxes/{answer.json()['id']}")


@pytest.mark.parametrize("template", ["code-interpreter", "ubuntu-24.04", "default"])
def test_the_clients_default_templates_are_known(api, template):
    answer = api.post("/sandboxes", json={"template": template, "ttl_seconds": 60})
    assert answer.status_code == 201, answer.text
    api.delete(f"/sandboxes/{answer.json()['id']}")


def test_a_sandbox_has_the_fields_clients_read(boxes, api):
    box = boxes(metadata={"a": "b"})
    for seen in (box.about, box.request("GET"), next(s for s in api.get("/sandboxes").json() if s["id"] == box.id)):
        assert re.fullmatch(r"[0-9a-f]{32}", seen["id"])
        assert seen["status"] == "running" and seen["template"] == "code-interpreter" and seen["metadata"] == {"a": "b"}
        assert isinstance(seen["cpu"], int) and isinstance(seen["memory_mb"], int)
        assert seen["persistent"] is False and seen["created_at"].endswith("Z") and seen["expires_at"].endswith("Z")


def test_secret_metadata_is_kept_back(boxes, api):
    box = boxes(metadata={"secret.token": "hidden", "shown": "x"})
    assert "hidden" not in box.send("GET").text and "hidden" not in api.get("/sandboxes").text
    assert box.request("GET")["metadata"] == {"shown": "x"}


def test_the_request_id_is_echoed_or_made(api):
    assert api.get("/sandboxes", headers={"X-Request-Id": "my-own.id_1"}).headers["X-Request-Id"] == "my-own.id_1"
    made = [api.get("/sandboxes").headers["X-Request-Id"] for _ in range(2)]
    assert made[0] != made[1] and all(re.fullmatch(r"[0-9a-f]{16}", one) for one in made)
    for bad in ("a b", "x" * 100, "<script>"):
        assert api.get("/sandboxes", headers={"X-Request-Id": bad}).headers["X-Request-Id"] != bad


def test_an_empty_body_may_say_anything(boxes, api):
    box = boxes()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
        assert box.send("POST", "/resume", data=b"", headers={"Content-Type": kind}).status_code == 204
        made = api.post("/sandboxes", data=b"", headers={"Content-Type": kind})
        assert made.status_code in (201, 400)
        if made.status_code == 201:
            api.delete(f"/sandboxes/{made.json()['id']}")


def test_json_with_a_charset_is_json(api):
    answer = api.post("/sandboxes", data=b'{"ttl_seconds": 60}', headers={"Content-Type": "application/json; charset=utf-8"})
    assert answer.status_code == 201
    api.delete(f"/sandboxes/{answer.json()['id']}")


def test_methods_that_do_not_exist_name_those_that_do(api):
    answer = api.put("/sandboxes")
    assert answer.status_code == 405 and {"GET", "POST"} <= {m.strip() for m in answer.headers["Allow"].split(",")}


def heads(box) -> list[str]:
    with_sandbox = ["", "/lifecycle", "/logs", "/logs?follow=1", "/events", "/events?follow=1", "/ports", "/runs", "/repl/sessions", "/fs?path=/etc/passwd",
                    "/fs/stat?path=/", "/fs/dir?path=/", "/metrics"]  # fmt: skip
    return [f"/v1/sandboxes/{box.id}{path}" for path in with_sandbox] + [
        "/healthz", "/version", "/openapi.json", "/docs", "/metrics", "/v1/me", "/v1/me/tokens", "/v1/templates", "/v1/sandboxes", "/v1/capabilities",
    ]  # fmt: skip


def test_what_can_be_got_can_be_asked_for_its_head(boxes, daemon, api):
    box = boxes()
    for path in heads(box):
        head = api.head(f"{daemon.url}{path}")
        assert (head.status_code, head.content) == (200, b""), path
        if "follow" not in path:
            whole = api.get(f"{daemon.url}{path}")
            assert head.headers["Content-Type"] == whole.headers["Content-Type"], path
    assert api.head(f"{daemon.url}/v1/sandboxes/{box.id}/fs?path=/etc/passwd").headers["Content-Length"] == str(len(whole_file(box)))
    assert api.head(f"{daemon.url}/v1/sandboxes/{box.id}/fs?path=/nowhere").status_code == 404
    assert api.head(f"{daemon.url}/v1/sandboxes/{box.id}/exec/ws").status_code == 426
    assert requests.head(f"{daemon.url}/v1/me", timeout=20).status_code == 401
    assert api.head(f"{daemon.url}/v1/sandboxes/{box.id}/pause").status_code == 405


def whole_file(box) -> bytes:
    return box.send("GET", "/fs", params={"path": "/etc/passwd"}).content


def test_a_head_leaves_nothing_under_way(boxes, daemon, api):
    """Streams that have no end, and files too large for any buffer: nobody will read their bodies."""
    box = boxes()
    box.shell("head -c 20000000 /dev/zero > /tmp/large")

    def under_way() -> int:
        text = api.get(f"{daemon.url}/metrics").text
        return int(re.search(r"(?m)^sandglass_requests_under_way (\d+)$", text)[1])

    before = under_way()
    for path in ["/logs?follow=1", "/events?follow=1", "/fs?path=/tmp/large"] * 10:
        assert api.head(f"{daemon.url}/v1/sandboxes/{box.id}{path}").status_code == 200
    wait_until(lambda: under_way() <= before, 10, "no more is under way than before")


@pytest.mark.parametrize("method, path", [("GET", "/v1/snapshots/abc"), ("POST", "/v1/volumes"), ("DELETE", "/v1/volumes/data"), ("POST", "/v1/sandboxes/{id}/fork")])
def test_what_is_not_built_yet_is_named_as_it_was_asked_for(boxes, daemon, method, path):
    box = boxes()
    asked = path.format(id=box.id)
    answer = box.session.request(method, f"{daemon.url}{asked}", timeout=20)
    check_envelope(answer, 501, "not_implemented")
    assert answer.json()["error"].startswith(f"{method} {asked} ")


def test_a_path_that_is_none_is_named(api, daemon):
    for path in ("/v1/functions", "/v1/healthz", "/", "/v1/a%20%C3%A4%22%0a", "/v1/" + "x" * 3000):
        answer = api.get(f"{daemon.url}{path}")
        check_envelope(answer, 404, "request.route_unknown")
        assert unquote(path)[:100] in answer.json()["error"] and len(answer.text) < 700


def test_a_body_that_is_too_large_is_drained_and_refused(api):
    answer = api.post("/sandboxes", data=b'{"template": "' + b"x" * (17 << 20) + b'"}', headers={"Content-Type": "application/json"})
    check_envelope(answer, 413, "request.too_large")
    assert api.get("/sandboxes").status_code == 200, "the same connection goes on"


def test_a_refusal_drains_the_body_on_a_kept_connection(daemon):
    host, port = daemon.url.split("//")[1].split(":")
    request = f"POST /v1/sandboxes HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n".encode() + b"x" * 100000
    good = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(request + good)
        answer = b""
        while more := connection.recv(65536):
            answer += more
    assert answer.count(b"HTTP/1.1 401") == 1 and answer.count(b"HTTP/1.1 200") == 1


def test_answers_come_in_one_write(boxes, daemon):
    """Two writes cost a client forty milliseconds a call."""
    box = boxes()
    host, port = daemon.url.split("//")[1].split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        for _ in range(20):
            connection.sendall(f"GET /v1/sandboxes/{box.id} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {daemon.key}\r\n\r\n".encode())
            first = connection.recv(1 << 20)
            head, _, body = first.partition(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            assert len(body) == length
            json.loads(body)


def test_lone_surrogates_are_refused_with_their_place(boxes):
    answer = boxes().send("POST", "/exec", data=b'{"cmd": "echo \\ud800"}', headers={"Content-Type": "application/json"})
    check_envelope(answer, 400, "request.invalid")


def test_text_of_any_kind_goes_through_unharmed(boxes):
    text = "äöü 日本語 \U0001f600 \u2028 \x7f"
    box = boxes()
    assert box.kernel().said(f"print({text!r})") == text + "\n"
    assert box.shell(f"printf '%s' '{text}'") == text


def events(answer: requests.Response) -> list[tuple[str, dict]]:
    found = []
    for block in answer.text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_a_stream_follows_the_rules_of_the_clients(boxes):
    answer = boxes().send("POST", "/exec/stream", json={"cmd": "echo ä; echo err >&2; exit 3"}, headers={"Accept": "text/event-stream"})
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.content.isascii() and b"\r" not in answer.content and answer.content.endswith(b"\n\n")
    told = events(answer)
    assert ("stdout", {"chunk": "ä\n"}) in told and ("stderr", {"chunk": "err\n"}) in told
    assert told[-1] == ("exit", {"exit_code": 3}) or told[-1][1].get("exit_code") == 3


def test_a_stream_that_is_too_late_ends_with_an_error(boxes):
    told = events(boxes().send("POST", "/exec/stream", json={"cmd": "echo before; sleep 60", "timeout_seconds": 1}))
    assert told[0] == ("stdout", {"chunk": "before\n"})
    assert told[-1][0] == "error" and "timeout" in told[-1][1]["error"]


def test_a_stream_delivers_as_it_happens(boxes):
    import time

    box = boxes()
    with box.session.post(f"{box.daemon.url}/v1/sandboxes/{box.id}/exec/stream", json={"cmd": "echo one; sleep 2; echo two"}, stream=True, timeout=30) as answer:
        start = time.monotonic()
        first = next(line for line in answer.iter_lines(chunk_size=1) if line.startswith(b"data:"))
        assert b"one" in first and time.monotonic() - start < 1.5


def test_deleting_twice_is_404_the_second_time(boxes):
    box = boxes()
    assert box.send("DELETE").status_code == 204
    check_envelope(box.send("DELETE"), 404, "sandbox.not_found")
