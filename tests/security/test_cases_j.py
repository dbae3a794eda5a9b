"""Cases J: files through the API, in a tree the attacker edits."""

from __future__ import annotations

import os
import secrets
import threading
from urllib.parse import quote

import pytest


@pytest.fixture
def planted(tmp_path_factory):
    words = "secret-" + secrets.token_hex(16)
    folder = tmp_path_factory.mktemp("planted")
    (folder / "SECRET").write_text(words)
    return folder, words


def spellings(path: str) -> list[str]:
    up = "../" * 20
    return [path, "/" + up + path, "/tmp/" + up + path, "/workspace/.." + path, "//" + path, "/./." + path, "/proc/self/root" + path, "/tmp/.." + path, "/dev/fd/.." + path, path.replace("/", "//")]


def raw_spellings(path: str) -> list[str]:
    """Already percent-encoded, in ways a second decoding would undo."""
    return ["%2e%2e%2f" * 20 + quote(path, safe=""), "%252e%252e%252f" * 20 + quote(path, safe=""), "..%5c" * 20 + quote(path, safe=""), quote(path + "\0", safe=""), quote(path, safe="") + "%00.txt", quote("/" + "a" * 5000, safe="")]


def test_112_no_path_reads_or_writes_outside(boxes, planted):
    folder, words = planted
    secret, marker = str(folder / "SECRET"), str(folder / "MARKER")
    box = boxes()
    for path in spellings(secret):
        answer = box.read(path)
        assert answer.status_code in (400, 403, 404) and words not in answer.text, path
        assert words not in box.send("GET", "/fs/dir", params={"path": os.path.dirname(path)}).text
        assert box.send("GET", "/fs/stat", params={"path": path}).status_code in (400, 403, 404)
    for path in spellings(marker):
        answer = box.send("PUT", "/fs", params={"path": path}, data=b"marker")
        assert answer.status_code in (200, 400, 403, 404, 500), path
        box.send("DELETE", "/fs", params={"path": path})
    for path in raw_spellings(secret):
        for method, where in (("GET", "/fs"), ("GET", "/fs/dir"), ("GET", "/fs/stat"), ("PUT", "/fs"), ("DELETE", "/fs")):
            answer = box.session.request(method, f"{box.daemon.url}/v1/sandboxes/{box.id}{where}?path={path}", timeout=20)
            assert answer.status_code in (400, 403, 404), (method, where, path, answer.status_code)
            assert words not in answer.text
    assert sorted(p.name for p in folder.iterdir()) == ["SECRET"]
    assert (folder / "SECRET").read_text() == words


@pytest.mark.parametrize("path", ["", "relative", "./x", "../x", "~", "~/x", "\0", "/tmp/a\0b"])
def test_112_a_path_must_be_absolute(boxes, path):
    box = boxes()
    for method, where in (("GET", "/fs"), ("PUT", "/fs"), ("DELETE", "/fs"), ("GET", "/fs/stat")):
        answer = box.send(method, where, params={"path": path})
        assert answer.status_code == 400, (method, where, answer.status_code, answer.text)


@pytest.mark.parametrize("path", ["/", "/proc", "/usr", "/usr/bin/env", "/dev/null", "/dev", "/workspace/..", "/tmp/.", "/.."])
def test_112_deleting_what_is_not_the_users_fails_and_changes_nothing(boxes, path):
    box = boxes()
    before = box.shell("ls / /usr/bin | wc -l")
    assert box.send("DELETE", "/fs", params={"path": path}).status_code in (400, 403, 404, 409, 500)
    assert box.shell("ls / /usr/bin | wc -l") == before


LINKS = {
    "a host file": "ln -s {secret} /tmp/link",
    "shadow": "ln -s /etc/shadow /tmp/link",
    "environment": "ln -s /proc/self/environ /tmp/link",
    "root of pid 1": "ln -s /proc/1/root{secret} /tmp/link",
    "own root": "ln -s /proc/self/root{secret} /tmp/link",
    "a loop": "ln -s /tmp/link /tmp/link",
    "up": "ln -s ../../../../../../../../..{secret} /tmp/link",
    "descriptor": "ln -s /proc/self/fd/3 /tmp/link",
    "kernel memory": "ln -s /proc/kcore /tmp/link",
    "device": "ln -s /dev/zero /tmp/link",
    "terminal": "ln -s /dev/tty /tmp/link",
}


@pytest.mark.parametrize("name", LINKS)
def test_113_planted_links_lead_nowhere_outside(boxes, planted, name):
    folder, words = planted
    box = boxes()
    box.shell(LINKS[name].format(secret=folder / "SECRET"))
    answer = box.read("/tmp/link")
    assert words not in answer.text
    assert answer.status_code in (400, 403, 404), (answer.status_code, answer.content[:100])
    assert box.send("GET", "/fs/stat", params={"path": "/tmp/link"}).status_code in (200, 400, 403, 404)
    wrote = box.send("PUT", "/fs", params={"path": "/tmp/link"}, data=b"marker")
    assert wrote.status_code in (200, 400, 403, 404, 500)
    assert sorted(p.name for p in folder.iterdir()) == ["SECRET"] and (folder / "SECRET").read_text() == words


