"""The command line without a terminal: what it lists, runs, follows and ends, and how it fails."""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import subprocess

import pytest
from cli import PROGRAM, sandglass, start, surroundings  # noqa: F401
from daemon import PATIENCE, wait_until


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a table, by the heading above them; columns are two blanks or more apart."""
    heading, *rows = text.splitlines()
    return [dict(zip(re.split(r"\s{2,}", heading.strip()), re.split(r"\s{2,}", row.strip()))) for row in rows]


def others(api, box) -> list[str]:
    return [one["id"] for one in api.get("/sandboxes").json() if one["id"] != box.id]


# ---- ps, create, rm, pause ----


def test_ps_lists_what_runs_for_people(sandglass, box):
    done = sandglass("ps")
    row = next(row for row in rows_of(done.stdout) if row["ID"] == box.id[:12])
    assert row["TEMPLATE"] == "code-interpreter" and row["STATE"] == "running" and row["LIMIT"] == "1 GiB"
    assert re.fullmatch(r"\d+s", row["AGE"]) and re.fullmatch(r"\d+(\.\d)? [KM]iB", row["MEMORY"]) and re.fullmatch(r"\d+\.\d%", row["CPU"])
    assert "\x1b" not in done.stdout and done.stderr == ""


def test_ps_tells_programs_all_of_it(sandglass, box):
    told = {one["id"]: one for one in json.loads(sandglass("ps", "--json").stdout)}
    assert told[box.id]["metrics"]["memory_limit_bytes"] == 1 << 30 and told[box.id]["status"] == "running"
    assert box.id in sandglass("ps", "-q").stdout.split() and box.id in sandglass("ps", "--full-ids").stdout


def test_ps_shows_what_never_ends_and_what_is_paused(sandglass, api):
    made = sandglass("create", "--persistent", "--name", "kept", "--json")
    about = json.loads(made.stdout)
    assert about["persistent"] and about["metadata"]["name"] == "kept"
    assert sandglass("pause", about["id"]).stdout == about["id"] + "\n"
    row = next(row for row in rows_of(sandglass("ps").stdout) if row["ID"] == about["id"][:12])
    assert (row["STATE"], row["EXPIRES"], row["IDLE"]) == ("paused", "never", "-")
    refused = sandglass("exec", about["id"], "true")
    assert refused.returncode == 125 and "paused" in refused.stderr
    assert sandglass("resume", about["id"]).returncode == 0
    assert sandglass("exec", about["id"], "true").returncode == 0
    assert sandglass("rm", about["id"]).stdout == about["id"] + "\n"


def test_any_beginning_of_an_id_will_do_that_only_one_has(sandglass, api):
    made = [sandglass("create").stdout.strip() for _ in range(17)]  # two of them begin alike
    firsts = [one[0] for one in made]
    double = next(letter for letter in firsts if firsts.count(letter) > 1)
    refused = sandglass("exec", double, "true")
    assert refused.returncode == 125 and "is the beginning of" in refused.stderr and "sandglass ps" in refused.stderr
    dashed = f"{made[0][:8]}-{made[0][8:12]}-{made[0][12:16]}-{made[0][16:20]}-{made[0][20:]}"
    for name in (made[0][:10], made[0].upper(), dashed):
        assert sandglass("exec", name, "true").returncode == 0, name
    done = sandglass("rm", *made)
    assert done.returncode == 0 and done.stdout.split() == made


def test_rm_ends_what_it_can_and_says_what_it_could_not(sandglass, box):
    made = sandglass("create").stdout.strip()
    done = sandglass("rm", "0" * 32, made, "nonsense")
    assert done.returncode == 1 and done.stdout.split() == [made]
    assert "0" * 32 in done.stderr and "'nonsense' is no id" in done.stderr
    told = json.loads(sandglass("rm", "--json", made).stdout)
    assert told["done"] == [] and told["failed"][0]["id"] == made


def test_rm_all_ends_all_of_the_owner(own_daemon):
    daemon = own_daemon()

    def run(*arguments):
        return subprocess.run(PROGRAM + list(arguments), capture_output=True, text=True, env=surroundings(daemon), timeout=60 * PATIENCE)

    made = [run("create").stdout.strip() for _ in range(3)]
    done = run("rm", "--all")
    assert done.returncode == 0 and sorted(done.stdout.split()) == sorted(made) and "3 of 3" in done.stderr
    assert run("ps", "-q").stdout == ""
    state = subprocess.run([*PROGRAM, "ps", "--state", str(daemon.state)], capture_output=True, text=True, env=surroundings())
    assert state.returncode == 0 and state.stdout.startswith("ID")


# ---- exec ----


def test_exec_keeps_the_streams_apart_and_hands_on_the_exit_code(sandglass, box):
    done = sandglass("exec", box.id, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_exec_gives_arguments_as_they_are(sandglass, box):
    odd = ["a b", "", "$HOME", "it's", '"q"', "*", "\\", "-n", "a\nb", "ü"]
    done = sandglass("exec", box.id, "printf", "<%s>", *odd)
    assert done.stdout == "".join(f"<{word}>" for word in odd), done
    assert sandglass("exec", "-w", "/tmp", box.id, "pwd").stdout == "/tmp\n"
    assert sandglass("exec", box.id, "--", "pwd").stdout == "/workspace\n"


def test_exec_says_what_it_could_not_run(sandglass, box):
    missing = sandglass("exec", box.id, "nosuch --command")
    assert missing.returncode == 127 and "not found" in missing.stderr and "sh -c" in missing.stderr
    assert sandglass("exec", "0" * 32, "true").returncode == 125
    late = sandglass("exec", "--timeout", "1", box.id, "sleep", "60")
    assert late.returncode == 124 and "timeout" in late.stderr
    assert sandglass("exec", box.id, "sh", "-c", "kill -9 $$").returncode == 137


def test_exec_sends_standard_input_where_that_is_asked_for(sandglass, box):
    assert sandglass("exec", "-i", box.id, "wc", "-c", input="x" * 3_000_000).stdout.strip() == "3000000"
    assert sandglass("exec", "-i", box.id, "cat", input="").stdout == ""
    assert sandglass("exec", box.id, "cat", input="not sent").stdout == ""
    assert sandglass("exec", box.id, "ls", "-A", "/tmp").stdout == ""


def test_exec_passes_input_on_as_it_comes_and_to_its_end(daemon, box):
    command = [*PROGRAM, "exec", "-i", box.id, "sh", "-c", "cat; echo over >&2; exit 3"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=surroundings(daemon)) as process:
        for line in (b"first\n", b"\x01 second\n"):
            process.stdin.write(line)
            assert process.stdout.readline() == line  # it came back before the end
        process.stdin.close()
        assert process.stdout.read() == b"" and process.stderr.read() == b"over\n"
        assert process.wait(10 * PATIENCE) == 3


def test_exec_reads_no_more_input_than_the_command_does(daemon, box):
    """What nobody reads waits with who sends it, and goes through once it is read."""
    box.exec("rm -f /tmp/go")
    command = [*PROGRAM, "exec", "-i", box.id, "sh", "-c", "while ! [ -e /tmp/go ]; do sleep 0.05; done; sha256sum"]
    content, sent = os.urandom(1 << 20), 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=surroundings(daemon)) as process:
        os.set_blocking(process.stdin.fileno(), False)
        while select.select([], [process.stdin], [], 1.5)[1]:
            sent += process.stdin.write(content[sent : sent + 16384]) or 0
            assert sent < 600_000  # our pipe, what is on the way, and the command's pipe
        box.exec("touch /tmp/go")
        os.set_blocking(process.stdin.fileno(), True)
        while sent < len(content):
            sent += process.stdin.write(content[sent:])
        process.stdin.close()
        assert process.stdout.read().split()[0].decode() == hashlib.sha256(content).hexdigest()
        assert process.wait(10 * PATIENCE) == 0


def test_a_command_that_does_not_read_its_input_ends_all_the_same(sandglass, box):
    assert sandglass("exec", "-i", box.id, "true", input="x" * 3_000_000).returncode == 0
    done = sandglass("exec", "-i", box.id, "sh", "-c", "exec <&-; sleep 0.3; echo later", input="x" * 3_000_000)
    assert done.stdout == "later\n" and done.returncode == 0
    late = sandglass("exec", "-i", "--timeout", "1", box.id, "sleep", "60", input="x")
    assert late.returncode == 124 and "timeout" in late.stderr
    assert json.loads(sandglass("exec", "-i", "--json", box.id, "cat", input="whole").stdout)["stdout"] == "whole"


def test_exec_shows_output_as_it_comes(start, box):
    process = start("exec", box.id, "sh", "-c", "echo first; sleep 60")
    assert process.stdout.readline() == "first\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_inside(start, box, number):
    process = start("exec", box.id, "sh", "-c", "echo begun; sleep 1234")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    assert process.wait(10 * PATIENCE) == -number
    wait_until(lambda: "1234" not in box.exec("ps -eo args").stdout, 10, "the command is gone")


def test_exec_answers_programs_with_one_document(sandglass, box):
    done = sandglass("exec", "--json", box.id, "sh", "-c", "echo out; exit 5")
    assert done.returncode == 5 and json.loads(done.stdout)["stdout"] == "out\n"
    late = sandglass("exec", "--json", "--timeout", "1", box.id, "sh", "-c", "echo before; sleep 60")
    told = json.loads(late.stdout)
    assert late.returncode == 124 and told["timeout"] and told["stdout"] == "before\n"


# ---- logs, events, top ----


def test_logs_are_printed_and_cut_to_their_last_lines(sandglass, box):
    box.exec("seq 5; echo aside >&2")
    assert sandglass("logs", "--stream", "stdout", box.id).stdout == "1\n2\n3\n4\n5\n"
    assert sandglass("logs", "-n", "2", "--stream", "stdout", box.id).stdout == "4\n5\n"
    assert sandglass("logs", "-n", "0", box.id).stdout == ""
    assert json.loads(sandglass("logs", "--json", "--stream", "stderr", box.id).stdout) == {"log": "aside\n"}


def test_followed_logs_end_with_the_sandbox(start, box):
    box.exec("echo old")
    process, programs = start("logs", "-f", "-n", "1", box.id), start("logs", "-f", "--json", box.id)
    assert process.stdout.readline() == "old\n" and json.loads(programs.stdout.readline()) == {"line": "old\n"}
    box.exec("echo new")
    assert process.stdout.readline() == "new\n"
    box.kill()
    assert process.wait(20 * PATIENCE) == 0 and process.stdout.read() == "" and process.stderr.read() == ""


def test_followed_logs_go_on_when_the_api_comes_back(own_daemon, tmp_path):
    daemon = own_daemon(tmp_path / "state", listen="127.0.0.1:0")

    def run(*arguments):
        return subprocess.run(PROGRAM + list(arguments), capture_output=True, text=True, env=surroundings(daemon), timeout=60 * PATIENCE)

    box = run("create").stdout.strip()
    run("exec", box, "sh", "-c", "seq 1000; echo before")
    process = subprocess.Popen([*PROGRAM, "logs", "-f", "-n", "1", box], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings(daemon))
    try:
        assert process.stdout.readline() == "before\n"
        old = daemon.process("api")
        os.kill(old.pid, signal.SIGKILL)
        wait_until(lambda: run("exec", box, "echo", "after").returncode == 0, 20, "the api is back")
        assert process.stdout.readline() == "after\n"
    finally:
        process.kill()
        assert "trying again" in process.communicate()[1]


def test_a_reader_that_goes_away_ends_the_command_without_a_word(start, box):
    box.exec("seq 100000")
    for arguments in (("logs", box.id), ("exec", box.id, "yes")):
        process = start(*arguments)
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(20 * PATIENCE) == -signal.SIGPIPE and process.stderr.read() == ""
        process.stdout = None


def test_events_are_told_a_line_each(sandglass, start, box):
    box.exec("true")
    lines = sandglass("events", box.id).stdout.splitlines()
    assert [line.split()[2] for line in lines] == ["sandbox.running", "command.started", "command.ended"]
    assert lines[0].split()[1] == box.id[:12] and "exit_code=0" in lines[2]
    last = json.loads(sandglass("events", "--json", "-n", "1", box.id).stdout)["events"][0]
    assert last["type"] == "command.ended"
    assert sandglass("events", "--since", str(last["id"]), box.id).stdout == ""
    assert box.id[:12] in sandglass("events").stdout
    process = start("events", "-f", "-n", "1", "--json", box.id)
    process_lines = iter(process.stdout.readline, "")
    assert json.loads(next(process_lines)) == last
    box.exec("false")
    assert json.loads(next(process_lines))["type"] == "command.started"
    box.kill()
    assert [json.loads(line)["type"] for line in process_lines][-1] == "sandbox.deleted" and process.wait(10 * PATIENCE) == 0


def test_events_of_all_sandboxes_are_followed_those_that_begin_later_too(start, client, box):
    process = start("events", "-f", "-n", "0", "--json")
    lines = iter(process.stdout.readline, "")

    def next_of(sandbox, kind: str) -> dict:
        """Other tests' sandboxes may still be ending."""
        return next(event for event in map(json.loads, lines) if (event["sandbox_id"], event["type"]) == (sandbox.id, kind))

    while not select.select([process.stdout], [], [], 0.05)[0]:
        box.exec("true")  # until it follows
    next_of(box, "command.ended")
    later = client.sandboxes.create(ttl_seconds=60)
    next_of(later, "sandbox.running")
    later.kill()
    next_of(later, "sandbox.deleted")
    process.terminate()
    process.wait(10 * PATIENCE)


