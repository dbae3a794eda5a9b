"""What a template's own code can do in its zygote: packages, wheels and placed files run there while Python warms.

The template is the image of `base` as a plain folder, with a path file, as wheels may bring one: its code runs as Python starts,
before any of ours, makes every attempt, and keeps what came of it in a module; sandboxes of the template tell. A second template, untouched,
stands for all others.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import host
import pytest
from boxes import Box
from daemon import wait_until

pytestmark = pytest.mark.limit(180)  # a daemon, and then a template that has to get warm, each
SITE = "usr/local/lib/python3.11/dist-packages"
REAL = Path(os.environ.get("SANDGLASS_CACHE") or Path.home() / ".cache/sandglass") / "base"

ATTEMPTS = (Path(__file__).parent / "zygote_attempts.py").read_text()
LIAR = (Path(__file__).parent / "zygote_liar.py").read_text()
VICTIMS = ("zygote", "init", "kernel")  # of the other template
LIES = {
    "a {victim} of another template as its kernel": "answer(control, serial, VICTIM)",
    "a {victim} of another template as what nobody has asked for": "answer(control, serial, 0, 12); answer(control, serial + 7, VICTIM)",
    "a {victim} of another template as the kernel of nobody": "answer(control, serial + 7, VICTIM); answer(control, serial, 0, 12); answer(control, serial, 0, 12)",
    "the warden as its kernel": "answer(control, serial, 1)",
    "itself as its kernel": "answer(control, serial, os.getpid())",
    "that it is parked, twice": "answer(control, 0, 0)",
    "something of another size": "control.send(b'x' * 999)",
    "descriptors": "socket.send_fds(control, [struct.pack('<IiiI', serial, 0, 5, 0)], [0, 0, 0, 0])",
}
CASES = [(text.format(victim=victim), lie, victim) for text, lie in LIES.items() for victim in (VICTIMS if "{" in text else VICTIMS[:1])]

REFUSED = {
    "EPERM": (
        "mount", "umount", "pivot_root", "chroot", "open_tree", "fsopen", "mount_setattr", "unshare user", "unshare mount",
        "clone user", "ptrace", "process_vm_readv", "bpf", "perf_event_open", "init_module", "sethostname", "reboot",
        "capset", "securebits", "ambient", "setuid 0", "setresuid 1",
        "policy of the warden", "parameters of the warden", "attributes of the warden", "affinity of the warden",
        "priority of the warden", "io priority of the warden",
    ),
    "ENOSYS": ("setns of one", "clone3", "userfaultfd", "io_uring_setup", "keyctl", "named keyring", "add_key"),
    "EAFNOSUPPORT": ("packet socket",),
    "EPROTONOSUPPORT": ("raw socket",),
    "EACCES": ("write core_pattern", "write max_user_namespaces"),
    "EROFS": ("write image",),
}  # fmt: skip


class Templates:
    """An image cache of the test's own: `other`, which is base, and `mine`, base with code of ours."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self.folder, self.tree = folder, tree
        folder.mkdir()
        self._put("other", (REAL / "image.erofs").resolve())

    def put_mine(self, code: str) -> None:
        (self.tree / SITE / "template_code.pth").write_text("import template_code\n")
        (self.tree / SITE / "template_code.py").write_text(code)
        self._put("mine", self.tree)

    def _put(self, name: str, image: Path) -> None:
        about = json.loads((REAL / "template.json").read_text())
        entry = self.folder / (name[0] * 24)
        entry.mkdir()
        (entry / "template.json").write_text(json.dumps(about | {"name": name, "aliases": [], "image": str(image)}))
        (self.folder / name).symlink_to(entry.name)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image") / "root"
    subprocess.run(["fsck.erofs", f"--extract={folder}", (REAL / "image.erofs").resolve()], check=True, capture_output=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def serve(own_daemon, tmp_path, tree):
    """A daemon with a sandbox of `other` at work, and then the template `mine`, with the code that is made for them."""

    def serve(make_code):
        templates = Templates(tmp_path / "cache", tree)
        config = {"pool": 0}
        daemon = own_daemon(config=config, env={"SANDGLASS_CACHE": str(templates.folder)})
        neighbour = Box(daemon, template="other")
        neighbour.kept = neighbour.kernel()
        neighbour.kept.run("kept = 1")
        templates.put_mine(make_code(daemon, neighbour))
        wait_until(lambda: any("'mine' is warm" in event["message"] for event in daemon.events("zygote.warm")), 120, "the template is warm")
        return daemon, neighbour

    return serve


def zygotes(daemon) -> dict[str, list[int]]:
    """The processes in the control group of each zygote."""
    found = {}
    for one in daemon.processes():
        group = next((line for line in Path(f"/proc/{one.pid}/cgroup").read_text().splitlines() if "/zygote/" in line), None)
        if group:
            found.setdefault(group.rpartition("/")[2], []).append(one.pid)
    return found


def processes_of(daemon, neighbour) -> dict[str, int]:
    """Host pids of what must come to no harm."""
    return {
        "zygote": zygotes(daemon).popitem()[1][0],
        "init": host.process_of(neighbour.id, 1),
        "kernel": host.process_of(neighbour.id, neighbour.kept.value("import os; print(os.getpid())")),
    }


def test_code_of_a_template_gains_nothing_while_it_warms(serve):
    daemon, neighbour = serve(lambda *_: ATTEMPTS)
    mine = Box(daemon, template="mine")
    told = mine.kernel().value("import template_code, json; print(json.dumps(template_code.told))")
    assert "broke" not in told, told
    status = dict(line.split(":\t", 1) for line in told["status"].splitlines() if ":\t" in line)
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and len(set(status["Uid"].split())) == 1
    wanted = {name: errno for errno, names in REFUSED.items() for name in names}
    assert {name: told[name] for name in wanted} == wanted
    assert told["set-id exec"] == []
    assert told["seen in /proc"] is True and told["read of others"] == []
    assert told["signalled"] == [] and told["joined"] == []
    assert neighbour.kept.value("print(kept)") == 1


@pytest.mark.parametrize("lie, victim", [pytest.param(lie, victim, id=name) for name, lie, victim in CASES])
def test_what_a_zygote_says_harms_nobody_else(serve, lie, victim):
    def code(daemon, neighbour):
        pid = host.status(processes_of(daemon, neighbour)[victim])["NSpid"].split()[1]  # as the nursery has it
        return LIAR.replace("LIE", lie.replace("VICTIM", pid))

    daemon, neighbour = serve(code)
    others = {role: daemon.process(role).pid for role in ("keeper", "warden", "api", "init")}
    answer = Box(daemon, template="mine").send("POST", "/repl/sessions", json={"language": "python"})
    assert answer.status_code >= 500, answer.text
    wait_until(lambda: daemon.events("zygote.wrong"), 10, "the warden has seen through it")
    assert neighbour.kept.value("print(kept)") == 1 and neighbour.shell("echo on") == "on\n"
    assert neighbour.kernel().value("print(2)") == 2
    assert {role: daemon.process(role).pid for role in others} == others


LEAVES = r"""
import os, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
        os._exit(0)
"""


def test_what_a_template_starts_while_it_warms_ends_with_its_zygote(serve):
    daemon, neighbour = serve(lambda *_: LEAVES)
    left = next(pids for pids in zygotes(daemon).values() if len(pids) > 20)
    parked = next(pid for pid in left if len(host.descriptors(pid)) == 4 and host.status(pid)["PPid"] == str(daemon.process("warden").pid))
    os.kill(parked, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), 10, "all of it is gone")
    assert neighbour.kept.value("print(kept)") == 1


