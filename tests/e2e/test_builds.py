"""Templates that are built over the API: what is refused, how a build ends, and one that is built, served and deleted."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from boxes import Box
from daemon import PATIENCE, build_folder, processes_below, wait_until
from test_restart import kill_api

MISSING = "FROM base\nRUN pip install sandglass-no-such-wheel-at-all==9.9\n"
NO_PACKAGES = "this machine has no package access: nothing can be built"
SMALL = """\
# small, and a bit of everything
FROM python:3.11-slim
LABEL description="for a test"
ENV GREETING="good day" PAGER=less
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY app /opt/app
COPY note.txt notes/
"""


@pytest.fixture
def lean(own_daemon):
    """A daemon of the test's own, with the one template that is warm soon."""
    return lambda **options: own_daemon(config={"templates": ["base"]}, **options)


def ask(daemon, method: str, path: str, key: str | None = None, **options) -> requests.Response:
    headers = {"Authorization": f"Bearer {key or daemon.key}", **options.pop("headers", {})}
    return requests.request(method, f"{daemon.url}/v1/templates{path}", headers=headers, timeout=60 * PATIENCE, **options)


def post(daemon, dockerfile: str = "FROM base\n", name: str = "mine", files=None, **more) -> requests.Response:
    return ask(daemon, "POST", "/build", data={"name": name, "dockerfile": dockerfile, **more}, files=files)


def names(daemon) -> list[str]:
    return [t["name"] for t in ask(daemon, "GET", "").json()]


def log(daemon, build: str) -> list[str]:
    text = ask(daemon, "GET", f"/builds/{build}/logs?follow=1").text
    assert text.endswith("event: done\ndata: end\n\n"), text
    return re.findall(r"^data: (.*)$", text, re.MULTILINE)[:-1]


def ended(daemon, build: str) -> dict:
    def look():
        now = ask(daemon, "GET", f"/builds/{build}").json()
        return now if now["status"] in ("done", "failed") else None

    return wait_until(look, 120, "the build has ended")


def builder(daemon):
    return next((p for p in processes_below(daemon.pid) if "over_api.py" in command(p.pid)), None)


def has_packages(folder: Path) -> bool:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder / "try", "six==1.16.0"]
    return bool(shutil.which("mmdebstrap")) and subprocess.run(command, capture_output=True, timeout=120).returncode == 0


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def assert_nothing_left(daemon) -> None:
    assert [n for n in os.listdir(daemon.state / "templates") if n != ".lock"] == []
    assert str(daemon.state) not in Path("/proc/mounts").read_text()


def put_made(daemon_state: Path, name: str = "mine") -> None:
    """What a build leaves: an entry and a link to it. The image is that of base."""
    real = Path(os.environ.get("SANDGLASS_CACHE") or Path.home() / ".cache/sandglass") / "base"
    entry = daemon_state / "templates" / ("e" * 24)
    entry.mkdir(parents=True)
    about = json.loads((real / "template.json").read_text())
    about |= {"name": name, "aliases": [], "key": entry.name, "image": str((real / "image.erofs").resolve()), "base": "base"}
    (entry / "template.json").write_text(json.dumps(about))
    (daemon_state / "templates" / name).symlink_to(entry.name)


# ---- who may, and what ----