def test_what_a_sandbox_prints_cannot_command_the_terminal(sandglass, box):
    box.exec("true '\x1b[2J\x9b'")
    text = sandglass("events", box.id).stdout
    assert "\x1b" not in text and "\\u001b" not in text and "true" in text


def test_top_shows_the_busiest_first(sandglass, start, box):
    idle = sandglass("create").stdout.strip()
    busy = start("exec", box.id, "sh", "-c", "echo begun; while :; do :; done")
    assert busy.stdout.readline() == "begun\n"
    sandglass("top", "--once")

    def first():
        text = sandglass("top", "--once").stdout
        return rows_of(text.split("\n\n", 1)[1])[0]

    wait_until(lambda: first()["ID"] == box.id[:12] and float(first()["CPU"].rstrip("%")) > 5, 10, "the busy one is the first")
    told = {one["id"]: one for one in json.loads(sandglass("top", "--once", "--json").stdout)["sandboxes"]}
    assert told[box.id]["metrics"]["processes"] >= 1 and idle in told
    sandglass("rm", idle)


def test_top_goes_on_where_there_is_no_terminal(start, box):
    process = start("top", "-i", "1")
    headings = 0
    while headings < 2:
        headings += process.stdout.readline().startswith("ID ")
    process.send_signal(signal.SIGINT)
    assert process.wait(10 * PATIENCE) == 0


