"""What a live sandbox is, compared with an exact list: one descriptor, capability or mount more fails.

Two views: from the host (root reads /proc of the real processes, also of init, which is closed from inside) and from
inside (the probe, run in each of the four ways).
"""

from __future__ import annotations

import os
import re

import expected
import host
import pytest
from daemon import wait_until
from inside import PROBE, differences
from origins import boxes, daemon  # noqa: F401

CREDENTIAL_LINES = tuple(expected.credentials(0, ""))


def shown(status: dict[str, str]) -> dict[str, str]:
    return {key: re.sub(r"\s+", "\t", status[key].strip()) for key in CREDENTIAL_LINES}


@pytest.fixture
def living(boxes):
    """A sandbox with a kernel, a process that it started, and a running command: name -> host pid."""
    box = boxes()
    kernel = box.kernel()
    inner = kernel.value(
        "import json, os, subprocess\n"
        "started = subprocess.Popen(['sleep', '600'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(json.dumps([os.getpid(), started.pid]))"
    )
    background = int(box.shell("sleep 601 >/dev/null 2>&1 & echo $!"))
    pids = {"init": 1, "kernel": inner[0], "started by a kernel": inner[1], "command": background}
    return box, {name: host.process_of(box.id, pid) for name, pid in pids.items()}


USER_PROCESSES = ("kernel", "started by a kernel", "command")


# ---- credentials (case 1) ----


@pytest.mark.parametrize("name", USER_PROCESSES)
def test_1_user_code_has_one_id_and_no_capability_in_any_thread(living, name):
    box, pids = living
    for thread in host.threads(pids[name]):
        status = shown(host.status(pids[name], thread))
        ids = {status["Uid"], status["Gid"]}
        assert len(ids) == 1, "user and group are mapped alike"
        wanted = expected.credentials(0, expected.NO_CAPABILITIES) | {"Uid": status["Uid"], "Gid": status["Gid"]}
        assert differences(status, wanted) == []
        host_id = int(status["Uid"].split("\t")[0])
        nursery = int(host.status(box.daemon.process("warden").pid)["Uid"].split()[0])
        assert host_id > nursery and (host_id - nursery) % 16 == 1, "the host sees the user's id of a slice of its own"
        assert status["Uid"] == "\t".join([str(host_id)] * 4)


def test_1_init_has_exactly_three_capabilities(living):
    box, pids = living
    status = shown(host.status(pids["init"]))
    wanted = expected.credentials(0, expected.INIT_CAPABILITIES) | {"Uid": status["Uid"], "Gid": status["Gid"]}
    assert differences(status, wanted) == []
    assert len(set(status["Uid"].split("\t"))) == 1
    user = host.status(pids["kernel"])["Uid"].split()[0]
    assert status["Uid"].split("\t")[0] != user, "init is another user than user code"


def steady_posture(look) -> dict:
    """Of a process that ends while it is looked at, /proc gives an error in place of its status, or tells of one that has
    no filter any more since it is dead: then once more."""

    def is_whole(process) -> bool:
        threads = process["threads"].values() if isinstance(process["threads"], dict) else ()
        return all(isinstance(status, dict) and status["State"][0] not in "ZX" for status in (process["status"], *threads))

    def whole():
        report = look.probe("posture")
        return report if all(map(is_whole, report["processes"].values())) else None

    return wait_until(whole, 10, "no process ends in the midst of a look")


def test_1_every_process_seen_inside_has_the_documented_credentials(look):
    report = steady_posture(look)
    assert len(report["processes"]) >= 2
    for pid, process in report["processes"].items():
        uid, capabilities = (expected.INIT, expected.INIT_CAPABILITIES) if pid == "1" else (expected.USER, expected.NO_CAPABILITIES)
        # A command's supervisor is init's child with init's id.
        if process["status"]["Uid"].split()[0] == str(expected.INIT):
            uid, capabilities = expected.INIT, {expected.INIT_CAPABILITIES, expected.NO_CAPABILITIES, "0000000000000020"}
        wanted = expected.credentials(uid, "") | dict.fromkeys(("CapPrm", "CapEff"), capabilities)
        assert differences(shown(process["status"]), wanted) == [], f"{pid} {process['cmdline']}"
        for thread in process["threads"].values() if isinstance(process["threads"], dict) else ():
            assert shown(thread) == shown(process["status"])


def test_1_two_sandboxes_never_share_an_id(boxes):
    users = set()
    for box in (boxes(), boxes(), boxes()):
        box.shell("true")
        users.add(host.status(host.process_of(box.id, 1))["Uid"].split()[0])
    assert len(users) == 3