def test_113_a_link_as_a_parent_stays_inside(boxes, planted):
    folder, words = planted
    box = boxes()
    box.shell(f"ln -s {folder} /tmp/out && mkdir /tmp/real && ln -s /tmp/real /tmp/in")
    box.send("PUT", "/fs", params={"path": "/tmp/out/MARKER"}, data=b"marker")
    assert words not in box.read("/tmp/out/SECRET").text
    assert sorted(p.name for p in folder.iterdir()) == ["SECRET"]
    assert box.send("PUT", "/fs", params={"path": "/tmp/in/file"}, data=b"here").status_code == 200
    assert box.shell("cat /tmp/real/file") == "here"


def test_113_links_that_change_under_the_calls_never_lead_out(boxes, planted):
    """The attacker swaps a folder for a link while the file calls run."""
    folder, words = planted
    box = boxes()
    box.shell("mkdir -p /tmp/a && echo inside > /tmp/a/SECRET && ln -s /tmp/a /tmp/s")
    kernel = box.kernel()
    code = (
        "import os, time\nend = time.time() + 4\nn = 0\n"
        "while time.time() < end:\n"
        f"    os.symlink({str(folder)!r}, '/tmp/l%d' % n); os.rename('/tmp/l%d' % n, '/tmp/s')\n"
        "    os.symlink('/tmp/a', '/tmp/m%d' % n); os.rename('/tmp/m%d' % n, '/tmp/s'); n += 1\n"
        "print(n)"
    )
    swaps: list[str] = []
    worker = threading.Thread(target=lambda: swaps.append(kernel.said(code)))
    worker.start()
    seen = set()
    while worker.is_alive():
        answer = box.read("/tmp/s/SECRET")
        seen.add(answer.text if answer.status_code == 200 else answer.status_code)
        box.send("PUT", "/fs", params={"path": "/tmp/s/MARKER"}, data=b"marker")
    worker.join()
    assert words not in seen
    assert int(swaps[0]) > 10
    assert sorted(p.name for p in folder.iterdir()) == ["SECRET"]


@pytest.mark.parametrize("make, path", [("mkfifo /tmp/x", "/tmp/x"), ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/x\")'", "/tmp/x"), ("true", "/dev/zero"), ("true", "/dev/tty"), ("true", "/dev/full"), ("true", "/tmp")])
def test_113_special_files_are_refused_at_once(boxes, make, path):
    import time

    box = boxes()
    box.shell(make)
    start = time.monotonic()
    assert box.read(path).status_code == 400
    assert box.send("PUT", "/fs", params={"path": path}, data=b"x").status_code in (400, 403)
    assert time.monotonic() - start < 2


def test_117_a_partial_upload_changes_nothing(boxes, daemon):
    import socket

    box = boxes()
    box.write("/tmp/file", b"old")
    name, port = daemon.url.split("//")[1].split(":")
    with socket.create_connection((name, int(port))) as connection:
        connection.sendall(f"PUT /v1/sandboxes/{box.id}/fs?path=/tmp/file HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {daemon.key}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"n" * 5000)
        box.shell("true")
    assert box.read("/tmp/file").content == b"old"
    assert box.shell("ls -A /tmp") == "file\n"


def test_117_an_upload_beyond_the_limit_is_refused_and_leaves_nothing(boxes):
    box = boxes(limits={"files_mb": 32})
    answer = box.send("PUT", "/fs", params={"path": "/tmp/large"}, data=bytes(64 << 20))
    assert answer.status_code == 507 and answer.json()["code"] == "file.no_space"
    assert box.shell("ls -A /tmp") == ""
    box.write("/tmp/small", b"x")


def test_117_writers_at_once_leave_one_whole_file(boxes):
    box = boxes()
    contents = [bytes([65 + n]) * 200000 for n in range(8)]
    crowd = [threading.Thread(target=box.write, args=("/tmp/file", content)) for content in contents]
    [one.start() for one in crowd]
    [one.join() for one in crowd]
    assert box.read("/tmp/file").content in contents
    assert box.shell("ls -A /tmp") == "file\n"


def test_119_a_listing_shows_only_what_is_seen_inside(boxes):
    box = boxes()
    box.shell("ln -s /etc/shadow /tmp/link; echo x > /tmp/file")
    entries = box.request("GET", "/fs/dir", params={"path": "/tmp"})["entries"]
    assert {entry["name"] for entry in entries} == {"link", "file"}
    for entry in entries:
        assert set(entry) <= {"name", "is_dir", "size", "mode", "mtime", "path"}, entry