# ---- ports ----


def test_ports_are_listed_and_previewed(sandglass, box):
    import requests

    box.exec("mkdir site; echo hello >site/index.html; python3 -m http.server -d site 8000 >/dev/null 2>&1 &")
    wait_until(lambda: [row for row in rows_of(sandglass("ports", box.id).stdout) if row["PORT"] == "8000"], 10, "it listens")
    row = rows_of(sandglass("ports", box.id).stdout)[0]
    assert row["STATE"] == "listening" and row["URL"].endswith(f"/v1/sandboxes/{box.id}/proxy/8000/")
    assert json.loads(sandglass("ports", "--json", box.id).stdout)[0]["port"] == 8000
    done = sandglass("preview", "--ttl", "60", box.id, "8000")
    assert requests.get(done.stdout.strip(), timeout=20).text == "hello\n" and "until" in done.stderr


# ---- failures ----


@pytest.mark.parametrize(
    "arguments",
    [
        ("ps", "x"), ("ps", "-x"), ("ps", "--state"), ("exec",), ("exec", "a"), ("exec", "--timeout", "0", "a", "b"), ("exec", "-t", "--json", "a", "b"), ("exec", "-t", "--timeout", "9", "a", "b"),
        ("shell", "a", "b"), ("shell", "--keep", "a"), ("cp",), ("cp", "a"), ("cp", "a", "b"), ("cp", "1:a", "2:b"), ("cp", "", "1:a"), ("logs",),
        ("logs", "a", "b"), ("logs", "-n", "x", "a"), ("logs", "--stream", "all", "a"), ("events", "a", "b"), ("top", "x"),
        ("top", "-i", "0"), ("rm",), ("rm", "--all", "a"), ("pause",), ("resume",), ("ports",), ("preview", "a"), ("preview", "a", "0"), ("create", "x"),
        ("create", "--ttl", "0"),
    ],
)  # fmt: skip
def test_wrong_calls_name_the_mistake_and_where_help_is(arguments):
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, env=surroundings(), timeout=20 * PATIENCE)
    assert done.returncode == 2 and done.stdout == "" and f"sandglass help {arguments[0]}" in done.stderr