def test_1_the_kernel_has_one_thread_at_its_first_cell(boxes):
    kernel = boxes().kernel()
    assert kernel.value("import json, os; print(json.dumps(len(os.listdir('/proc/self/task'))))") == 1


# ---- namespaces (case 2) ----


def test_2_each_sandbox_has_namespaces_of_its_own(living, boxes):
    box, pids = living
    other = boxes()
    other.shell("true")
    mine, theirs, ours = host.namespaces(pids["init"]), host.namespaces(host.process_of(other.id, 1)), host.namespaces(os.getpid())
    assert {name for name in mine if mine[name] != theirs[name]} == expected.OWN_NAMESPACES
    assert {name for name in mine if mine[name] != ours[name]} == expected.OWN_NAMESPACES
    assert {name for name in mine if mine[name] == ours[name]} == expected.SHARED_NAMESPACES


@pytest.mark.parametrize("name", USER_PROCESSES)
def test_2_all_processes_of_a_sandbox_share_its_namespaces(living, name):
    box, pids = living
    assert host.namespaces(pids[name]) == host.namespaces(pids["init"])


# ---- mounts (case 3) ----


def parse_mount(line: str) -> tuple[str, str, set[str], str, set[str]]:
    """Point, root, options, type, options of the file system."""
    left, _, right = line.partition(" - ")
    fields, kind = left.split(), right.split()
    options = set(fields[5].split(",")) - {"relatime", "noatime", "strictatime", "nodiratime"}
    return fields[4], fields[3], options, kind[0], set(kind[2].split(","))


def check_mounts(lines: list[str]) -> None:
    wanted = dict(expected.MOUNTS)
    masks = {f"/proc/{n}": expected.MASK_OF_FILE for n in expected.MASKED_FILES} | {f"/proc/{n}": expected.MASK_OF_FOLDER for n in expected.MASKED_FOLDERS}
    seen = []
    for point, root, options, kind, super_options in map(parse_mount, lines):
        seen.append(point)
        assert kind not in expected.NEVER_MOUNTED or point in {f"/dev/{d}" for d in expected.DEVICES} or point in masks, f"{point} is a {kind}"
        assert point in wanted or point in masks, f"{point} ({kind}) is not on the list"
        want_kind, want_options = wanted.get(point) or masks[point]
        assert kind == want_kind or want_kind is None, f"{point} is a {kind}"
        assert options == want_options, f"{point}: {options}"
        if want_kind is None:  # one device node, never a folder of them
            assert root.lstrip("/") in {*expected.DEVICES}, f"{point} shows {root}"
        elif point != "/proc/sys":
            assert root == "/", f"{point} shows {root} of its file system"
    assert sorted(seen) == sorted(set(seen)), "a point is covered twice"
    assert set(wanted) <= set(seen), f"missing: {set(wanted) - set(seen)}"


@pytest.mark.parametrize("name", ("init", *USER_PROCESSES))
def test_3_the_mounts_are_exactly_the_documented_ones(living, name):
    box, pids = living
    with open(f"/proc/{pids[name]}/mountinfo") as file:
        check_mounts(file.read().splitlines())


def test_3_the_mounts_seen_inside_are_exactly_the_documented_ones(look):
    check_mounts(look.probe("posture", "self")["self"]["mounts"])


def test_3_what_is_writable_is_sized(boxes):
    box = boxes(limits={"files_mb": 100, "inodes": 5000})
    sizes = box.kernel().value(
        "import json, os\n"
        "def size(path):\n"
        "    about = os.statvfs(path)\n"
        "    return [about.f_blocks * about.f_frsize, about.f_files]\n"
        "print(json.dumps({path: size(path) for path in ('/', '/dev/shm')}))"
    )
    assert sizes["/dev/shm"][0] == 64 << 20
    assert sizes["/"] == [100 << 20, 5000]


# ---- descriptors (case 5) ----


@pytest.mark.parametrize("name, wanted", [("kernel", expected.KERNEL_DESCRIPTORS), ("started by a kernel", {0: "/dev/null", 1: "/dev/null", 2: "/dev/null"})])
def test_5_descriptors_are_exactly_the_documented_ones(living, name, wanted):
    box, pids = living
    assert host.descriptors(pids[name]) == wanted


def test_5_descriptors_at_the_first_cell_are_exactly_the_documented_ones(boxes):
    seen = boxes().kernel().value(
        "import json, os\n"
        "names = {int(n): os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{n}')}\n"
        "print(json.dumps(names))"
    )
    seen = {int(number): re.sub(r":?\[\d+\]$", "", target) for number, target in seen.items()}
    assert seen == expected.KERNEL_DESCRIPTORS


