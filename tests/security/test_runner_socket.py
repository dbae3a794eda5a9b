"""User code owns the runner's socket and pipes (trap a4): whatever it says there, the api is not hurt, is not made to
wait for ever, and the next cell runs.
"""

from __future__ import annotations

import json
import threading
import time

import host
import pytest
from inside import LIBRARY

CALL = """
import ctypes
words = [w.encode() for w in %r]
_ = ctypes.CDLL('""" + LIBRARY + """').probe_main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None))
"""
# The run under way, as the runner knows it.
RUN = "import sandglass_kernel.wire as _w; run = _w.wire.run\n"

FORGERIES = ["done", "other-runs", "half", "more", "large", "kinds", "json", "flood", "descriptors", "shutdown", "ready", "steal"]


def forge(what: str, run: str = "run") -> str:
    return RUN + "import ctypes\n" + f"words = [b'probe', b'forge', {what.encode()!r}, str({run}).encode()]\n" + (
        f"_ = ctypes.CDLL({LIBRARY!r}).probe_main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None))\n"
    )


def api_state(daemon) -> tuple[int, int]:
    pid = daemon.process("api").pid
    return int(host.status(pid)["VmRSS"].split()[0]), len(host.descriptors(pid))


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_frame_hurts_only_its_own_session(boxes, daemon, what):
    box, other = boxes().with_probe(), boxes()
    kernel, other_kernel = box.kernel(), other.kernel()
    other_kernel.said("kept = 'yes'")
    kernel.said("1")
    api_pid, (memory, descriptors) = daemon.process("api").pid, api_state(daemon)
    start = time.monotonic()
    answer = kernel.send(forge(what), seconds=5)
    assert time.monotonic() - start < 12
    assert answer.status_code in (200, 410, 500, 502, 504), answer.text
    json.loads(answer.text)
    assert len(answer.content) < 40 << 20
    # The session goes on, perhaps with a fresh kernel.
    last = kernel.send("print('next')", seconds=5)
    if last.status_code != 200 or last.json()["stdout"] != "next\n":
        last = kernel.send("print('next')", seconds=5)
    assert last.status_code == 200 and last.json()["stdout"] == "next\n", (answer.text[:500], last.text[:500])
    assert other_kernel.said("print(kept)") == "yes\n"
    assert box.shell("echo alive") == "alive\n"
    assert daemon.process("api").pid == api_pid, "the api did not crash"
    now, now_descriptors = api_state(daemon)
    assert now - memory < 64 << 10 and now_descriptors <= descriptors + 12


@pytest.mark.parametrize("what", ["done", "other-runs", "json"])
def test_a_forged_end_does_not_answer_the_next_request(boxes, what):
    """What was said ahead under other run ids is dropped: the next cell's answer is its own."""
    kernel = boxes().with_probe().kernel()
    kernel.send(forge(what), seconds=5)
    for number in range(3):
        answer = kernel.run(f"print({number}); {number} * 111")
        # Its own words may come late into its own session; what they never are is another value.
        assert answer["stdout"].endswith(f"{number}\n"), answer
        assert "forged" not in json.dumps(answer["results"])
        assert json.dumps(answer["results"]).count(f"{number * 111}") >= 1


def test_a_forged_end_while_code_goes_on_does_not_keep_the_clock_from_it(boxes, daemon):
    """DONE is claimed, then the cell runs on: it must not run for ever beside the next one."""
    kernel = boxes().with_probe().kernel()
    start = time.monotonic()
    kernel.send(forge("done") + "import time\nwhile True: time.sleep(0.1)\n", seconds=3)
    assert time.monotonic() - start < 8
    answers = [kernel.send("print('next')", seconds=3) for _ in range(3)]
    assert any(a.status_code == 200 and a.json()["stdout"] == "next\n" for a in answers), [a.text for a in answers]