@pytest.mark.parametrize("command", ["create", "ps", "exec", "shell", "cp", "logs", "events", "top", "pause", "resume", "ports", "preview", "rm"])
def test_every_command_has_its_help(command):
    told = [subprocess.run([*PROGRAM, *call], capture_output=True, text=True).stdout for call in (("help", command), (command, "--help"))]
    assert told[0] == told[1] and f"usage: sandglass {command}" in told[0] and "--state DIR" in told[0]
    assert all(len(line) <= 90 for line in told[0].splitlines())


def test_a_daemon_that_is_not_there_and_a_key_that_is_none_are_told(daemon):
    for env, words in (({"PANDASTACK_API": "http://127.0.0.1:1"}, "no daemon answers"), ({"PANDASTACK_API_KEY": "sg_" + "0" * 40}, "key")):
        done = subprocess.run([*PROGRAM, "ps"], capture_output=True, text=True, env=surroundings(daemon, **env))
        assert done.returncode == 1 and words in done.stderr and "->" in done.stderr
    done = subprocess.run([*PROGRAM, "ps"], capture_output=True, text=True, env=surroundings())
    assert done.returncode == 1 and "--state" in done.stderr


def test_a_full_standard_output_is_an_error(daemon, box):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, "ps"], stdout=full, stderr=subprocess.PIPE, text=True, env=surroundings(daemon))
    assert done.returncode == 1 and "standard output" in done.stderr
