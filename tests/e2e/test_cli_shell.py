"""The command line at a terminal: shells, commands with -t, and what becomes of the terminal at every end."""

from __future__ import annotations

import re
import signal

import pytest
from cli import sandglass, screen  # noqa: F401
from daemon import wait_until

PROMPT = r"\$ "


def test_a_shell_runs_what_is_typed_and_hands_on_its_exit_code(screen, box):
    shell = screen("shell", box.id[:8])
    shell.wait_for(PROMPT)
    shell.type("echo $((6 * 7)) $HOSTNAME\r")
    shell.wait_for(r"[\r\n]42 sandglass\r")
    shell.type("exit 3\r")
    assert shell.wait() == 3 and shell.is_restored


def test_keys_and_control_characters_go_inside(screen, box):
    shell = screen("shell", box.id)
    shell.wait_for(PROMPT)
    shell.type("sleep 100\r")
    shell.wait_for("sleep 100\r\n")
    wait_until(lambda: "sleep" in box.exec("ps -eo comm").stdout, 10, "it runs")
    shell.type("\x03")
    shell.wait_for(PROMPT)
    shell.type("echo code $?\r")
    shell.wait_for(r"[\r\n]code 130\r")


def test_the_size_is_the_terminals_and_follows_it(screen, box):
    shell = screen("shell", box.id, rows=33, columns=101)
    shell.wait_for(PROMPT)
    shell.type("stty size\r")
    shell.wait_for(r"[\r\n]33 101\r")
    shell.resize(44, 120)
    wait_until(lambda: shell.type("stty size\r") or shell.wait_for(r"[\r\n]\d+ \d+\r").endswith("44 120\r"), 10, "the size has come through")


def test_a_shell_without_an_id_has_a_sandbox_of_its_own_that_ends_with_it(screen, api):
    shell = screen("shell")
    made = shell.wait_for(r"sandbox ([0-9a-f]{12}) made; it ends with this shell")[-60:]
    shell.wait_for(PROMPT)
    assert [box for box in api.get("/sandboxes").json() if box["metadata"].get("made_by") == "sandglass shell"]
    shell.type("exit\r")
    assert shell.wait() == 0 and b"ended" in shell.shown, made
    assert not [box for box in api.get("/sandboxes").json() if box["metadata"].get("made_by") == "sandglass shell"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_puts_the_terminal_back_and_ends_the_sandbox(screen, api, number):
    shell = screen("shell")
    shell.wait_for(PROMPT)
    assert not shell.is_restored
    shell.process.send_signal(number)
    assert shell.wait() == 128 + number and shell.is_restored
    assert not [box for box in api.get("/sandboxes").json() if box["metadata"].get("made_by") == "sandglass shell"]


def test_a_sandbox_that_ends_puts_the_terminal_back_and_is_told(screen, box):
    shell = screen("shell", box.id)
    shell.wait_for(PROMPT)
    box.kill()
    assert shell.wait() == 125 and shell.is_restored
    assert b"the sandbox ended" in shell.shown and b"\x1b[?25h" in shell.shown


def test_a_line_that_begins_with_tilde_and_dot_hangs_up(screen, box):
    shell = screen("shell", box.id)
    shell.wait_for(PROMPT)
    shell.type("echo a~.b\r")
    shell.wait_for(r"[\r\n]a~\.b\r")
    shell.type("~/nosuch\r")
    shell.wait_for("nosuch: No such file")
    shell.type("~.")
    assert shell.wait() == 129 and shell.is_restored


def test_a_stopped_shell_goes_on(screen, box):
    shell = screen("shell", box.id)
    shell.wait_for(PROMPT)
    shell.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: shell.is_restored, 10, "the terminal is given back")
    shell.process.send_signal(signal.SIGCONT)
    wait_until(lambda: not shell.is_restored, 10, "it is taken again")
    shell.type("echo again$((1 + 1))\r")
    shell.wait_for("again2")


def test_a_command_at_a_terminal_sees_one_and_hands_on_its_exit_code(screen, box):
    command = screen("exec", "-it", "-w", "/tmp", box.id, "sh", "-c", 'test -t 0 && test -t 1 && echo "$TERM in $PWD"; read x; echo "got $x"; exit 9')
    command.wait_for("xterm-256color in /tmp\r\n")
    command.type("some words\r")
    command.wait_for("got some words\r\n")
    assert command.wait() == 9 and command.is_restored


def test_without_a_terminal_there_is_no_shell(sandglass, box):
    for arguments in (("shell", box.id), ("shell",), ("exec", "-t", box.id, "ls")):
        done = sandglass(*arguments, input="")
        assert done.returncode == 125 and "standard input is no terminal" in done.stderr


def test_what_the_daemon_refuses_is_told_with_the_terminal_untouched(screen, box):
    box.pause()
    shell = screen("shell", box.id)
    assert shell.wait() == 125 and shell.is_restored and b"paused" in shell.shown
    box.resume()


# ---- top ----


def test_top_draws_anew_and_leaves_the_screen_as_it_was(screen, box):
    top = screen("top", "-i", "1")
    top.wait_for(r"\x1b\[\?1049h\x1b\[\?25l")
    for _ in range(2):
        top.wait_for(r"\x1b\[H\d+ sandbox")
        top.wait_for(box.id[:12])
    assert not top.is_restored
    top.type("q")
    assert top.wait() == 0 and top.is_restored
    assert top.shown.endswith(b"\x1b[?25h\x1b[?1049l")


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_top_leaves_the_screen_on_a_signal(screen, box, number, code):
    top = screen("top")
    top.wait_for("MEMORY")
    top.process.send_signal(number)
    assert top.wait() == code and top.is_restored
    assert top.shown.endswith(b"\x1b[?25h\x1b[?1049l")


def test_top_stays_within_the_screen(screen, box):
    top = screen("top", rows=10, columns=40)
    shown = top.wait_for(r"\x1b\[J")
    lines = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", shown).split("\r\n")
    assert 3 < len(lines) <= 10 and all(len(line) <= 40 for line in lines[2:])


def test_colours_are_for_terminals_that_want_them(screen, box):
    with_colours, without = screen("ps"), screen("ps", env={"NO_COLOR": "1"})
    assert with_colours.wait() == 0 and b"\x1b[32mrunning\x1b[0m" in with_colours.shown
    assert without.wait() == 0 and b"running" in without.shown and b"\x1b" not in without.shown
