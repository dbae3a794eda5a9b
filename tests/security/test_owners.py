"""One owner's key on everything that is another's: every endpoint of the table answers as for what never was."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import requests
from boxes import Box
from daemon import PATIENCE, build_folder
from ws import KEY

ROUTES = Path(__file__).parents[2] / "src/api/routes.c"
NOBODY = "0123456789abcdef" * 2


def endpoints() -> list[tuple[str, str]]:
    """Methods and patterns below a sandbox or a run, as the server's own table has them."""
    text = ROUTES.read_text()
    box = re.search(r'#define BOX "([^"]+)"', text)[1]
    found = re.findall(r'\{\s*"([A-Z]*)",\s*(BOX)?\s*(?:"([^"]*)")?,', text)
    rows = [(method or "GET", (box if is_box else "") + path) for method, is_box, path in found]
    return [(method, path) for method, path in rows if path.startswith((box, "/v1/runs/"))]


@pytest.fixture(scope="module")
def owners(daemon):
    """A sandbox of the operator's with a session and a run in it, and the key of somebody else."""
    made = subprocess.run(
        [build_folder() / "sandglass", "key", "create", "--state", daemon.state, "--owner", "other"],
        capture_output=True, text=True, timeout=60 * PATIENCE, check=True,
    )  # fmt: skip
    key = re.search(r"[a-z]+_[0-9a-f]{40}", made.stdout)[0]
    box = Box(daemon)
    kernel = box.kernel("bash")
    run = kernel.run("echo mine")["run_id"]
    box.request("POST", "/ports", json={"port": 80}, want=201)
    yield box, kernel.id, run, key
    box.kill()


def test_the_table_is_read_whole():
    found = endpoints()
    assert len(found) > 40
    for one in [("GET", "/v1/sandboxes/{id}/ssh"), ("POST", "/v1/runs/{}/cancel"), ("GET", "/v1/sandboxes/{id}"), ("GET", "/v1/sandboxes/{id}/proxy/{}/*")]:
        assert one in found


@pytest.mark.parametrize("is_upgrade", [False, True], ids=["plain", "upgrade"])
@pytest.mark.parametrize("method, path", endpoints())
def test_96_nothing_of_another_owner_is_seen_or_touched(daemon, owners, method, path, is_upgrade):
    box, session, run, key = owners
    headers = {"Authorization": f"Bearer {key}"}
    if is_upgrade:
        headers |= {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY}

    def ask(box_id: str, run_id: str) -> tuple[int, dict]:
        target = path.replace("{id}", box_id).replace("{sid}", session).replace("*", "x")
        target = target.replace("/runs/{}", f"/runs/{run_id}").replace("{}", "80")
        answer = requests.request(method, daemon.url + target, headers=headers, params={"path": "/workspace"}, timeout=20 * PATIENCE)
        return answer.status_code, {k: v for k, v in answer.json().items() if k != "request_id"}

    theirs, nobodys = ask(box.id, run), ask(NOBODY, NOBODY[:16])
    assert theirs == nobodys
    assert theirs[0] == 404 and theirs[1]["code"] in ("sandbox.not_found", "run.not_found")


def test_96_afterwards_all_of_it_is_as_it_was(daemon, owners):
    box, session, run, key = owners
    own = lambda path: box.session.get(f"{daemon.url}/v1{path}", timeout=20).json()
    assert own(f"/sandboxes/{box.id}")["status"] == "running"
    assert own(f"/runs/{run}")["stdout"] == "mine\n"
    assert [one["id"] for one in own(f"/sandboxes/{box.id}/repl/sessions")] == [session]
    assert [port["port"] for port in own(f"/sandboxes/{box.id}/ports")] == [80]
    headers = {"Authorization": f"Bearer {key}"}
    assert requests.get(f"{daemon.url}/v1/sandboxes", headers=headers, timeout=20).json() == []
    assert requests.get(f"{daemon.url}/metrics", headers=headers, timeout=20).status_code == 403
    token = box.request("POST", "/preview-token", json={"port": 80}, want=201)["token"]
    stolen = requests.get(f"{daemon.url}/v1/sandboxes/{box.id}/logs?follow=1&access_token={key}", timeout=20)
    assert stolen.status_code == 404
    assert requests.get(f"{daemon.url}/v1/p/{token}/", timeout=20).json()["code"] == "proxy.port_closed"  # who has it may