def test_a_stopped_runner_is_ended_at_its_limit(boxes):
    kernel = boxes().kernel()
    start = time.monotonic()
    answer = kernel.send("import os, signal, threading\nthreading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()\nimport time; time.sleep(60)", seconds=1)
    assert time.monotonic() - start < 5
    assert "timeout" in answer.text.lower()
    assert kernel.said("print('next')") == "next\n"


def test_a_runner_stopped_between_cells_is_noticed_by_the_next(boxes):
    box = boxes()
    kernel = box.kernel()
    pid = kernel.value("import os; print(os.getpid())")
    box.shell(f"kill -STOP {pid}")
    start = time.monotonic()
    kernel.send("print('next')", seconds=1)
    assert time.monotonic() - start < 6
    assert kernel.said("print('next')") == "next\n"


def test_a_runner_killed_by_a_command_is_told_and_replaced(boxes):
    box = boxes()
    kernel = box.kernel()
    pid = kernel.value("kept = 1; import os; print(os.getpid())")
    box.shell(f"kill -9 {pid}")
    answer = kernel.run("print('kept' in globals())")
    assert answer["kernel"]["state_kept"] is False
    if answer["exit"] != 0:  # it was sent before the death was seen
        assert "SIGKILL" in answer["error"], answer
        answer = kernel.run("print('kept' in globals())")
    assert answer["stdout"] == "False\n"


@pytest.mark.parametrize("target", [1, 2])
def test_forged_output_by_a_child_that_holds_the_pipes_ends_with_the_cell(boxes, target):
    """A child that keeps writing into the pipes does not delay the answer for ever, nor eat memory."""
    kernel = boxes().kernel()
    start = time.monotonic()
    answer = kernel.send(
        f"import os\nif os.fork() == 0:\n    while True:\n        os.write({target}, b'x' * 4096)\nprint('parent')", seconds=3
    )
    assert time.monotonic() - start < 8
    assert answer.status_code in (200, 504)
    assert kernel.send("print('next')", seconds=5).status_code in (200, 504)


def test_a_child_that_inherits_the_socket_is_not_taken_for_the_runner(boxes):
    """The child answers in the runner's name after the runner has died: the record stays honest."""
    box = boxes().with_probe()
    kernel = box.kernel()
    kernel.run(
        "import os, time, struct\n" + RUN + "parent = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while os.getppid() == parent: time.sleep(0.01)\n"
        "    for _ in range(50):\n"
        "        for n in range(run, run + 40):\n"
        "            try: os.write(3, struct.pack('IHH', n, 18, 0) + b'{\"data\": {\"text/plain\": \"forged\"}}'); os.write(3, struct.pack('IHH', n, 20, 0) + b'{\"exit\": 0}')\n"
        "            except OSError: pass\n"
        "        time.sleep(0.05)\n"
        "os._exit(7)"
    )
    for _ in range(5):
        answer = kernel.send("print('true')", seconds=5)
        if answer.status_code == 200:
            assert answer.json()["stdout"] in ("true\n", ""), answer.text
    assert kernel.said("print('true')") == "true\n"


def test_two_sessions_at_once_never_get_each_others_answers(boxes):
    box = boxes()
    kernels = [box.kernel() for _ in range(4)]
    wrong: list[str] = []

    def drive(number: int) -> None:
        for turn in range(25):
            said = kernels[number].said(f"print('{number} {turn}')")
            if said != f"{number} {turn}\n":
                wrong.append(said)

    crowd = [threading.Thread(target=drive, args=(n,)) for n in range(4)]
    [one.start() for one in crowd]
    [one.join() for one in crowd]
    assert wrong == []


def test_code_cannot_make_children_of_the_warden(boxes, daemon):
    """CLONE_PARENT is refused; were it not, the warden reaps what it never asked for."""
    kernel = boxes().with_probe().kernel()
    made = kernel.said(CALL % ["probe", "parents"])
    assert json.loads(made) == {"made": 0}
    warden = daemon.process("warden")
    assert not [p for p in daemon.processes() if p.parent == warden.pid and p.state == "Z"]
