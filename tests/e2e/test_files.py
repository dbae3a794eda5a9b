"""Files: streamed with flat memory, replaced whole, any legal name, as the sandbox's user."""

from __future__ import annotations

import hashlib
import threading
import time

import census
import pytest
import requests
from boxes import boxes  # noqa: F401

CHUNK = bytes(range(256)) * 4096  # 1 MiB


def stream(mib: int):
    for _ in range(mib):
        yield CHUNK


@pytest.mark.slow
@pytest.mark.limit(300)
def test_two_gibibytes_go_in_and_out_with_flat_memory(own_daemon, boxes):
    daemon = own_daemon(config={"caps": {"memory_mb": 8192, "files_mb": 4096}})
    box = boxes(daemon=daemon, limits={"memory_mb": 6144, "files_mb": 3000})
    mib = 2048
    api = daemon.process("api").pid
    peak, before, stop = [0], census.memory_kb(api), threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[0] = max(peak[0], census.memory_kb(api))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        answer = box.send("PUT", "/fs", params={"path": "/workspace/large"}, data=stream(mib), timeout=200)
        assert answer.status_code == 200 and answer.json()["bytes"] == mib << 20
        digest, size = hashlib.sha256(), 0
        with box.session.get(f"{daemon.url}/v1/sandboxes/{box.id}/fs", params={"path": "/workspace/large"}, stream=True, timeout=200) as answer:
            assert answer.headers["Content-Length"] == str(mib << 20)
            for piece in answer.iter_content(1 << 20):
                digest.update(piece)
                size += len(piece)
    finally:
        stop.set()
        watcher.join()
    wanted = hashlib.sha256()
    for piece in stream(mib):
        wanted.update(piece)
    assert size == mib << 20 and digest.digest() == wanted.digest()
    assert peak[0] - before < 16 << 10, f"from {before} to {peak[0]} kB"


@pytest.mark.parametrize("name", ["plain", "with space", "ümläut", "日本語", "a+b&c=d?e#f", "-rf", "new\nline", "'quoted\"", "\u202e\u2028", ".hidden", "%41", "a" * 255, "back\\slash", "~"])
def test_any_legal_name_works(boxes, name):
    box = boxes()
    path = f"/workspace/{name}"
    content = name.encode() * 3
    box.write(path, content)
    assert box.read(path).content == content
    assert name in [entry["name"] for entry in box.request("GET", "/fs/dir", params={"path": "/workspace"})["entries"]]
    assert box.request("GET", "/fs/stat", params={"path": path})["size"] == len(content)
    assert box.send("DELETE", "/fs", params={"path": path}).status_code == 204
    assert box.read(path).status_code == 404


@pytest.mark.parametrize("content", [b"", b"\0", bytes(range(256)), b"x" * (1 << 20), b"\r\n" * 10], ids=["empty", "NUL", "all bytes", "1 MiB", "line ends"])
def test_bytes_come_back_as_they_went(boxes, content):
    box = boxes()
    answer = box.send("PUT", "/fs", params={"path": "/tmp/x"}, data=content)
    assert answer.json() | {"path": "/tmp/x", "bytes": len(content)} == answer.json()
    read = box.read("/tmp/x")
    assert read.content == content and read.headers["Content-Type"] == "application/octet-stream"


def test_parents_are_made_and_owned_by_the_user(boxes):
    box = boxes()
    box.write("/workspace/a/b/c/file", b"x")
    assert box.shell("stat -c '%U %a' /workspace/a/b /workspace/a/b/c/file").split("\n")[:2] == ["user 755", "user 644"]


def test_a_write_replaces_whole_keeps_the_mode_and_follows_a_link(boxes):
    box = boxes()
    box.shell("cd /workspace && echo old > file && chmod 750 file && ln -s file link && exec 9< file && true")
    kernel = box.kernel()
    kernel.said("held = open('/workspace/file')")
    box.write("/workspace/link", b"new")
    assert box.shell("cd /workspace && stat -c %a file && cat file && readlink link") == "750\nnewfile\n"
    assert kernel.said("print(held.read(), end='')") == "old\n", "who had it open still reads the old one"


def test_a_reader_never_sees_half_a_file(boxes):
    box = boxes()
    box.write("/tmp/file", b"a" * 300000)
    kernel = box.kernel()
    seen: list[str] = []
    code = "import time\nseen = set()\nend = time.time() + 3\nwhile time.time() < end:\n    b = open('/tmp/file', 'rb').read()\n    seen.add((len(b), len(set(b))))\nprint(sorted(seen))"
    worker = threading.Thread(target=lambda: seen.append(kernel.said(code)))
    worker.start()
    letter = 0
    while worker.is_alive():
        letter = (letter + 1) % 20
        box.write("/tmp/file", bytes([97 + letter]) * 300000)
    worker.join()
    assert seen == ["[(300000, 1)]\n"]


@pytest.mark.parametrize("method, where", [("GET", "/fs"), ("GET", "/fs/stat"), ("GET", "/fs/dir"), ("DELETE", "/fs")])
def test_what_is_missing_is_404(boxes, method, where):
    answer = boxes().send(method, where, params={"path": "/tmp/missing"})
    assert answer.status_code == 404 and answer.json()["code"] == "file.not_found"


