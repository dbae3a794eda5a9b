"""What a bash cell may rely on, one sentence a test. See ../setup.sh for how it comes about."""
import os
import signal
import time

import pytest

from harness import KernelDied


def outcome(run):
    return run.exit, run.stdout, run.stderr


# ------------------------------------------------------------ state

def test_variables_functions_arrays_and_the_folder_carry_over(kernel, tmp_path):
    kernel.run("x=5; f() { echo f $x; }; declare -A m=([a]=1); l=(1 2 3); export E=e; alias ll='echo LL'; mkdir sub; cd sub")
    run = kernel.run("f; echo ${m[a]} ${#l[@]}; sh -c 'echo $E'; ll x; pwd")
    assert outcome(run) == (0, f"f 5\n1 3\ne\nLL x\n{tmp_path}/sub\n", "")


def test_the_last_status_is_the_exit_code_and_is_seen_by_the_next_cell(kernel):
    assert kernel.run("false").exit == 1
    assert kernel.run("echo $?").stdout == "1\n"
    assert kernel.run("(exit 42)").exit == 42
    assert kernel.run("true").exit == 0


def test_nothing_but_done_is_sent(kernel):
    run = kernel.run("echo hi; false")
    assert run.log == [("stdout", "hi\n"), ("done", {"exit": 1})]


# ------------------------------------------------------------ ends of a cell

@pytest.mark.parametrize("code, exit", [
    ("exit 3", 3), ("exit", 0), ("false; exit", 1), ("exit 300", 44), ("exit -1", 255),
    ("f() { exit 4; echo no; }; g() { for i in 1 2; do f; echo no; done; }; g; echo no", 4),
    ("if true; then while :; do exit 5; done; fi; echo no", 5),
    ("set -e\nfalse\necho no", 1), ("set -euo pipefail\nf() { (exit 7) | cat; echo no; }\nf\necho no", 7),
    ("set -o errexit; x=$(exit 6); echo no", 6), ("set -e; [ 1 = 2 ]; echo no", 1),
    ("return 8; echo no", 8), ("echo ${missing:?}; echo no", 1), ("set -u; echo $missing; echo no", 1),
    ("exec /no/such/program", 127), ("eval 'exit 9'; echo no", 9), ("trap 'echo no' INT; exit 6", 6),
])
def test_no_end_of_a_cell_ends_the_session(kernel, code, exit):
    kernel.run("kept=yes; trap 'true' USR1; sleep 60 & job=$!")
    for _ in range(2):
        run = kernel.run(code)
        assert (run.exit, run.stdout) == (exit, ""), run.stderr
        assert "restarted" not in run.all("done")[0]
    run = kernel.run("echo $kept $-; kill $job && echo job; trap -p USR1")
    assert run.stdout == f"yes {run.stdout.split()[1]}\njob\ntrap -- 'true' SIGUSR1\n" and run.stderr == ""
    assert "e" not in run.stdout.split()[1], "set -e ends with its cell"


def test_subshells_and_pipelines_exit_alone(kernel):
    run = kernel.run("(exit 5); echo $?; x=$(exit 6); echo $?; echo a | (read z; exit 7); echo ${PIPESTATUS[1]}; (set -e; false; echo no); echo $?")
    assert outcome(run) == (0, "5\n6\n7\n1\n", "")


def test_conditions_do_not_count_as_failures(kernel):
    run = kernel.run("set -e\nif false; then :; fi\nfalse || echo ok\n! true\nfalse && true\nwhile false; do :; done\necho end")
    assert outcome(run) == (0, "ok\nend\n", "")


def test_exit_runs_the_exit_trap_as_at_the_end_of_a_script(kernel):
    run = kernel.run("trap 'echo bye $?' EXIT; exit 9; echo no")
    assert outcome(run) == (9, "bye 9\n", "")
    assert kernel.run("exit 2").stdout == ""
    run = kernel.run("set -e; trap \"echo 'it''s' over\" EXIT; false")
    assert outcome(run) == (1, "its over\n", "")


def test_an_argument_that_is_no_number_is_said(kernel):
    run = kernel.run("exit abc")
    assert (run.exit, run.stderr) == (2, "bash: exit: abc: numeric argument required\n")


