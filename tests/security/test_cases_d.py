"""Cases D: ids, capabilities, namespaces, filters. Each refusal is one cell of a matrix: what, and in which of the four ways."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import expected
import pytest
from inside import differences


def test_38_a_user_namespace_cannot_be_made(look):
    report = look.probe("clone")
    for how in ("unshare", "clone", "clone high bit", "clone3", "setns"):
        assert report[how]["user"] in ("EPERM", "ENOSYS"), how


@pytest.mark.parametrize("command", ["unshare -Ur id -u", "unshare -n ip link", "unshare -p -f true", "unshare -m true", "newuidmap 1 0 0 1", "nsenter -t 1 -a id"])
def test_38_tools_for_namespaces_fail(boxes, command):
    answer = boxes().command(f"{command} 2>&1")
    assert answer["exit_code"] != 0, answer


def test_38_the_second_lock_holds_without_the_filter(boxes):
    """Should the filter ever fail, the namespace's own counts refuse (ENOSPC); they are read here."""
    limits = boxes().shell("cd /proc/sys/user && head -n1 max_*_namespaces /dev/null | grep -E '^[0-9]'").split()
    assert len(limits) >= 7 and set(limits) == {"0"}


def test_39_no_flag_makes_a_namespace_and_ordinary_ones_work(look):
    assert differences(look.probe("clone"), expected.CLONE) == []


def test_39_namespaces_are_the_same_after_all_attempts(look):
    code = "import json, os; print(json.dumps({n: os.readlink('/proc/self/ns/' + n) for n in sorted(os.listdir('/proc/self/ns'))}))"
    before = look.python(code)
    look.probe("clone")
    assert look.python(code) == before


def test_40_setns_by_pidfd_is_refused(look):
    setns = look.probe("clone")["setns"]
    assert setns["pidfd of 1"] == setns["pidfd of self"] == "EPERM"


def test_41_no_capability_comes_back(look):
    assert differences(look.probe("caps"), expected.CAPS) == []


def test_41_capabilities_are_none_after_exec(look):
    look.box.with_probe()
    ids = look.probe("ids")
    assert ids == {"uid": "1000 1000 1000", "gid": "1000 1000 1000", "permitted": "0" * 16, "effective": "0" * 16, "groups": 0}


def test_42_no_id_can_be_changed(look):
    assert differences(look.probe("uids"), expected.UIDS) == []
    assert look.probe("ids")["uid"] == "1000 1000 1000"


def test_43_own_filters_loosen_nothing(look):
    assert differences(look.probe("seccomp-loosen"), expected.SECCOMP_LOOSEN) == []


def test_43_denials_remain_after_exec_under_an_own_filter(boxes):
    """An allow-all filter, then exec: the exec'd probe is denied as before."""
    box = boxes().with_probe()
    said = box.kernel().said(
        "import ctypes, subprocess, struct\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def allow_all():\n"
        "    allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n"
        "    program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(allow)))\n"
        "    assert libc.syscall(317, 1, 0, program) == 0, ctypes.get_errno()\n"
        "print(subprocess.run(['/tmp/probe/sandglass-probe', 'denied'], preexec_fn=allow_all, capture_output=True, text=True).stdout)"
    )
    assert json.loads(said)["exec"] == expected.DENIED


@pytest.fixture
def host_targets(tmp_path):
    """On the host: a process, an abstract socket, a path socket, a TCP listener."""
    abstract = f"sandglass-test-{os.getpid()}"
    code = (
        "import socket, sys, time\n"
        f"a = socket.socket(socket.AF_UNIX); a.bind('\\0{abstract}'); a.listen()\n"
        f"p = socket.socket(socket.AF_UNIX); p.bind('{tmp_path}/s'); p.listen()\n"
        "t = socket.socket(); t.bind(('127.0.0.1', 0)); t.listen()\n"
        "print(t.getsockname()[1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    with socket.create_connection(("127.0.0.1", port)):
        pass
    yield process, "@" + abstract, f"{tmp_path}/s", port
    process.stdin.close()
    assert process.wait(10) == 0, "nobody ended it"


def test_44_host_processes_and_sockets_are_out_of_reach(look, host_targets):
    process, abstract, path, port = host_targets
    assert look.probe("connect-unix", abstract) == {abstract: "ECONNREFUSED"}
    assert look.probe("connect-unix", path)[path] in ("ENOENT", "ECONNREFUSED", "EACCES")
    here = look.probe("connect", "127.0.0.1", port)
    assert here == {f"127.0.0.1 {port}": "ECONNREFUSED"}, "the sandbox has a loopback of its own"
    reached = look.probe("signals")
    assert process.poll() is None
    # Only pids of the sandbox's own namespace exist, and of those only user code can be signalled.
    assert 1 not in reached["reached"]
    assert 1 <= reached["count"] < 40 and 1 <= reached["refused"] < 40


def test_44_signals_to_every_pid_reach_only_the_sandbox(boxes):
    box, other = boxes(), boxes()
    other_kernel = other.kernel()
    other_kernel.said("kept = 1")
    box.command("kill -9 -1; for p in $(seq 1 5000); do kill -9 $p 2>/dev/null; done; true")
    assert other_kernel.said("print(kept)") == "1\n"
    assert box.shell("echo alive") == "alive\n"
