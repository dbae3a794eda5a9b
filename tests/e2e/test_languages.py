"""Contexts in every language, over HTTP: the same promises whatever runs behind them; one-shot runs; restart, interrupt."""

from __future__ import annotations

import threading
import time

import pytest
from boxes import boxes  # noqa: F401
from daemon import wait_until

LANGUAGES = ("python", "bash", "node")
WORDS = {
    "print": {"python": "print('hé 漢🙂')", "bash": "echo 'hé 漢🙂'", "node": "console.log('hé 漢🙂')"},
    "keep": {"python": "kept = 5", "bash": "kept=5", "node": "let kept = 5"},
    "tell": {"python": "print(kept)", "bash": "echo $kept", "node": "console.log(kept)"},
    "exit": {"python": "import sys; sys.exit(3)", "bash": "exit 3", "node": "process.exit(3)"},
    "loop": {"python": "print('up')\nwhile True: pass", "bash": "echo up; while :; do :; done", "node": "console.log('up'); for (;;);"},
    "sleep": {"python": "import time; time.sleep(60)", "bash": "sleep 60", "node": "await new Promise(r => setTimeout(r, 60000))"},
    "errors": {"python": "import sys; print('o'); print('e', file=sys.stderr)", "bash": "echo o; echo e >&2", "node": "console.log('o'); console.error('e')"},
    "flood": {"python": "print('x' * 999999)", "bash": "head -c 999999 /dev/zero | tr '\\0' x; echo", "node": "console.log('x'.repeat(999999))"},
    "close": {"python": "import os; os.close(1); os.close(2)", "bash": "exec 1>&- 2>&-", "node": "process.stdout.end(); fs.closeSync(1)"},
    "die": {"python": "import os; os.kill(os.getpid(), 9)", "bash": "kill -9 $$", "node": "process.kill(process.pid, 'SIGKILL')"},
    "memory": {"python": "x = bytearray(400 << 20)", "bash": "x=$(head -c 400000000 /dev/zero | tr '\\0' x)", "node": "x = Buffer.alloc(400 << 20, 1)"},
    "stdin": {"python": "import sys; print(repr(sys.stdin.read()))", "bash": "cat; echo \"''\"", "node": "console.log(\"'\" + fs.readFileSync(0) + \"'\")"},
    "background": {"python": "import subprocess; p = subprocess.Popen(['sleep', '600'])", "bash": "sleep 600 &", "node": "require('child_process').spawn('sleep', ['600'], {stdio: 'ignore'}); 0"},
}


@pytest.fixture(params=LANGUAGES)
def session(request, boxes):  # noqa: F811
    """A context of each language: session.run("keep") runs what the table has for it."""
    return Speaking(boxes(limits={"memory_mb": 256, "files_mb": 64}), request.param)


class Speaking:
    def __init__(self, box, language):
        self.box, self.language = box, language
        self.kernel = box.kernel(language)

    def send(self, word, **options):
        return self.kernel.send(WORDS[word][self.language], **options)

    def run(self, word, seconds=None):
        return self.kernel.run(WORDS[word][self.language], seconds)

    def said(self, word):
        return self.kernel.said(WORDS[word][self.language])


# ---- what all have in common ----


def test_state_carries_over_and_text_is_unicode(session):
    assert session.run("keep")["exit"] == 0
    assert session.said("print") == "hé 漢🙂\n"
    answer = session.run("tell")
    assert answer["stdout"] == "5\n" and answer["kernel"] == {"state_kept": True, "restarted": False}


def test_streams_are_told_apart(session):
    answer = session.run("errors")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("o\n", "e\n", 0)


def test_an_exit_ends_the_cell_with_its_code_and_state_is_kept(session):
    session.run("keep")
    answer = session.run("exit")
    assert (answer["exit"], answer["exit_code"], answer.get("error")) == (3, 3, None)
    assert answer["kernel"]["state_kept"] is True
    assert session.said("tell") == "5\n"