def test_5_a_command_gets_three_descriptors(boxes):
    # ls has one more: the folder it lists
    listed = boxes().shell("ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> \\(.*\\)/\\1 \\2/p'").splitlines()
    seen = {int(line.split()[0]): re.sub(r":\[\d+\]$", "", line.split()[1]) for line in listed}
    folder = [number for number, target in seen.items() if target.startswith("/proc/")]
    assert len(folder) == 1
    del seen[folder[0]]
    assert seen == expected.COMMAND_DESCRIPTORS


def test_5_a_process_started_by_a_kernel_inherits_no_more_than_three(boxes):
    report = boxes().kernel().said("import subprocess; print(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout)")
    # 0, 1, 2 and the folder that ls reads; the runner's socket and spare pipes are close-on-exec
    assert report.split() == ["0", "1", "2", "3"]


def test_5_init_holds_only_descriptors_of_documented_kinds(living):
    box, pids = living
    kinds = host.descriptors(pids["init"])
    for number, kind in kinds.items():
        kind = "cgroup.procs" if kind.endswith(("/cgroup.procs", "/tasks")) else kind
        assert kind in expected.INIT_DESCRIPTOR_KINDS, f"{number} is {kind}"
    assert len(kinds) <= 16, kinds


# ---- limits (case 7) ----


@pytest.mark.parametrize("name", ("init", *USER_PROCESSES))
def test_7_limits_are_exactly_the_documented_ones(living, name):
    box, pids = living
    wanted = {key: (value, value) for key, value in expected.LIMITS.items()}
    assert differences(host.limits(pids[name]), wanted) == []


def test_7_no_limit_can_be_raised(look):
    report = look.probe("rlimits-raise")
    for name, limit in report.items():
        soft, hard = limit["values"]
        assert soft == hard, f"{name}: {limit}"
        assert limit["raise"] == ("OK" if name in expected.UNLIMITED else "EPERM"), f"{name}: {limit}"
        assert limit["of pid 1"] == "EPERM", f"{name}: {limit}"


# ---- signals and the rest of what is inherited (case 8) ----


def masks(status: dict[str, str]) -> dict[str, int]:
    return {key: int(status[key], 16) for key in ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")}


def test_8_a_command_starts_with_the_signals_of_a_fresh_process(boxes):
    # not one in the background: the shell itself makes that one ignore SIGINT and SIGQUIT
    lines = boxes().shell("exec cat /proc/self/status").splitlines()
    lines = [line for line in lines if line.startswith(("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"))]
    assert {line.split()[0]: int(line.split()[1], 16) for line in lines} == dict.fromkeys(("SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"), 0)


def test_8_a_process_started_by_a_kernel_has_the_signals_of_a_fresh_process(living):
    box, pids = living
    assert masks(host.status(pids["started by a kernel"])) == dict.fromkeys(("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"), 0)


def test_8_a_kernel_has_the_signals_of_an_ordinary_python(living):
    box, pids = living
    seen = masks(host.status(pids["kernel"]))
    assert seen["SigBlk"] == seen["SigPnd"] == seen["ShdPnd"] == 0
    assert seen["SigIgn"] == expected.PYTHON_IGNORES
    assert seen["SigCgt"] & ~expected.PYTHON_MAY_CATCH == 0, hex(seen["SigCgt"])


def test_8_nothing_else_is_inherited_from_the_zygote(look):
    own = look.probe("posture", "self")["self"]
    wanted = {
        "deathsig": {0, 9}, "dumpable": 1, "securebits": ..., "no_new_privs": 1, "timer_slack": 50000,
        "personality": 0, "nice": 0, "scheduler": 0, "io_priority": {0, 4, 0x4000, 0x4004}, "itimers": [0, 0, 0],
    }  # fmt: skip
    assert differences({key: own[key] for key in wanted}, wanted) == []
    if look.way in ("command", "started by a cell"):
        assert own["altstack"] == 0


def test_8_the_umask_and_the_timers_are_the_usual_ones(look):
    report = look.probe("posture", "self")["processes"]["self"]
    assert report["status"]["Umask"] == "0022"
    assert report["timers"] in ("", "ENOENT"), "POSIX timers"
    assert report["cwd"] in ("/workspace",)
    assert report["root"] == "/"


def test_8_affinity_and_counted_cores_agree_with_the_share(boxes):
    kernel = boxes(limits={"cpus": 1}).kernel()
    assert kernel.value("import json, os; print(json.dumps([os.cpu_count(), len(os.sched_getaffinity(0))]))")[0] == 1


def test_the_probe_itself_is_an_ordinary_file_of_the_user(boxes):
    box = boxes().with_probe()
    assert box.shell(f"stat -c '%U %a' {PROBE}").split() == ["user", "755"]
