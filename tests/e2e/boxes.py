"""Sandboxes over plain HTTP, for tests that look at the answers as they stand on the wire.

boxes    a fixture: boxes() makes a sandbox, a second one, ...; all are ended with the test. Take it in with
         `from boxes import boxes  # noqa: F401`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import requests
from daemon import PATIENCE, build_folder

PROBE, LIBRARY = "/tmp/probe/sandglass-probe", "/tmp/probe/libsandglass-probe.so"


def probe_files() -> dict[str, Path]:
    folder = Path(os.environ.get("SANDGLASS_PROBE") or build_folder() / "probe")
    return {PROBE: folder / "sandglass-probe", LIBRARY: folder / "libsandglass-probe.so"}


class Kernel:
    """One kept kernel."""

    def __init__(self, box: Box, language: str = "python") -> None:
        self.box = box
        self.id = box.request("POST", "/repl/sessions", json={"language": language}, want=201)["id"]

    def send(self, code: str, seconds: float | None = None, timeout: float | None = None) -> requests.Response:
        body = {"code": code} | ({"timeout_ms": int(seconds * 1000)} if seconds else {})
        return self.box.send("POST", f"/repl/sessions/{self.id}/run", json=body, timeout=timeout or 60 * PATIENCE)

    def run(self, code: str, seconds: float | None = None) -> dict:
        """The answer of a cell, whatever came of it; HTTP failures fail the test."""
        answer = self.send(code, seconds)
        assert answer.status_code == 200, f"HTTP {answer.status_code}: {answer.text}"
        return answer.json()

    def said(self, code: str) -> str:
        """What a cell printed; it must not fail."""
        answer = self.run(code)
        assert answer["exit"] == 0, answer
        return answer["stdout"]

    def value(self, code: str):
        """The JSON a cell printed as its last line."""
        return json.loads(self.said(code).strip().splitlines()[-1])

    def close(self) -> None:
        self.box.send("DELETE", f"/repl/sessions/{self.id}")


class Box:
    """One sandbox."""

    def __init__(self, daemon, **options) -> None:
        self.daemon = daemon
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {daemon.key}"
        self._has_probe = False
        options = {"template": "code-interpreter", "ttl_seconds": 600, **options}
        answer = self.session.post(f"{daemon.url}/v1/sandboxes", json=options, timeout=60 * PATIENCE)
        assert answer.status_code == 201, f"HTTP {answer.status_code}: {answer.text}"
        self.about = answer.json()
        self.id = self.about["id"]

    def send(self, method: str, path: str = "", **options) -> requests.Response:
        options.setdefault("timeout", 60 * PATIENCE)
        return self.session.request(method, f"{self.daemon.url}/v1/sandboxes/{self.id}{path}", **options)

    def request(self, method: str, path: str = "", want: int = 200, **options) -> dict:
        answer = self.send(method, path, **options)
        assert answer.status_code == want, f"{method} {path}: HTTP {answer.status_code}: {answer.text}"
        return answer.json() if answer.content else {}

    def kernel(self, language: str = "python") -> Kernel:
        return Kernel(self, language)

    def command(self, text: str, seconds: int | None = None) -> dict:
        body = {"cmd": text} | ({"timeout_seconds": seconds} if seconds else {})
        return self.request("POST", "/exec", json=body)

    def shell(self, text: str) -> str:
        """What a command printed; it must succeed."""
        answer = self.command(text)
        assert answer["exit_code"] == 0, answer
        return answer["stdout"]

    def write(self, path: str, content: bytes | str) -> None:
        self.request("PUT", "/fs", params={"path": path}, data=content, headers={"Content-Type": "application/octet-stream"})

    def read(self, path: str) -> requests.Response:
        return self.send("GET", "/fs", params={"path": path})

    def with_probe(self) -> Box:
        """Puts the probe in place, once."""
        if not self._has_probe:
            for path, local in probe_files().items():
                self.write(path, local.read_bytes())
            self.shell(f"chmod +x {PROBE}")
            self._has_probe = True
        return self

    def probe(self, *arguments) -> dict:
        """The probe as a command."""
        text = " ".join("'" + str(a).replace("'", "'\\''") + "'" for a in arguments)
        answer = self.with_probe().command(f"{PROBE} {text}")
        assert answer["stdout"].startswith("{"), answer
        return json.loads(answer["stdout"])

    def kill(self) -> None:
        self.send("DELETE")


@pytest.fixture
def boxes(daemon):
    made: list[Box] = []

    def make(**options) -> Box:
        made.append(Box(options.pop("daemon", daemon), **options))
        return made[-1]

    yield make
    for box in made:
        try:
            box.kill()
        except requests.RequestException:
            pass  # the test ended its daemon