@pytest.mark.parametrize("word", ["loop", "sleep"])
def test_the_limit_stops_the_cell_and_state_is_kept(session, word):
    session.run("keep")
    begun = time.monotonic()
    answer = session.send(word, seconds=1)
    assert answer.status_code == 504 and time.monotonic() - begun < 3
    told = answer.json()
    assert told["code"] == "cell.timeout" and told["timeout"] is True and told["exit_code"] == 124
    assert told["kernel"]["state_kept"] is True and told["limits_hit"] == ["time"]
    assert told["stdout"] == ("up\n" if word == "loop" else "")
    assert session.said("tell") == "5\n"


def test_a_million_characters_come_through(session):
    assert session.run("flood")["stdout"] == "x" * 999999 + "\n"


def test_closed_streams_are_back_in_the_next_cell(session):
    session.run("close")
    assert session.run("errors")["stdout"] == "o\n"


def test_there_is_nothing_to_read(session):
    assert session.said("stdin") == "''\n"


def test_a_killed_kernel_is_replaced_and_said_to_be(session):
    session.run("keep")
    answer = session.run("die")
    assert answer["exit_code"] == 137 and "SIGKILL" in answer["error"]
    assert answer["kernel"]["state_kept"] is False
    assert session.said("print") == "hé 漢🙂\n"


def test_the_memory_limit_is_named(session):
    answer = session.run("memory")
    if session.language == "bash" and answer["exit_code"] == 0:
        pytest.fail("400 MB fit into 256")
    if answer["kernel"]["state_kept"]:  # a program of the shell's was hurt, not the shell
        assert session.language == "bash"
    else:
        assert answer["kernel"]["reason"] == "memory_limit" and answer["limits_hit"] == ["memory"]
    assert session.said("print") == "hé 漢🙂\n"


def test_background_processes_live_on(session):
    session.run("background")
    session.run("keep")
    wait_until(lambda: "sleep 600" in session.box.shell("ps -eo args"), 10, "the background process has begun")
    session.run("keep")
    assert "sleep 600" in session.box.shell("ps -eo args")


def test_nothing_is_left_of_a_closed_context(session):
    session.run("background")
    session.kernel.close()
    end = time.monotonic() + 10
    while "sleep 600" in (seen := session.box.shell("ps -eo args; sleep 0.1")):
        assert time.monotonic() < end, seen


def test_cells_run_one_at_a_time_in_order(session):
    code = {"python": "import time; print('{0}'); time.sleep(0.1); print('{0}')", "bash": "echo {0}; sleep 0.1; echo {0}", "node": "console.log('{0}'); await new Promise(r => setTimeout(r, 100)); console.log('{0}')"}[session.language]
    answers = {}
    threads = [threading.Thread(target=lambda n=n: answers.update({n: session.kernel.said(code.format(n))})) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: f"{n}\n{n}\n" for n in range(4)}


# ---- restart and interrupt ----


def test_a_restart_gives_a_fresh_kernel_under_the_same_id(session):
    session.run("keep")
    told = session.box.request("POST", f"/repl/sessions/{session.kernel.id}/restart")
    assert (told["id"], told["language"], told["cells"]) == (session.kernel.id, session.language, 1)
    answer = session.run("print")
    assert answer["stdout"] == "hé 漢🙂\n" and answer["kernel"]["restarted"] is True and "restart" in answer["kernel"]["reason"]
    assert session.run("print")["kernel"]["restarted"] is False
    assert session.run("tell")["stdout"] in ("\n", "")


def test_a_restart_ends_a_running_cell(session):
    got = []
    thread = threading.Thread(target=lambda: got.append(session.send("sleep")))
    thread.start()
    wait_until_running(session)
    session.box.request("POST", f"/repl/sessions/{session.kernel.id}/restart")
    thread.join(10)
    assert "restart" in got[0].json()["error"] and got[0].json()["kernel"]["state_kept"] is False