@pytest.mark.parametrize(
    "method, where, path, status, code",
    [("GET", "/fs", "/tmp", 400, "file.is_directory"), ("PUT", "/fs", "/tmp", 400, "file.is_directory"), ("GET", "/fs/dir", "/etc/passwd", 400, "file.not_directory"),
     ("PUT", "/fs", "/etc/passwd/x", 400, "file.not_directory"), ("PUT", "/fs", "/usr/bin/x", 403, "file.forbidden"), ("DELETE", "/fs", "/etc/passwd", 403, "file.forbidden"),
     ("GET", "/fs", "/dev/zero", 400, "file.special"), ("GET", "/fs", "relative", 400, None), ("GET", "/fs", "/" + "a" * 5000, 400, None),
     ("PUT", "/fs", "/tmp/" + "a" * 256, 400, "file.path")],
)  # fmt: skip
def test_refusals_say_why(boxes, method, where, path, status, code):
    answer = boxes().send(method, where, params={"path": path}, data=b"x" if method == "PUT" else None)
    assert answer.status_code == status, answer.text
    assert code is None or answer.json()["code"] == code


def test_folders_are_deleted_with_all_in_them(boxes):
    box = boxes()
    box.shell("mkdir -p /tmp/a/b/c && touch /tmp/a/b/c/d && ln -s /etc /tmp/a/link && chmod 500 /tmp/a/b")
    answer = box.send("DELETE", "/fs", params={"path": "/tmp/a"})
    assert answer.status_code in (204, 403)
    box.shell("chmod 700 /tmp/a/b 2>/dev/null; true")
    assert box.send("DELETE", "/fs", params={"path": "/tmp/a"}).status_code in (204, 404)
    assert "passwd" in box.shell("ls /etc")


def test_a_listing_has_what_clients_read(boxes):
    box = boxes()
    box.shell("cd /tmp && mkdir folder && echo 12345 > file && ln -s folder link && ln -s nowhere broken")
    listing = box.request("GET", "/fs/dir", params={"path": "/tmp"})
    entries = {entry["name"]: entry for entry in listing["entries"]}
    assert listing["path"] == "/tmp" and set(entries) == {"folder", "file", "link", "broken"}
    assert entries["folder"]["is_dir"] is True and entries["file"]["is_dir"] is False and entries["broken"]["is_dir"] is False
    assert entries["link"]["is_dir"] is False and entries["link"]["target_is_dir"] is True and not any("target_is_dir" in entries[name] for name in ("folder", "file", "broken"))
    assert entries["file"]["size"] == 6 and abs(entries["file"]["mtime"] - time.time()) < 100
    assert all(isinstance(entry["mtime"], int) and isinstance(entry["mode"], str) for entry in entries.values())


def test_a_walk_ends_where_links_lead_in_circles(client, boxes):
    box = boxes()
    box.shell("cd /workspace && mkdir -p a/b && ln -s .. a/up && ln -s / a/b/root && ln -s b a/again && touch a/b/f")
    walked = [(place, [d.name for d in folders], sorted(f.name for f in files)) for place, folders, files in client.sandboxes.get(box.id).filesystem.walk("/workspace")]
    assert walked == [("/workspace", ["a"], []), ("/workspace/a", ["b"], ["again", "up"]), ("/workspace/a/b", [], ["f", "root"])]


@pytest.mark.parametrize("path, name", [("/workspace", "workspace"), ("/workspace/", "workspace"), ("/workspace///", "workspace"), ("/", "/"), ("//", "/"), ("/usr/bin/", "bin")])
def test_the_name_of_a_folder_has_no_slashes_behind_it(boxes, path, name):
    told = boxes().request("GET", "/fs/stat", params={"path": path})
    assert (told["name"], told["path"], told["is_dir"]) == (name, path, True)


@pytest.mark.parametrize("path", ["/etc/passwd/x", "/etc/passwd/", "/etc/passwd/x/y"])
def test_what_would_lie_below_a_file_does_not_exist(client, boxes, path):
    box = boxes()
    assert box.request("GET", "/fs/stat", want=404, params={"path": path})["code"] == "file.not_found"
    assert client.sandboxes.get(box.id).filesystem.exists(path) is False


def test_the_default_folder_of_a_listing_is_the_root(boxes):
    names = {entry["name"] for entry in boxes().request("GET", "/fs/dir")["entries"]}
    assert {"usr", "workspace", "tmp", "home"} <= names


def test_a_client_that_reads_slowly_costs_no_memory_and_one_that_leaves_no_process(boxes, daemon):
    box = boxes()
    box.shell("head -c 200M /dev/zero > /tmp/large")
    api = daemon.process("api").pid
    daemon.wait_for_pool()
    before = census.memory_kb(api)
    inits = len([p for p in daemon.processes() if p.role == "init"])
    with requests.get(f"{daemon.url}/v1/sandboxes/{box.id}/fs", params={"path": "/tmp/large"}, headers=box.session.headers, stream=True, timeout=30) as answer:
        assert len(answer.raw.read(1000)) == 1000
        assert box.shell("echo alive") == "alive\n"
        assert census.memory_kb(api) - before < 8 << 10
    from daemon import wait_until

    wait_until(lambda: len([p for p in daemon.processes() if p.role == "init"]) <= inits, 10, "the process that served the file has ended")


def test_many_transfers_at_once(boxes):
    box = boxes()
    problems: list[str] = []

    def one(number: int) -> None:
        content = bytes([number]) * 300000
        box2 = requests.Session()
        box2.headers.update(box.session.headers)
        url = f"{box.daemon.url}/v1/sandboxes/{box.id}/fs"
        for _ in range(5):
            put = box2.put(url, params={"path": f"/tmp/f{number}"}, data=content, timeout=30)
            got = box2.get(url, params={"path": f"/tmp/f{number}"}, timeout=30)
            if put.status_code != 200 or got.content != content:
                problems.append(f"{number}: {put.status_code} {got.status_code}")

    crowd = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert problems == []
