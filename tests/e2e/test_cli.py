"""The command line against a real daemon: what it prints, what it returns, and that it ends its sandboxes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
from types import SimpleNamespace

import pytest

from daemon import PATIENCE, build_folder, wait_until

PLOT = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.show()
"""


def sandglass(*arguments, env=None, **options):
    options.setdefault("timeout", 50 * PATIENCE)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PANDASTACK_")}
    command = [str(build_folder() / "sandglass"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**clean, **(env or {})}, **options)


def start(*arguments, **options):
    command = [str(build_folder() / "sandglass"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture
def run(daemon, api):
    """sandglass run against the daemon; afterwards no sandbox of its is left."""
    before = {box["id"] for box in api.get("/sandboxes").json()}
    yield lambda *arguments, **options: sandglass("run", "--state", daemon.state, *arguments, **options)
    assert {box["id"] for box in api.get("/sandboxes").json()} <= before


def made_by_run(api) -> list[str]:
    return [box["id"] for box in api.get("/sandboxes").json() if box["metadata"].get("made_by") == "sandglass run"]


# ---- env ----


def test_env_aims_a_shell_at_the_daemon(daemon):
    lines = sandglass("env", "--state", daemon.state).stdout
    told = subprocess.run(["sh", "-c", f"{lines}\necho $PANDASTACK_API $PANDASTACK_API_KEY"], capture_output=True, text=True)
    assert told.stdout.split() == [daemon.url, daemon.key]


def test_env_serves_the_real_client(daemon):
    from pandastack import Client

    words = dict(line.removeprefix("export ").split("=", 1) for line in sandglass("env", "--state", daemon.state).stdout.splitlines())
    client = Client(api_url=words["PANDASTACK_API"], api_key=words["PANDASTACK_API_KEY"])
    assert isinstance(client.sandboxes.list(), list)


@pytest.mark.parametrize("folder, words", [("nowhere", "cannot open"), (".", "no daemon runs on")])
def test_env_without_a_daemon_says_so(tmp_path, folder, words):
    done = sandglass("env", "--state", tmp_path / folder)
    assert (done.returncode, done.stdout) == (1, "") and words in done.stderr and "->" in done.stderr


def test_env_after_the_daemon_ended_says_so(own_daemon, tmp_path):
    daemon = own_daemon(tmp_path / "state")
    daemon.stop()
    done = sandglass("env", "--state", daemon.state)
    assert (done.returncode, done.stdout) == (1, "") and "no daemon" in done.stderr


# ---- run ----


def test_run_prints_what_the_code_prints(run):
    done = run("-c", "import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n42\n", "err\n")


def test_run_takes_a_file_and_standard_input(run, tmp_path):
    file = tmp_path / "code.py"
    file.write_text("print('Zoë', 'file')\n")
    assert run(file).stdout == "Zoë file\n"
    assert run("-", input="print('stdin')").stdout == "stdin\n"


def test_run_returns_the_code_s_exit_status(run):
    assert run("-c", "import sys; sys.exit(7)").returncode == 7


def test_run_shows_a_traceback_once(run):
    done = run("-c", "1 / 0")
    assert done.returncode == 1 and done.stderr.count("ZeroDivisionError: division by zero") == 1


def test_run_saves_figures_and_overwrites_none(run, tmp_path):
    (tmp_path / "figure-1.png").write_text("mine")
    done = run("--out", tmp_path, "-c", PLOT)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"figure saved: {tmp_path}/figure-2.png" in done.stderr
    assert (tmp_path / "figure-1.png").read_text() == "mine"
    assert (tmp_path / "figure-2.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_run_keeps_what_was_printed_before_its_limit(run):
    done = run("--timeout", "1.5", "-c", "print('before', flush=True)\nimport time\ntime.sleep(60)")
    assert done.returncode == 124 and "before\n" in done.stdout and done.stderr


@pytest.mark.slow
@pytest.mark.limit(120)
def test_run_has_no_limit_of_its_own(run):
    done = run("--timeout", "60", "-c", "import time; time.sleep(35); print('whole')", timeout=100)
    assert (done.returncode, done.stdout) == (0, "whole\n")


def test_run_keeps_the_sandbox_when_asked(daemon, api):
    done = sandglass("run", "--state", daemon.state, "--keep", "-c", "print(1)")
    kept = done.stderr.strip().removeprefix("sandbox kept: ")
    assert done.returncode == 0 and kept in made_by_run(api)
    assert api.delete(f"/sandboxes/{kept}").status_code == 204


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_run_ends_its_sandbox_on_a_signal(daemon, api, number):
    process = start("run", "--state", daemon.state, "-c", "import time; time.sleep(60)")
    wait_until(lambda: made_by_run(api), 10, "the sandbox is there")
    since = time.monotonic()
    process.send_signal(number)
    assert process.wait(10 * PATIENCE) == 128 + number
    assert time.monotonic() - since < 5 * PATIENCE
    wait_until(lambda: not made_by_run(api), 5, "the sandbox is gone")
    process.communicate()


def test_run_takes_daemon_and_key_from_the_environment(daemon):
    env = {"PANDASTACK_API": daemon.url + "/v1/", "PANDASTACK_API_KEY": daemon.key}
    assert sandglass("run", "-c", "print(1)", env=env).stdout == "1\n"


def test_run_says_why_it_cannot(daemon, tmp_path):
    cases = [
        (("--template", "nonesuch", "-c", "1"), {}, "nonesuch"),
        (("--out", tmp_path / "nowhere", "-c", "1"), {}, "is no folder"),
        ((tmp_path / "nothing.py",), {}, "nothing.py"),
        (("-c", "1"), {"PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": "sg_" + "0" * 40}, "key"),
        (("-c", "1"), {"PANDASTACK_API": "http://127.0.0.1:1", "PANDASTACK_API_KEY": "sg_1"}, "no daemon answers"),
    ]
    for arguments, env, words in cases:
        where = () if env else ("--state", daemon.state)
        done = sandglass("run", *where, *arguments, env=env)
        assert done.returncode == 125 and words in done.stderr, (arguments, done)


def test_run_shows_progress_on_a_terminal_only(daemon):
    ours, theirs = pty.openpty()
    process = start("run", "--state", daemon.state, "-c", "import time; time.sleep(2.5); print('done')")
    assert "running" not in process.communicate()[1]
    command = [str(build_folder() / "sandglass"), "run", "--state", str(daemon.state), "-c", "import time; time.sleep(2.5); print('done')"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    assert process.communicate()[0] == "done\n"
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "running, 1 s" in shown and shown.endswith("\r\x1b[K")


# ---- wrong calls ----


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("nonesuch",), ("env",), ("env", "--state"), ("env", "--state", "a", "b"), ("run",), ("run", "-c"), ("run", "--nonesuch", "x"),
        ("run", "a", "b"), ("run", "-c", "1", "a"), ("run", "--timeout", "0", "-c", "1"), ("run", "--timeout", "soon", "-c", "1"),
        ("doctor", "x"), ("doctor", "--nonesuch"), ("template",), ("template", "nonesuch"), ("template", "build"), ("template", "list", "x"),
    ],
)  # fmt: skip
def test_wrong_calls_are_explained(arguments):
    done = sandglass(*arguments)
    assert done.returncode == 2 and done.stdout == "" and "sandglass" in done.stderr


def test_help_is_there_for_every_command():
    overview = sandglass("help")
    assert overview.returncode == 0
    for command in ("env", "run", "doctor", "template"):
        assert command in overview.stdout
        by_word, by_option = sandglass("help", command), sandglass(command, "--help")
        assert by_word.returncode == 0 and by_word.stdout == by_option.stdout and "usage:" in by_word.stdout
    assert sandglass("version").stdout.startswith("sandglass ")


# ---- doctor and templates: no daemon needed ----


def doctor(**options) -> SimpleNamespace:
    done = sandglass("doctor", "--json", **options)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1)
    return SimpleNamespace(ok=report["ok"], checks={check["name"]: check for check in report["checks"]})


def test_doctor_finds_nothing_missing_where_the_daemon_runs(daemon):
    told = doctor()
    assert told.ok, [check for check in told.checks.values() if check["state"] == "missing"]
    assert {"user namespaces", "Landlock", "seccomp", "overlayfs", "visible /proc", "rights"} <= set(told.checks)


def test_doctor_names_a_command_for_what_is_missing(tmp_path):
    told = doctor(env={"SANDGLASS_CACHE": str(tmp_path)})
    assert not told.ok
    assert told.checks["template code-interpreter"]["mend"] == "sandglass template build code-interpreter"
    assert told.checks["template base"]["state"] == "warning"
    done = sandglass("doctor", env={"SANDGLASS_CACHE": str(tmp_path)})
    assert done.returncode == 1 and "-> sandglass template build code-interpreter" in done.stdout


def test_doctor_warns_of_few_descriptors():
    command = f"ulimit -n 1024; exec {build_folder()}/sandglass doctor"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "warning  open files" in done.stdout and "LimitNOFILE" in done.stdout


def test_doctor_as_an_ordinary_user_says_what_needs_root():
    with tempfile.TemporaryDirectory() as folder:  # the build folder may be where nobody can walk to
        os.chmod(folder, 0o755)
        program = shutil.copy(build_folder() / "sandglass", folder)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, "doctor"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "missing  rights" in done.stdout and "sudo sandglassd" in done.stdout


def test_template_list_tells_which_are_built(tmp_path):
    assert "code-interpreter" in sandglass("template", "list").stdout
    unbuilt = sandglass("template", "list", env={"SANDGLASS_CACHE": str(tmp_path)}).stdout
    assert "not built: sandglass template build base" in unbuilt


def test_template_build_hands_on_to_the_builder():
    done = sandglass("template", "build", "nonesuch")
    assert done.returncode == 1 and "no template 'nonesuch'" in done.stderr
    assert sandglass("template", "build", "base", "--print-key").returncode == 0