@pytest.mark.parametrize("code", ["if then", "echo 'abc", "for", "x=(", "cat <<E\n$(("])
def test_a_syntax_error_is_told_with_its_line(kernel, code):
    run = kernel.run("\n" + code)
    assert run.exit in (1, 2) and "line " in run.stderr and run.error is None
    assert kernel.run("echo on").stdout == "on\n"


@pytest.mark.parametrize("code", ["echo $(echo a", "x=$(", "diff <(echo a", "echo \"$(cat <<E\nx\nE\n", "tee >(cat", "echo $((1 +", "echo $((echo a) | cat"])
def test_unfinished_nested_commands_harm_neither_the_shell_nor_its_state(kernel, code):
    kernel.run("kept=1; shopt -s extglob; set -u; IFS=.")
    for _ in range(4):
        run = kernel.run(code)
        assert run.exit == 2 and "unexpected EOF" in run.stderr and ": line " in run.stderr and run.stdout == ""
        assert kernel.run("echo 'open").exit == 2
        assert kernel.run("`echo").exit == 2
    run = kernel.run("(exit 5)")
    assert outcome(kernel.run("echo $? $(echo $kept) $(for i in !(no); do echo in; break; done)")) == (0, "5 1 in\n", "")


def test_traces_show_the_users_commands_only(kernel):
    kernel.run("set -x")
    run = kernel.run("echo $(echo a)")
    assert run.stdout == "a\n" and "sandglass" not in run.stderr and "echo a" in run.stderr


def test_missing_commands_give_127_and_a_text(kernel):
    run = kernel.run("nosuchcmd")
    assert run.exit == 127 and "nosuchcmd: command not found" in run.stderr


@pytest.mark.parametrize("code, exit", [("exec true", 0), ("exec sh -c 'exit 3'", 3), ("builtin exit 4", 4), ("set -o posix; exit 5", 5)])
def test_a_shell_that_really_ends_is_replaced_and_said_to_be(kernel, code, exit):
    kernel.run("kept=yes")
    run = kernel.run(code)
    assert run.exit == exit and "variables" in run.all("done")[0]["restarted"] and "sandglass: " in run.stderr
    assert kernel.run("echo [$kept]").stdout == "[]\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGHUP])
def test_a_shell_that_is_killed_takes_its_runner_along(kernel, number):
    kernel.start(f"kill -{int(number)} $$")
    with pytest.raises(KernelDied):
        kernel.finish()
    assert os.waitstatus_to_exitcode(os.waitpid(kernel.pid, 0)[1]) == -number


def test_the_end_of_the_socket_ends_it(kernel):
    kernel.sock.shutdown(2)
    assert os.waitstatus_to_exitcode(os.waitpid(kernel.pid, 0)[1]) == 0


# ------------------------------------------------------------ output

def test_streams_are_told_apart_and_come_back_after_a_cell_has_closed_them(kernel):
    run = kernel.run("echo out; echo err >&2")
    assert outcome(run) == (0, "out\n", "err\n")
    kernel.run("exec >file 2>&1; echo inside")
    assert outcome(kernel.run("cat file; echo e >&2")) == (0, "inside\n", "e\n")
    kernel.run("exec >&- 2>&- <&-")
    assert outcome(kernel.run("echo again; echo e >&2; cat")) == (0, "again\n", "e\n")


def test_descriptors_of_the_users_own_stay(kernel):
    kernel.run("exec 5>file; exec 9<<<kept")
    assert kernel.run("echo x >&5; cat file; cat <&9").stdout == "x\nkept\n"


def test_programs_get_no_descriptor_of_ours(kernel):
    kernel.run("exit 1")
    kernel.run("set -e; false")
    run = kernel.run("ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> \\([^:]*\\).*/\\1 \\2/p'; ls /proc/self/fd | wc -l")
    assert run.stdout.split("\n")[:3] == ["0 /dev/null", "1 pipe", "2 pipe"] and run.stdout.split("\n")[-2] == "4"


def test_there_is_nothing_to_read(kernel):
    run = kernel.run("cat; read x; echo $?; python3 -c 'import sys; print(repr(sys.stdin.read()))'")
    assert outcome(run) == (0, "1\n''\n", "")