def test_only_the_operator_builds_sees_builds_and_deletes(daemon):
    made = subprocess.run([build_folder() / "sandglass", "key", "create", "--state", daemon.state, "--owner", "second"], capture_output=True, text=True)
    key = made.stdout.strip()
    for method, path, body in (("POST", "/build", {"name": "x", "dockerfile": "FROM base"}), ("DELETE", "/base", None)):
        answer = ask(daemon, method, path, key, data=body)
        assert answer.status_code == 403 and answer.json()["code"] == "auth.operator_only", answer.text
    build = post(daemon, MISSING).json()["id"]
    assert ask(daemon, "GET", "/builds", key).json() == []
    for path in (f"/builds/{build}", f"/builds/{build}/logs"):
        assert ask(daemon, "GET", path, key).json()["code"] == "build.not_found"
    ended(daemon, build)


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"name": "../x"}, "request.invalid"),
        ({"name": ""}, "request.invalid"),
        ({"name": "builds"}, "request.invalid"),
        ({"name": "a" * 64}, "request.invalid"),
        ({"name": "0123456789abcdef01234567"}, "request.invalid"),
        ({"name": "base"}, "template.global"),
        ({"name": "ubuntu-24.04"}, "template.global"),
        ({"size_mb": "0"}, "request.invalid"),
        ({"size_mb": "1x"}, "request.invalid"),
        ({"size_mb": "99999999999999999999"}, "request.invalid"),
        ({"colour": "red"}, "request.unknown_field"),
        ({"dockerfile": "FROM alpine"}, "template.dockerfile"),
        ({"dockerfile": "FROM base\nRUN make"}, "template.dockerfile"),
        ({"dockerfile": "FROM base\nCOPY x ."}, "template.dockerfile"),
        ({"dockerfile": "FROM base\nUSER root"}, "template.dockerfile"),
        ({"dockerfile": None}, "request.invalid"),
        ({"dockerfile": None, "image_ref": "x:1"}, "not_implemented"),
    ],
)
def test_what_cannot_be_built_is_refused_at_once(daemon, fields, code):
    body = {"name": "mine", "dockerfile": "FROM base"} | fields
    for files in (None, {"unused.txt": b"x"}):
        answer = ask(daemon, "POST", "/build", data={k: v for k, v in body.items() if v is not None}, files=files)
        assert answer.json()["code"] == code and answer.json()["error"], answer.text
    assert not any(b["name"] == body["name"] and b["status"] == "building" for b in ask(daemon, "GET", "/builds").json())


def test_a_line_that_cannot_be_built_is_named_with_what_to_do(daemon):
    answer = post(daemon, "FROM base\n\nRUN apt-get update && \\\n  make all\nENV A=1\n")
    assert answer.status_code == 400 and "line 3" in answer.json()["error"] and "'RUN make'" in answer.json()["error"]
    assert "apt-get install" in answer.json()["hint"]


@pytest.mark.parametrize("name", ["dockerfile", "Dockerfile"])
def test_the_dockerfile_may_come_as_a_file(daemon, name):
    """As curl -F dockerfile=@Dockerfile sends it, or with the whole folder that it lies in."""
    files = {name: ("Dockerfile", b"FROM base\nRUN of-the-file\n"), "a.txt": ("a.txt", b"x")}
    answer = ask(daemon, "POST", "/build", data={"name": "mine"}, files=files)
    assert answer.status_code == 400 and "line 2: 'RUN of-the-file'" in answer.json()["error"]
    answer = post(daemon, "FROM base\nRUN of-the-text\n", files=files)
    assert answer.status_code == 400 and "line 2: 'RUN of-the-text'" in answer.json()["error"], "the text counts where there is one"


def test_a_file_that_is_there_twice_is_refused(daemon):
    answer = post(daemon, files=[("a/b.txt", ("b.txt", b"x")), ("a/b.txt", ("b.txt", b"y"))])
    assert answer.status_code == 400 and answer.json()["error"] == "'a/b.txt' is there twice"


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a//b", "a/./b"])
def test_files_with_odd_paths_are_refused(daemon, path):
    answer = post(daemon, files={path: (path, b"x")})
    assert answer.status_code == 400 and "path" in answer.json()["error"]