def test_an_interrupt_ends_the_running_cell_only(session):
    session.run("keep")
    got = []
    thread = threading.Thread(target=lambda: got.append(session.run("loop")))
    thread.start()
    wait_until_running(session)
    told = session.box.request("POST", f"/repl/sessions/{session.kernel.id}/interrupt")
    assert told["id"] == session.kernel.id
    thread.join(10)
    assert got[0]["exit_code"] == (130 if session.language == "bash" else 1) and got[0]["timeout"] is False
    assert session.said("tell") == "5\n"


def wait_until_running(session):
    end = time.monotonic() + 10
    cells = session.box.request("GET", "/repl/sessions")[0]["cells"]
    while session.box.request("GET", "/repl/sessions")[0]["cells"] == cells:
        assert time.monotonic() < end
        if cells and time.monotonic() > end - 9:
            break  # it had begun before the first look
    time.sleep(0.2)  # into its code


@pytest.mark.parametrize("verb", ["restart", "interrupt"])
def test_an_unknown_context_is_404(boxes, verb):  # noqa: F811
    answer = boxes().send("POST", f"/repl/sessions/0123456789abcdef/{verb}")
    assert answer.status_code == 404 and answer.json()["code"] == "session.not_found"


# ---- which there are ----


@pytest.mark.parametrize("word, name", [("py", "python"), ("python3", "python"), ("sh", "bash"), ("shell", "bash"), ("js", "node"), ("javascript", "node"), ("nodejs", "node")])
def test_aliases_mean_their_language(boxes, word, name):  # noqa: F811
    made = boxes().request("POST", "/repl/sessions", json={"language": word}, want=201)
    assert made["language"] == name


def test_the_template_decides(boxes, api):  # noqa: F811
    assert api.get("/repl/languages").json() == list(LANGUAGES)
    small = boxes(template="base")
    assert small.kernel("bash").said("echo here") == "here\n"
    for path in ("/repl/sessions", "/repl"):
        answer = small.send("POST", path, json={"language": "node"} | ({"code": "1"} if path == "/repl" else {}))
        assert answer.status_code == 400 and answer.json()["code"] == "language.unknown"
        assert "python, bash" in answer.json()["error"] and "base" in answer.json()["hint"]


# ---- one-shot ----

ONE_SHOT = {"python": "import sys; print('o'); print('e', file=sys.stderr); 1 + 1", "bash": "echo o; echo e >&2", "sh": "echo o; echo e >&2", "node": "console.log('o'); console.error('e'); 1 + 1"}


@pytest.mark.parametrize("language", ONE_SHOT)
def test_a_one_shot_runs_once_and_leaves_no_context(boxes, language):  # noqa: F811
    box = boxes()
    answer = box.request("POST", "/repl", json={"language": language, "code": ONE_SHOT[language]})
    assert answer["language"] == {"sh": "bash"}.get(language, language)
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("o\n", "e\n", 0) and "kernel" not in answer
    assert answer["results"] == ([] if answer["language"] == "bash" else [{"text/plain": "2"}])
    assert box.request("GET", "/repl/sessions") == []


@pytest.mark.parametrize("language, code, name", [("python", "1/0", "ZeroDivisionError"), ("node", "null.x", "TypeError"), ("python", "import os; os._exit(4)", "KernelDied")])
def test_a_failing_one_shot_says_how(boxes, language, code, name):  # noqa: F811
    answer = boxes().request("POST", "/repl", json={"language": language, "code": code})
    assert answer["error_name"] == name and answer["exit_code"] != 0


def test_a_one_shot_has_the_limit_of_a_cell(boxes):  # noqa: F811
    box = boxes()
    answer = box.send("POST", "/repl", json={"language": "bash", "code": "echo up; sleep 60", "timeout_ms": 500})
    assert answer.status_code == 504 and answer.json()["stdout"] == "up\n"
    assert "sleep 60" not in box.shell("ps -eo args")


def test_many_one_shots_use_no_more_contexts_than_there_are(boxes):  # noqa: F811
    box = boxes()
    for n in range(20):
        assert box.request("POST", "/repl", json={"language": "bash", "code": f"echo {n}"})["stdout"] == f"{n}\n"