def test_a_lot_of_output_and_every_byte_comes_through(kernel):
    run = kernel.run("head -c 1000000 /dev/zero | tr '\\0' x; printf '\\xff\\xfe'; echo 'Καλημέρα 漢🙂'")
    assert run.stdout == "x" * 1000000 + "\ufffd\ufffdΚαλημέρα 漢🙂\n"
    run = kernel.run("head -c 1000000 /dev/zero | tr '\\0' y >&2; head -c 1000000 /dev/zero | tr '\\0' x")
    assert len(run.stdout) == len(run.stderr) == 1000000


def test_long_cells_and_odd_names_come_through(kernel):
    assert kernel.run("x='" + "é" * 500_000 + "'; echo ${#x}").stdout == "500000\n"
    assert kernel.run("cat <<'END'\n$x `y`\nEND").stdout == "$x `y`\n"
    assert kernel.run("echo no newline after a comment # é").exit == 0


def test_prompts_and_traces_of_ours_are_not_seen(kernel):
    assert outcome(kernel.run("PS1='prompt> '; PS2='more> '; set -x")) == (0, "", "")
    run = kernel.run("echo traced")
    assert run.stdout == "traced\n" and "sandglass" not in run.stderr and "prompt" not in run.stderr
    assert kernel.run("set +x; sleep 0 & wait; echo done").stdout == "done\n"


# ------------------------------------------------------------ background

def test_background_jobs_live_on(kernel):
    run = kernel.run("sleep 0.2 && echo late > file & echo now")
    assert outcome(run) == (0, "now\n", "")
    assert kernel.run("wait; cat file; jobs").stdout == "late\n"


def test_an_interrupt_leaves_background_jobs_alone(kernel):
    kernel.run("sleep 60 & job=$!")
    kernel.start("sleep 60 & more=$!; echo up; sleep 60")
    kernel.wait_for("up")
    kernel.interrupt()
    assert kernel.finish().exit == 130
    assert kernel.run("kill $job $more && echo both").stdout == "both\n"


# ------------------------------------------------------------ interrupts

@pytest.mark.parametrize("code", [
    "sleep 60", "while :; do :; done", "f() { while :; do sleep 1; done; }; f", "g() { sleep 60; echo no; }; g; echo no", "sleep 60 | cat; echo no",
    "x=$(sleep 60); echo no", "(sleep 60; echo no); echo no", "sleep 60 & wait; echo no", "read -t 60 < <(sleep 60); echo no", "until false; do sleep 0.01; done",
    "trap 'echo never' EXIT; sleep 60; echo no"])
def test_an_interrupt_stops_the_cell_at_any_depth_and_state_is_kept(kernel, code):
    kernel.run("kept=yes")
    kernel.start(f"echo up; {code}")
    kernel.wait_for("up")
    kernel.interrupt()
    run = kernel.finish(5)
    assert (run.exit, run.stdout) == (130, "up\n")
    assert outcome(kernel.run("trap - EXIT; echo $kept")) == (0, "yes\n", "")


@pytest.mark.parametrize("code", ["sh -c 'trap \"\" INT; sleep 60'", "python3 -c 'import signal, time; signal.signal(2, lambda *_: print(\"ha\", flush=True)); time.sleep(60); time.sleep(60)'"])
def test_the_second_interrupt_kills_what_does_not_listen(kernel, code):
    kernel.run("kept=yes")
    kernel.start(f"echo up; {code}; echo no; sleep 60")
    kernel.wait_for("up")
    time.sleep(0.3)  # the program sets its handler
    kernel.interrupt()
    time.sleep(0.5)
    kernel.interrupt()
    run = kernel.finish(5)
    assert run.exit != 0
    assert kernel.run("echo $kept").stdout == "yes\n"


def test_interrupts_at_any_moment_lose_no_cell(kernel):
    kernel.run("kept=yes")
    for n in range(150):
        kernel.start("echo a; for i in 1 2 3; do :; done; echo b")
        time.sleep(n * 0.00002)
        kernel.interrupt()
        assert kernel.finish(5).exit in (0, 130)
    assert outcome(kernel.run("echo $kept")) == (0, "yes\n", "")


def test_an_interrupt_between_cells_does_nothing(kernel):
    kernel.run("kept=yes")
    for _ in range(3):
        kernel.interrupt()
    assert outcome(kernel.run("echo $kept")) == (0, "yes\n", "")
