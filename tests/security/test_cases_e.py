"""Cases E: how much of the kernel can be reached."""

from __future__ import annotations

import json
import os
from pathlib import Path

import expected
import pytest
from inside import differences

GOLDEN = json.loads((Path(__file__).parent / "golden_syscalls.json").read_text())
# Answers that the filter gives, never the kernel itself for these arguments; they hold on every kernel.
REFUSED_BY_FILTER = {name: row["filter"] for name, row in GOLDEN["calls"].items() if row["filter"]}


def compare(seen: dict[str, str]) -> list[str]:
    wrong = []
    for number, answer in seen.items():
        row = GOLDEN["calls"].get(number)
        if row is None:
            if answer != "ENOSYS":
                wrong.append(f"{number} (unlisted): {answer}")
        elif row["filter"]:
            if answer != row["filter"]:
                wrong.append(f"{number} {row['name']}: {answer}, the filter should say {row['filter']}")
        elif os.uname().release.startswith(GOLDEN["kernel"]) and answer not in row["kernel"]:
            wrong.append(f"{number} {row['name']}: {answer}, expected {row['kernel']}")
    return wrong


@pytest.mark.limit(120)
def test_45_the_whole_table_of_system_calls_is_as_golden(look):
    assert compare(look.probe("syscalls")) == []


def test_45_init_itself_runs_under_a_filter(boxes):
    import host

    box = boxes()
    box.shell("true")
    assert host.status(host.process_of(box.id, 1))["Seccomp"] == "2"


def test_46_foreign_calling_conventions_never_execute(look):
    seen = look.probe("x32")
    ia32 = seen.pop("ia32")
    assert set(seen.values()) <= {"SIGSYS", "ENOSYS"}
    assert ia32["getpid"] in ("SIGSYS", "SIGSEGV")


def test_48_only_listed_kinds_of_sockets_open(look):
    seen = look.probe("sockets")
    for how in ("socket", "socketpair"):
        assert sorted(seen[how]["opens"]) == sorted(expected.SOCKETS[how])
        assert set(seen[how]["refused"]) <= expected.REFUSED_SOCKET


def test_49_ill_famed_families_are_refused_in_words_programs_know(look):
    assert differences(look.probe("sockets")["named"], expected.NAMED_SOCKETS) == []


def test_50_netlink_shows_lo_and_changes_nothing(look):
    assert differences(look.probe("netlink"), expected.NETLINK) == []


def test_51_52_doors_into_the_kernel_are_shut(look):
    assert differences(look.probe("doors"), expected.DOORS) == []


def test_51_python_still_does_asynchronous_input_and_output(boxes):
    said = boxes().kernel().said(
        "import asyncio\n"
        "async def main():\n"
        "    process = await asyncio.create_subprocess_exec('echo', 'hello', stdout=asyncio.subprocess.PIPE)\n"
        "    return (await process.communicate())[0]\n"
        "print(await main())"
    )
    assert "hello" in said


def test_51_node_still_does_asynchronous_input_and_output(boxes):
    said = boxes().shell("node -e 'require(\"fs\").promises.readFile(\"/etc/hostname\", \"utf8\").then(t => console.log(t.trim()))'")
    assert said == "sandglass\n"


def test_53_tracing_and_its_relatives_are_refused(look):
    assert differences(look.probe("ptrace"), expected.PTRACE) == []


def test_53_a_kernel_cannot_be_read_by_a_command(boxes):
    box = boxes()
    kernel = box.kernel()
    pid = kernel.value("import json, os; secret = 'in the kernel'; print(json.dumps(os.getpid()))")
    assert differences(box.probe("ptrace", pid), expected.PTRACE) == []


def test_54_options_that_reach_far_are_refused(look):
    assert differences(look.probe("setsockopt"), expected.SETSOCKOPT) == []


def test_55_odd_ways_of_sending_are_refused_and_ordinary_ones_work(look):
    assert differences(look.probe("sending"), expected.SENDING) == []


def test_56_netlink_for_filters_cannot_be_opened(look):
    protocols = look.probe("netlink")["protocols"]
    assert protocols["12"] == protocols["6"] == "EPROTONOSUPPORT"  # netfilter, xfrm


def test_57_prctl_and_personality_are_filtered(look):
    assert differences(look.probe("prctl"), expected.PRCTL) == []


def test_136_the_same_refusals_from_bash_node_and_python(boxes):
    """Exec path parity: what started the process makes no difference."""
    box = boxes().with_probe()
    probe = "/tmp/probe/sandglass-probe denied"
    ways = [
        probe,
        f"bash -c 'exec {probe}'",
        f"""node -e 'process.stdout.write(require("child_process").execSync("{probe}"))'""",
        f"""python3 -c 'import os; os.execv("/tmp/probe/sandglass-probe", ["p", "denied"])'""",
        f"env -i setsid nohup {probe}",
        f"echo {probe} | sh",
    ]
    for way in ways:
        assert json.loads(box.shell(way)) == {"exec": expected.DENIED}, way
