"""Contexts in other languages stand behind the same walls as Python's: all that runs in a sandbox with them is
compared with the same lists."""

from __future__ import annotations

import json
import re

import expected
import host
import pytest
from daemon import wait_until
from inside import differences
from origins import boxes, daemon  # noqa: F401
from test_posture import check_mounts, masks, shown

START = {
    "bash": "sleep 600 & echo $!",
    "node": "console.log(require('child_process').spawn('sleep', ['600'], {stdio: 'inherit'}).pid)",
}
RUN = {"bash": "{}", "node": "process.stdout.write(require('child_process').execSync({!r}))"}


@pytest.mark.parametrize("language", START)
def test_every_process_of_a_context_has_the_documented_posture(boxes, language):
    box = boxes()
    kernel = box.kernel(language)
    started = int(kernel.said(START[language]))
    others = {"python3", "sandglass-node-" if language == "bash" else "sandglass-bash-"}  # of the pool, which end now
    wait_until(lambda: not others & host.names(box.id), 10, "only kernels that were asked for are left")
    inner = [int(pid) for pid in box.shell("ps -eo pid=,user=,comm= | awk '$2==\"user\" && $3!~/^(ps|awk|sh)$/ {print $1}'").split()]
    assert started in inner and len(inner) >= 3, "the runner, what it drives, and what that has started"
    init = host.process_of(box.id, 1)
    for pid in inner:
        outer = host.process_of(box.id, pid)
        for thread in host.threads(outer):
            status = shown(host.status(outer, thread))
            wanted = expected.credentials(0, expected.NO_CAPABILITIES) | {"Uid": status["Uid"], "Gid": status["Gid"]}
            assert differences(status, wanted) == []
            assert len({status["Uid"], status["Gid"], "\t".join([status["Uid"].split()[0]] * 4)}) == 1
        assert host.namespaces(outer) == host.namespaces(init)
        with open(f"/proc/{outer}/mountinfo") as file:
            check_mounts(file.read().splitlines())
        assert differences(host.limits(outer), {key: (value, value) for key, value in expected.LIMITS.items()}) == []


@pytest.mark.parametrize("language", START)
def test_what_a_context_starts_is_an_ordinary_process(boxes, language):
    kernel = boxes().kernel(language)

    def said(command):
        return kernel.said(RUN[language].format(command))

    status = dict(line.split(":\t", 1) for line in said("exec cat /proc/self/status").splitlines())
    assert masks(status) == dict.fromkeys(("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"), 0)
    listed = said("ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> \\([^:]*\\).*/\\1 \\2/p'" if language == "bash" else "ls /proc/self/fd").split()
    assert listed[:6] == ["0", "/dev/null", "1", "pipe", "2", "pipe"] if language == "bash" else listed == ["0", "1", "2", "3"]


@pytest.mark.parametrize("language", START)
def test_the_environment_is_that_of_commands(boxes, language):
    box = boxes()
    own = dict(line.split("=", 1) for line in box.shell("env").splitlines())
    code = {"bash": "python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'", "node": "console.log(JSON.stringify(process.env))"}[language]
    seen = json.loads(box.kernel(language).said(code))
    for name in ("_", "SHLVL", "PWD", "OLDPWD", "VIRTUAL_ENV_DISABLE_PROMPT"):
        own.pop(name, None), seen.pop(name, None)
    assert seen == own


@pytest.mark.parametrize("language", START)
def test_system_calls_are_refused_as_to_commands(boxes, language):
    box = boxes().with_probe()
    code = f"{RUN[language].format('/tmp/probe/sandglass-probe clone')}"
    assert differences(json.loads(box.kernel(language).said(code)), expected.CLONE) == []
    assert re.match(r"[\d.]+", box.shell("node --version").lstrip("v"))