def test_other_bodies_are_refused(daemon):
    assert ask(daemon, "POST", "/build", json={"name": "x"}).status_code == 415
    rootfs = ask(daemon, "POST", "/build", data={"name": "x"}, files={"rootfs": b"x" * 300000})
    assert rootfs.status_code == 501 and "dockerfile" in rootfs.json()["hint"]
    broken = ask(daemon, "POST", "/build", data=b"--x\r\n", headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert broken.status_code in (400, 415)
    assert post(daemon, files={"big": b"x" * (17 << 20)}).status_code == 413


# ---- builds that do not end well ----


def test_a_failed_build_says_why_and_leaves_nothing(lean, tmp_path):
    daemon = lean()
    taken = post(daemon, MISSING, size_mb="300")
    assert taken.status_code == 202
    build = taken.json()
    assert build["name"] == "mine" and build["status"] in ("queued", "building") and build["size_mb"] == 300 and build["base"] == "base"
    lines = log(daemon, build["id"])
    now = ask(daemon, "GET", f"/builds/{build['id']}").json()
    assert now["status"] == "failed" and "pip failed" in now["error"] and now["ended_at"] >= now["started_at"]
    assert any("sandglass-no-such-wheel-at-all" in line for line in lines) and lines[-1].startswith("error: pip failed")
    assert ask(daemon, "GET", f"/builds/{build['id']}/logs").text.count("data: error: pip failed") == 1
    assert [b["id"] for b in ask(daemon, "GET", "/builds").json()] == [build["id"]]
    assert names(daemon) == ["base"]
    assert_nothing_left(daemon)


def status(pid: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def group_of(pid: int) -> Path:
    """The folder of its processes controller, on either version."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    name = next((path for _, controllers, path in lines if "pids" in controllers.split(",")), lines[-1][2])
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    place = next((m[1] for m in mounts if m[2] == "cgroup" and "pids" in m[3].split(",")), None) or next(m[1] for m in mounts if m[2] == "cgroup2")
    return Path(place + name)


def of_living(pid: int) -> dict | None:
    try:
        return status(pid) | {"group": group_of(pid)}
    except OSError:
        return None  # it has just ended


def test_what_fetches_packages_has_no_rights_and_a_room_of_its_own(lean):
    daemon = lean()
    build = post(daemon, MISSING).json()["id"]

    def fetching() -> dict[str, str] | None:
        for one in processes_below(daemon.pid):
            words = command(one.pid).split()
            if words[:1] != ["prlimit"] and words[1:4] == ["-m", "pip", "download"]:
                return of_living(one.pid)
        return None

    seen = wait_until(fetching, 60, "pip is at work")
    base = int(status(daemon.process("api").pid)["Uid"].split()[0])
    assert seen["Uid"].split() == seen["Gid"].split() == [str(base + 3)] * 4 and seen["Groups"].strip() == ""
    assert {seen[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16} and seen["NoNewPrivs"] == "1"
    assert seen["group"].parts[-2:] == (f"sandglass-{daemon.pid}", "build") and (seen["group"] / "pids.max").read_text() == "512\n"
    assert ended(daemon, build)["status"] == "failed"
    wait_until(lambda: (seen["group"] / "cgroup.procs").read_text() == "", 10, "nothing is left in it")


def test_builds_wait_for_each_other_and_too_many_are_refused(lean):
    daemon = lean()
    taken = [post(daemon, MISSING, name=f"n{i}") for i in range(6)]
    assert [t.status_code for t in taken] == [202] * 5 + [429]
    assert taken[5].json()["code"] == "build.queue_full" and int(taken[5].headers["Retry-After"]) > 1
    states = [b["status"] for b in ask(daemon, "GET", "/builds").json()]
    assert states.count("building") == 1 and states.count("queued") == 4
    for answer in taken[:5]:
        assert ended(daemon, answer.json()["id"])["status"] == "failed"
    starts = [b["started_at"] for b in ask(daemon, "GET", "/builds").json()]
    assert starts == sorted(starts, reverse=True) and len(set(starts)) == 5


def started(daemon):
    """A build that is at work on its image, and its builder."""
    if not has_packages(daemon.state):
        pytest.skip(NO_PACKAGES)
    build = post(daemon, "FROM base\n").json()["id"]
    work = daemon.state / "templates"
    wait_until(lambda: list(work.glob(".build-*/root/usr/bin")), 60, "packages are being unpacked")
    return build, builder(daemon)


@pytest.mark.slow
@pytest.mark.limit(240)
def test_a_builder_that_is_killed_is_cleared_up_behind(lean):
    daemon = lean()
    build, process = started(daemon)
    family = processes_below(process.pid)
    assert len(family) > 2
    assert {Path(f"/proc/{p.pid}/oom_score_adj").read_text() for p in (process, *family) if p.is_alive()} == {"1000\n"}
    packager = next(seen for p in family if "mmdebstrap" in command(p.pid) and (seen := of_living(p.pid)) and seen["NoNewPrivs"] == "1")
    assert packager["group"] == group_of(process.pid) and packager["group"].name == "build"
    assert not int(packager["CapBnd"], 16) & sum(1 << n for n in (12, 13, 16, 17, 19, 22, 25, 34, 38, 39)), "no network, module, ports, trace, boot, clock, log, perf, bpf"
    os.kill(process.pid, signal.SIGKILL)
    now = ended(daemon, build)
    assert now["status"] == "failed" and "signal 9" in now["error"]
    wait_until(lambda: not any(p.is_alive() for p in family), 10, "what it had started is gone")
    assert_nothing_left(daemon)
    assert ended(daemon, post(daemon, MISSING).json()["id"])["status"] == "failed"  # the next one is taken


@pytest.mark.slow
@pytest.mark.limit(240)
def test_a_build_ends_with_the_daemon(lean):
    daemon = lean()
    _, process = started(daemon)
    family = processes_below(process.pid)
    daemon.stop()
    assert not any(p.is_alive() for p in family)
    assert_nothing_left(daemon)
    daemon.start()
    assert names(daemon) == ["base"]
    _, process = started(daemon)
    daemon.kill()
    wait_until(lambda: not list((daemon.state / "templates").glob(".build-*")), 10, "the builder has tidied up")
    daemon.start()


@pytest.mark.slow
@pytest.mark.limit(240)
def test_a_build_ends_with_the_api_that_asked(lean):
    daemon = lean()
    build, process = started(daemon)
    waiting = post(daemon, MISSING, name="later").json()["id"]
    os.kill(daemon.process("api").pid, signal.SIGKILL)
    wait_until(lambda: not process.is_alive(), 15, "the builder is gone")

    def look():
        try:
            return ask(daemon, "GET", f"/builds/{build}").json()
        except requests.RequestException:
            return None

    now = wait_until(look, 20, "a new api serves")
    assert now["status"] == "failed" and now["error"].startswith("host_failure: ") and now["ended_at"] >= now["started_at"], now
    assert log(daemon, build)[-1] == now["error"]
    later = ask(daemon, "GET", f"/builds/{waiting}").json()
    assert later["status"] == "failed" and "before the template was built" in later["error"] and "started_at" not in later
    wait_until(lambda: builder(daemon) is None, 15, "nothing is cleared up any more")
    assert_nothing_left(daemon)
    assert ended(daemon, post(daemon, MISSING).json()["id"])["status"] == "failed"


@pytest.mark.limit(120)
def test_how_builds_ended_and_what_they_said_outlives_crash_and_restart(lean):
    """Also here, where nothing can be built: that is an end, too."""
    daemon = lean()
    build = post(daemon, MISSING).json()["id"]
    first, said = ended(daemon, build), log(daemon, build)
    assert first["status"] == "failed" and said
    kill_api(daemon)
    assert ask(daemon, "GET", f"/builds/{build}").json() == first and log(daemon, build) == said
    daemon.restart()
    assert ask(daemon, "GET", "/builds").json() == [first] and log(daemon, build) == said
    second = post(daemon, MISSING).json()["id"]
    assert [b["id"] for b in ask(daemon, "GET", "/builds").json()] == [second, build]
    ended(daemon, second)


# ---- what is built ----


def test_a_made_template_is_found_at_the_start_and_deleted_when_nothing_uses_it(lean, tmp_path):
    state = tmp_path / "state"
    put_made(state)
    daemon = lean(state=state)
    one = ask(daemon, "GET", "/mine").json()
    assert names(daemon) == ["base", "mine"] and one["is_global"] is False and one["workspace"] == "owner-1" and one["base"] == "base"
    box = Box(daemon, template="mine")
    used = ask(daemon, "DELETE", "/mine")
    assert used.status_code == 409 and used.json()["code"] == "template.in_use"
    box.kill()
    wait_until(lambda: ask(daemon, "DELETE", "/mine").status_code == 204, 10, "it is deleted")
    assert names(daemon) == ["base"] and ask(daemon, "GET", "/mine").status_code == 404
    assert ask(daemon, "DELETE", "/mine").status_code == 404
    assert_nothing_left(daemon)
    wait_until(lambda: daemon.events("template.gone"), 10, "the warden lets go of it")
    refused = requests.post(f"{daemon.url}/v1/sandboxes", json={"template": "mine"}, headers={"Authorization": f"Bearer {daemon.key}"}, timeout=60)
    assert refused.status_code == 400 and refused.json()["code"] == "template.unknown"
    daemon.restart()
    assert names(daemon) == ["base"]


def test_a_made_template_of_a_hosts_name_or_a_broken_one_is_left_out(lean, tmp_path):
    state = tmp_path / "state"
    put_made(state, "base")
    daemon = lean(state=state)
    assert names(daemon) == ["base"] and ask(daemon, "GET", "/base").json()["is_global"] is True
    daemon.stop()
    shutil.rmtree(state / "templates")
    put_made(state)
    about = state / "templates" / ("e" * 24) / "template.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"image": "/nowhere/image.erofs"}))
    daemon.start()
    assert names(daemon) == ["base"] and daemon.events("template.unusable")


def write_context(folder: Path) -> Path:
    (folder / "app").mkdir(parents=True)
    (folder / "requirements.txt").write_text("six==1.16.0  # small, and nothing else\n")
    (folder / "app/run.sh").write_text("#!/bin/sh\necho ran $GREETING\n")
    (folder / "note.txt").write_text("hello\n")
    return folder


@pytest.mark.slow
@pytest.mark.limit(500)
def test_a_small_template_is_built_served_kept_and_deleted(lean, tmp_path):
    from pandastack import BadRequestError, Client

    if not has_packages(tmp_path):
        pytest.skip(NO_PACKAGES)
    daemon = lean()
    client = Client(api_url=daemon.url, api_key=daemon.key)
    before = {p.pid for p in daemon.processes()}
    build = client.templates.build_from_dockerfile("mine", SMALL, context_dir=str(write_context(tmp_path / "context")), size_mb=300)
    lines = list(client.templates.build_logs(build.id))
    build = client.templates.get_build(build.id)
    assert build.is_done and build.bytes > 50 << 20, lines
    assert lines[0] == "FROM python:3.11-slim: base" and lines[-1].startswith("built ")
    template = client.templates.get("mine")
    assert template.description == "for a test" and template.is_global is False and template.base == "base"
    assert before <= {p.pid for p in daemon.processes()}
    check_inside(Box(daemon, template="mine"))
    daemon.restart()
    client = Client(api_url=daemon.url, api_key=daemon.key)
    box = Box(daemon, template="mine")
    check_inside(box, is_kept=True)
    with pytest.raises(BadRequestError):
        client.templates.delete("mine")
    box.kill()
    client.templates.delete("mine")
    assert [t.name for t in client.templates.list()] == ["base"]
    assert_nothing_left(daemon)


def check_inside(box: Box, is_kept: bool = False) -> None:
    assert box.shell("/opt/app/run.sh; cat notes/note.txt; echo $PAGER") == "ran good day\nhello\nless\n"
    assert box.shell("stat -c '%U %a' /opt/app/run.sh notes/note.txt requirements.txt") == "root 755\nroot 644\nroot 644\n"
    assert box.shell("cd /workspace && echo mine > notes.txt && rm requirements.txt && ls") == "notes\nnotes.txt\n"
    assert box.kernel().said("import os, six; print(os.environ['GREETING'], six.__version__)") == "good day 1.16.0\n"
    assert box.kernel("bash").said("echo $GREETING") == "good day\n"
    if not is_kept:
        box.kill()


# ---- the command line ----


def sandglass(daemon, *words) -> subprocess.CompletedProcess:
    command = [build_folder() / "sandglass", "template", words[0], "--state", daemon.state, *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=120 * PATIENCE)


def test_the_command_line_builds_shows_and_removes(lean, tmp_path):
    state = tmp_path / "state"
    put_made(state, "made")
    daemon = lean(state=state)
    context = write_context(tmp_path / "context")
    (context / ".git").mkdir()
    (context / ".git/config").write_text("x")
    (tmp_path / "Dockerfile").write_text("FROM base\nCOPY . /opt/all\nCOPY app/run.sh .\n" + MISSING.partition("\n")[2])
    words = ("build", "mine", "--dockerfile", tmp_path / "Dockerfile", "--context", context)
    ran = sandglass(daemon, *words)
    assert ran.returncode == 1 and "pip failed" in ran.stderr and "FROM base: base\n" in ran.stdout, ran
    build = ran.stdout.split()[1]
    assert build in sandglass(daemon, "builds").stdout and "FROM base" in sandglass(daemon, "logs", build).stdout
    assert json.loads(sandglass(daemon, "builds", "--json").stdout)[0]["id"] == build
    listed = sandglass(daemon, "list").stdout
    assert re.search(r"^base .* host ", listed, re.MULTILINE) and re.search(r"^made .* built ", listed, re.MULTILINE)
    (tmp_path / "Dockerfile").write_text("FROM base\nCOPY .git/config /opt/x\n")
    refused = sandglass(daemon, *words)
    assert refused.returncode == 1 and "line 2" in refused.stderr and "->" in refused.stderr
    assert sandglass(daemon, "rm", "made").returncode == 0 and names(daemon) == ["base"]
    gone = sandglass(daemon, "rm", "base")
    assert gone.returncode == 1 and "host's own" in gone.stderr
    assert sandglass(daemon, "rm").returncode == 2 and sandglass(daemon, "builds", "--what").returncode == 2