def test_nothing_runs_on_when_the_client_of_a_one_shot_hangs_up(boxes):  # noqa: F811
    import requests

    box = boxes()
    with pytest.raises(requests.exceptions.ReadTimeout):
        box.send("POST", "/repl", json={"language": "bash", "code": "sleep 61"}, timeout=1)
    end = time.monotonic() + 10
    while "sleep 61" in box.shell("ps -eo args; sleep 0.1"):
        assert time.monotonic() < end


@pytest.mark.parametrize("body, code", [({}, "request.invalid"), ({"code": ""}, "request.invalid"), ({"code": "1", "language": "cobol"}, "language.unknown"), ({"code": "1", "lang": "python"}, "request.unknown_field"), ({"code": "1", "language": 5}, "request.invalid")])
def test_a_one_shot_that_is_wrong_is_refused(boxes, body, code):  # noqa: F811
    box = boxes()
    answer = box.send("POST", "/repl", json=body)
    assert answer.status_code == 400 and answer.json()["code"] == code, answer.text
    assert box.request("GET", "/repl/sessions") == []


# ---- one language's own ----


def test_a_syntax_error_of_bash_names_the_line_of_the_cell(boxes):  # noqa: F811
    kernel = boxes(template="base").kernel("bash")
    answer = kernel.run("echo first\ndone")
    assert (answer["stdout"], answer["exit"]) == ("first\n", 2)
    assert answer["stderr"] == "bash: line 2: syntax error near unexpected token `done'\nbash: line 2: `done'\n"
    assert kernel.run("if true")["stderr"] == "bash: line 2: syntax error: unexpected end of file\n"
    assert kernel.run("bash -c ')'; echo \"bash: $BASH_SOURCE\" >&2")["stderr"].startswith("bash: -c: line 1: ")


def test_bash_says_when_its_shell_was_replaced(boxes):  # noqa: F811
    kernel = boxes().kernel("bash")
    kernel.run("kept=5")
    answer = kernel.run("exec true")
    assert answer["exit_code"] == 0 and answer["kernel"]["state_kept"] is False and "variables" in answer["kernel"]["reason"]
    assert kernel.run("echo [$kept]")["stdout"] == "[]\n"


def test_node_shows_rich_values_in_order(boxes):  # noqa: F811
    answer = boxes().kernel("node").run("display({'text/html': '<b>1</b>', 'image/png': Buffer.from('x')}); ({a: [1]})")
    assert answer["results"] == [{"text/html": "<b>1</b>", "image/png": "eA=="}, {"text/plain": "{ a: [ 1 ] }"}]


def test_node_finds_modules_of_the_workspace(boxes):  # noqa: F811
    box = boxes()
    box.write("/workspace/lib.mjs", "export const x = 'esm'")
    box.write("/workspace/lib.js", "exports.x = 'cjs'")
    answer = box.kernel("node").run("import { x } from './lib.mjs'; [x, require('./lib').x, __dirname]")
    assert answer["results"] == [{"text/plain": "[ 'esm', 'cjs', '/workspace' ]"}]


def test_contexts_of_all_languages_share_files_and_survive_the_api(boxes, own_daemon):  # noqa: F811
    daemon = own_daemon()
    box = boxes(daemon=daemon)
    kernels = {language: box.kernel(language) for language in LANGUAGES}
    for language, kernel in kernels.items():
        kernel.run(WORDS["keep"][language])
    daemon.process("api")
    import os
    import signal

    os.kill(daemon.process("api").pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while True:
        try:
            listed = box.send("GET", "/repl/sessions")
            if listed.status_code == 200:
                break
        except Exception:
            pass
        assert time.monotonic() < end
        time.sleep(0.05)
    assert [one["language"] for one in listed.json()] == list(LANGUAGES)
    for language, kernel in kernels.items():
        assert kernel.said(WORDS["tell"][language]) == "5\n"
