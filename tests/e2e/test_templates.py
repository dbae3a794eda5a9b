"""Templates over the API, and one that is built on the host while the daemon runs. Builds over the API: test_builds.py."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import requests
from boxes import Box
from daemon import PATIENCE, wait_until


def ask(daemon, method: str, path: str, **options) -> requests.Response:
    headers = {"Authorization": f"Bearer {daemon.key}", **options.pop("headers", {})}
    return requests.request(method, f"{daemon.url}/v1{path}", headers=headers, timeout=60 * PATIENCE, **options)


def names(daemon) -> list[str]:
    return [t["name"] for t in ask(daemon, "GET", "/templates").json()]


class Cache:
    """An image cache of the test's own: its entries describe images of the real one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        real = Path(os.environ.get("SANDGLASS_CACHE") or Path.home() / ".cache/sandglass")
        self.real = (real / "base").resolve()

    def put(self, name: str, **changes) -> None:
        """As the builder does: a finished entry, and then the link by renaming."""
        self.count += 1
        entry = self.folder / f"{self.count:024x}"
        entry.mkdir()
        about = json.loads((self.real / "template.json").read_text())
        about |= {"name": name, "aliases": [], "image": str(self.real / "image.erofs"), **changes}
        (entry / "template.json").write_text(json.dumps(about))
        new = self.folder / f"{name}.new"
        new.symlink_to(entry.name)
        new.rename(self.folder / name)


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    return Cache(folder)


@pytest.fixture
def start(own_daemon, cache):
    def start(**config):
        cache.put("first", description="as it was")
        return own_daemon(config=config, env={"SANDGLASS_CACHE": str(cache.folder)})

    return start


# ---- what there is ----


def test_templates_are_listed_and_read_by_name_and_alias(daemon):
    listed = ask(daemon, "GET", "/templates").json()
    assert [t["name"] for t in listed] == ["code-interpreter", "base"]
    one = ask(daemon, "GET", "/templates/code-interpreter").json()
    assert one == listed[0] and ask(daemon, "GET", "/templates/ubuntu-24.04").json() == one
    assert one["is_global"] is True and one["workspace"] is None and one["size_bytes"] > 10**8
    assert one["cpu"] == 1 and one["memory_mb"] == 1024 and one["languages"] == ["python", "bash", "node"]
    assert "/" not in one["rootfs_path"] and one["description"] and one["created_at"]
    missing = ask(daemon, "GET", "/templates/none")
    assert missing.status_code == 404 and missing.json()["code"] == "template.not_found"


def test_a_template_cannot_be_deleted_over_the_api(daemon):
    answer = ask(daemon, "DELETE", "/templates/base")
    assert answer.status_code == 403 and answer.json()["code"] == "template.global"
    assert ask(daemon, "DELETE", "/templates/none").status_code == 404
    assert "base" in names(daemon)


def test_the_clients_own_calls_work(client):
    from pandastack import BadRequestError, NotFoundError, ServerError

    assert "base" in [t.name for t in client.templates.list()] and isinstance(client.templates.builds(), list)
    with pytest.raises(BadRequestError):
        client.templates.delete("base")
    with pytest.raises(NotFoundError):
        client.templates.get("none")
    with pytest.raises(ServerError):
        client.templates.register("mine", "registry.example/image:1")


# ---- while the daemon runs ----


def test_a_new_template_is_served_without_a_restart(start, cache):
    daemon = start()
    assert names(daemon) == ["first"]
    before = {p.pid for p in daemon.processes()}
    cache.put("second")
    wait_until(lambda: "second" in names(daemon), 30, "it is served")
    box = Box(daemon, template="second")
    assert box.about["template"] == "second" and box.kernel().value("print(6 * 7)") == 42
    assert before <= {p.pid for p in daemon.processes()}
    assert "second" in [t["name"] for t in ask(daemon, "GET", "/capabilities").json()["templates"]]
    box.kill()


def test_a_rebuilt_template_serves_new_sandboxes_and_the_old_ones_keep_theirs(start, cache):
    daemon = start()
    old = Box(daemon, template="first")
    kernel = old.kernel()
    kernel.run("x = 1")
    zygotes = {p.pid for p in daemon.processes() if p.name.startswith("python")}
    cache.put("first", description="as it is", preload=["json"])
    wait_until(lambda: ask(daemon, "GET", "/templates/first").json()["description"] == "as it is", 30, "the new one is served")
    assert names(daemon) == ["first"]
    new = Box(daemon, template="first")
    assert new.kernel().value("print(2)") == 2
    # The old one's next kernel comes from what it started from.
    assert kernel.value("print(x)") == 1 and old.kernel().value("print(3)") == 3 and old.shell("echo on") == "on\n"
    old.kill()
    wait_until(lambda: daemon.events("template.gone"), 10, "the former image goes with its last sandbox")
    wait_until(lambda: not zygotes & {p.pid for p in daemon.processes()}, 10, "its zygote, too")
    assert new.shell("echo on") == "on\n"
    new.kill()


def test_a_broken_template_is_named_and_harms_no_other(start, cache):
    daemon = start()
    entry = cache.folder / ("f" * 24)
    entry.mkdir()
    (entry / "template.json").write_text('{"name": "../x", "image": "image.erofs"}')
    (cache.folder / "broken").symlink_to(entry.name)
    cache.put("absent", image="/nowhere/image.erofs")
    wait_until(lambda: len(daemon.events("template.unusable")) >= 2, 10, "both are named")
    cache.put("good")
    wait_until(lambda: "good" in names(daemon), 30, "a good one is served")
    assert names(daemon) == ["first", "good"]


@pytest.mark.slow
def test_a_template_that_does_not_get_warm_leaves_the_former_in_its_place(start, cache):
    daemon = start()
    cache.put("first", preload=["no_such_module_at_all"], description="worse")
    wait_until(lambda: len(daemon.events("zygote.ended")) >= 3, 30, "it has been tried")
    box = Box(daemon, template="first")
    assert box.kernel().value("print(1)") == 1
    box.kill()


@pytest.mark.slow
def test_new_processes_serve_the_new_template_too(start, cache):
    daemon = start()
    cache.put("second")
    wait_until(lambda: "second" in names(daemon), 30, "it is served")
    for role in ("api", "warden"):
        old = daemon.process(role)
        os.kill(old.pid, signal.SIGKILL)
        wait_until(lambda: not old.is_alive(), 10, f"the {role} is gone")
        box = wait_until(lambda: attempt(lambda: Box(daemon, template="second")), 30, f"a new {role} serves it")
        assert box.kernel().value("print(5)") == 5
        box.kill()


def attempt(call):
    try:
        return call()
    except (AssertionError, requests.RequestException):
        time.sleep(0.1)
        return None


def test_named_templates_only_are_served_also_later(start, cache):
    daemon = start(templates=["first"])
    cache.put("second")
    cache.put("first", description="changed")
    wait_until(lambda: ask(daemon, "GET", "/templates/first").json()["description"] == "changed", 30, "the named one is renewed")
    assert names(daemon) == ["first"]


def test_a_signal_asks_to_look_too(start, cache):
    daemon = start()
    os.kill(daemon.pid, signal.SIGHUP)
    cache.put("third")
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: "third" in names(daemon), 30, "it is served")
    assert daemon.is_running
