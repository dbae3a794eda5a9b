"""The command line of @pandastack/sdk and its templates, unmodified. `make check` runs it where it has installed that package:

    SANDGLASS_NODE_MODULES=FOLDER/node_modules pytest tests/e2e/npm_client.py
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time

import pytest
from daemon import PATIENCE, wait_until


@pytest.fixture
def environment(daemon):
    return {**os.environ, **daemon.variables, "PANDASTACK_API_URL": daemon.url}


def command(*arguments) -> list[str]:
    program = os.path.join(os.environ["SANDGLASS_NODE_MODULES"], "@pandastack/sdk/dist/cli.js")
    return [os.environ.get("SANDGLASS_NODE", "node"), program, *arguments]


@pytest.fixture
def run(environment):
    def run(*arguments, stdin=""):
        done = subprocess.run(command(*arguments), env=environment, input=stdin, capture_output=True, text=True, timeout=60 * PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


class Screen:
    """What a program shows on a terminal, and typing at it."""

    def __init__(self, arguments, env, rows=None, columns=None) -> None:
        self.main, side = pty.openpty()
        if rows:
            import fcntl
            import struct
            import termios

            fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(arguments, stdin=side, stdout=side, stderr=side, env=env, start_new_session=True)
        os.close(side)
        self.shown = b""

    def read_until(self, wanted: bytes) -> None:
        end = time.monotonic() + 20 * PATIENCE
        while wanted not in self.shown:
            assert time.monotonic() < end, self.shown
            if select.select([self.main], [], [], 0.5)[0]:
                try:
                    self.shown += os.read(self.main, 65536)
                except OSError:
                    raise AssertionError(f"it ended: {self.shown!r}") from None

    def type(self, line: str) -> None:
        os.write(self.main, line.encode() + b"\n")


@pytest.mark.parametrize("size", [(40, 132), None])
def test_it_opens_a_shell(environment, box, size):
    screen = Screen(command("sandbox", "ssh", box.id), environment, *(size or ()))
    screen.read_until(b"$ ")  # the first output is there, though it listens late
    screen.type("echo $((6 * 7))-answer; stty size")
    screen.read_until(b"42-answer")
    screen.read_until(b"40 132" if size else b"24 80")  # a terminal without a size gets an ordinary one
    screen.type("exit")
    screen.read_until(b'{"exit":0}')
    assert screen.process.wait(20 * PATIENCE) == 0
    os.close(screen.main)


def test_it_lists_gets_runs_and_deletes(run, client, box):
    assert box.id in run("sandbox", "list")
    assert json.loads(run("sandbox", "get", box.id))["status"] == "running"
    assert "both ends" in run("sandbox", "exec", box.id, "--", "echo both; echo ends | sed s/^/both\\ /")
    run("sandbox", "delete", box.id)
    wait_until(lambda: box.id not in run("sandbox", "list"), 10, "it is gone")


def test_it_tells_preview_urls(run, box):
    box.exec("nohup python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &")
    wait_until(lambda: f"8123-{box.id}" in run("sandbox", "preview-urls", box.id), 20, "the port is told")
    assert f"9000-{box.id}" in run("sandbox", "preview-url", box.id, "--port", "9000")


SCRIPT = """
import { Client } from "@pandastack/sdk";
const client = new Client();
const context = { "requirements.txt": "sandglass-no-such-wheel-at-all==9.9\\n", "a/b \\u00e4.txt": "x" };
const build = await client.templates.buildFromDockerfile({
  name: "mine", dockerfile: "FROM base\\nCOPY . .\\nRUN pip install -r requirements.txt\\n", context });
const lines = [];
for await (const line of client.templates.buildLogs(build.id)) lines.push(line);
let failed = "";
try { await client.templates.waitForBuild(build.id, { intervalMs: 50 }); } catch (error) { failed = error.message; }
let refused = 0;
try { await client.templates.build({ name: "x", rootfs: new Blob(["x"]) }); } catch (error) { refused = error.statusCode; }
console.log(JSON.stringify({ lines, failed, refused, builds: (await client.templates.builds()).length }));
"""


def test_the_library_builds_a_template_and_reads_its_log(environment, tmp_path):
    (tmp_path / "node_modules").symlink_to(os.environ["SANDGLASS_NODE_MODULES"])
    (tmp_path / "try.mjs").write_text(SCRIPT)
    done = subprocess.run([os.environ.get("SANDGLASS_NODE", "node"), tmp_path / "try.mjs"], env=environment, capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["lines"][0] == "FROM base: base" and seen["lines"][-1].startswith("error: pip failed")
    assert "pip failed" in seen["failed"] and seen["refused"] == 501 and seen["builds"] == 1