STAYS = r"""
import ctypes, os, socket, struct, sys, time, types

libc = ctypes.CDLL(None, use_errno=True)


def stay(groups, sandbox, told):
    for group in groups:
        os.write(group, b"0")
    joined = libc.setns(sandbox, 0x7E020000)
    os.setresuid(1000, 1000, 1000)
    os.write(told, b"in" if joined == 0 else b"out")
    time.sleep(1000)
    os._exit(0)


def park(fd):
    control = socket.socket(fileno=fd)
    control.send(struct.pack("<IiiI", 0, 0, 0, 0))
    while True:
        groups = socket.recv_fds(control, 4096, 16)[1]
        data, others, _, _ = socket.recv_fds(control, 4096, 16)
        hear, told = os.pipe()
        if os.fork() == 0:
            stay(groups, others[0], told)
        error = 12 if os.read(hear, 16) == b"in" else 5
        control.send(struct.pack("<IiiI", struct.unpack("<I", data[:4])[0], 0, error, 0))


module = sys.modules["_sandglass"] = types.ModuleType("_sandglass")
module.park, module.flush_stdio = park, lambda: None
"""


def strangers(sandbox: str) -> list[int]:
    """Processes in the control groups of a sandbox that are not in its pid namespace, but in the nursery's."""
    return [pid for pid in host.process_ids(sandbox) if len(host.status(pid)["NSpid"].split()) == 2]


def test_what_a_zygote_leaves_in_a_sandbox_ends_with_the_sandbox(serve):
    daemon, neighbour = serve(lambda *_: STAYS)
    mine = Box(daemon, template="mine")
    answer = mine.send("POST", "/repl/sessions", json={"language": "python"})
    assert answer.status_code >= 500, answer.text
    left = strangers(mine.id)
    assert len(left) >= 1 and host.status(left[0])["Uid"] != host.status(zygotes(daemon).popitem()[1][0])["Uid"]
    assert mine.send("DELETE").status_code == 204
    wait_until(lambda: all(host.status(pid)["State"].startswith("Z") for pid in left), 10, "it has ended")  # nobody waits for it
    wait_until(lambda: [event for event in daemon.events("sandbox.ended") if event["sandbox"] == mine.id], 10, "nothing is left of the sandbox")
    assert not daemon.events("sandbox.cgroup")
    assert neighbour.kept.value("print(kept)") == 1
