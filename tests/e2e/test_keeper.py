"""The life of the daemon: clean ends, crashes of each part, and what must not be left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import census
import pytest
import requests
from boxes import boxes  # noqa: F401
from daemon import Daemon, DaemonError, build_folder, processes_below, wait_until


def groups_of(keeper: int) -> list[str]:
    return [str(p) for p in Path("/sys/fs/cgroup").glob(f"**/sandglass-{keeper}")]


def test_a_clean_stop_ends_everything_and_leaves_nothing(own_daemon, boxes, tmp_path):
    before = census.host_mounts()
    daemon = own_daemon(tmp_path / "state")
    box = boxes(daemon=daemon)
    kernel = box.kernel()
    kernel.said("kept = 1")
    box.shell("(setsid sleep 100 &) ; sleep 0")
    keeper, family = daemon.pid, processes_below(daemon.pid)
    daemon.stop()
    assert not [p for p in family if p.is_alive()]
    assert groups_of(keeper) == []
    assert census.host_mounts() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state"]


def test_a_clean_stop_while_a_cell_runs_is_quick(own_daemon, boxes):
    import threading
    import time

    daemon = own_daemon()
    kernel = boxes(daemon=daemon).kernel()

    def run() -> None:
        try:
            kernel.send("import time; time.sleep(100)", seconds=90)
        except requests.RequestException:
            pass

    worker = threading.Thread(target=run)
    worker.start()
    start = time.monotonic()
    daemon.stop()
    worker.join(5)
    assert time.monotonic() - start < 10 and not worker.is_alive()


@pytest.mark.parametrize("how", ["term", "interrupt from a terminal"])
def test_an_ordered_stop_logs_no_warning(own_daemon, boxes, how):
    """With all kinds of work under way: nothing is wrong, so nothing is warned of."""
    daemon = own_daemon()
    box = boxes(daemon=daemon)
    waiting = box.kernel()
    detached = {"code": "import time; time.sleep(100)", "timeout_ms": 90000, "detach": True}
    box.request("POST", f"/repl/sessions/{waiting.id}/run", json=detached, want=202)
    streamed = box.send("POST", "/exec/stream", json={"cmd": "sleep 100"}, stream=True)
    followed = box.send("GET", "/events", params={"follow": "true"}, stream=True)
    if how != "term":
        os.killpg(daemon.pid, signal.SIGINT)
        wait_until(lambda: not daemon.is_running, 15, "the daemon has ended")
    daemon.stop()
    streamed.close()
    followed.close()
    loud = [line for line in daemon.events() if line["level"] in ("warning", "error")]
    assert not loud and daemon.events("stopping"), loud


def test_a_second_start_on_the_same_folder_is_refused(own_daemon):
    daemon = own_daemon()
    second = Daemon(daemon.state)
    with pytest.raises(DaemonError) as refusal:
        second.start()
    assert "end that one first" in str(refusal.value)
    assert requests.get(daemon.url + "/healthz", timeout=10).status_code == 200


def test_two_daemons_on_two_folders_do_not_disturb_each_other(own_daemon, boxes):
    first, second = own_daemon(), own_daemon(config={"id_base": 0x60000000})
    kernel = boxes(daemon=first).kernel()
    kernel.said("kept = 1")
    assert boxes(daemon=second).kernel().said("print(2)") == "2\n"
    second.stop()
    assert kernel.said("print(kept)") == "1\n"


@pytest.mark.parametrize("attempt", range(3))
def test_when_the_keeper_dies_everything_dies(own_daemon, boxes, attempt):
    daemon = own_daemon()
    box = boxes(daemon=daemon)
    box.kernel().said("1")
    box.shell("(setsid sleep 100 &)")
    keeper = daemon.pid
    daemon.kill()  # waits for the end of all below
    again = daemon.start()
    assert groups_of(keeper) == [], "the next start clears what a dead one left"
    assert boxes(daemon=again).kernel().said("print(1)") == "1\n"


def test_when_the_warden_dies_its_sandboxes_end_honestly_and_new_ones_work(own_daemon, boxes):
    daemon = own_daemon()
    made = [boxes(daemon=daemon) for _ in range(5)]
    kernels = [box.kernel() for box in made]
    for kernel in kernels:
        kernel.said("kept = 1")
    family = [p for p in daemon.processes() if p.role not in ("keeper", "api")]
    os.kill(daemon.process("warden").pid, signal.SIGKILL)
    wait_until(lambda: not any(p.is_alive() for p in family), 10, "no process outlives the warden")

    def create() -> bool:
        try:
            return bool(boxes(daemon=daemon).kernel().said("print(1)"))
        except (AssertionError, requests.RequestException):
            return False

    wait_until(create, 30, "new sandboxes work")
    for box, kernel in zip(made, kernels):
        answer = kernel.send("print(kept)")
        assert answer.status_code in (404, 410), answer.text
        assert answer.json()["code"] in ("sandbox.not_found", "sandbox.ended")
    assert any(event.get("event", "").startswith("sandbox") and "host_failure" in str(event) for event in daemon.events()), "the log says why they ended"


def test_when_an_init_dies_its_sandbox_ends_and_others_live(own_daemon, boxes):
    daemon = own_daemon()
    box, other = boxes(daemon=daemon), boxes(daemon=daemon)
    kernel = other.kernel()
    kernel.said("kept = 1")
    box.shell("true")
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                if f"/box/{box.id}" in Path(f"/proc/{pid}/cgroup").read_text():
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue
    wait_until(lambda: box.send("GET").status_code == 404, 10, "the sandbox has ended")
    assert kernel.said("print(kept)") == "1\n"


@pytest.mark.parametrize("what", ["api", "warden"])
def test_a_part_that_dies_again_and_again_is_started_again(own_daemon, boxes, what):
    daemon = own_daemon()
    for _ in range(5):
        old = daemon.process(what)
        os.kill(old.pid, signal.SIGKILL)
        wait_until(lambda: not old.is_alive(), 10, "it is dead")

        def works() -> bool:
            try:
                return boxes(daemon=daemon).shell("echo fine") == "fine\n"
            except (AssertionError, requests.RequestException):
                return False

        wait_until(works, 30, "sandboxes can be made again")


def test_the_state_folder_has_what_is_documented_and_is_closed(own_daemon):
    daemon = own_daemon()
    names = {p.name for p in daemon.state.iterdir()}
    assert {"key", "address", "lock", "state.db"} <= names
    assert (daemon.state / "key").stat().st_mode & 0o777 == 0o600
    assert daemon.state.stat().st_mode & 0o077 == 0
    database = (daemon.state / "state.db").read_bytes()
    assert daemon.key.rsplit("_", 1)[-1].encode() not in database, "the database holds only hashes"
    assert daemon.key not in daemon.log


def test_no_byte_of_users_is_in_the_log(own_daemon, boxes):
    daemon = own_daemon()
    box = boxes(daemon=daemon)
    box.kernel().run("print('word-in-output'); 1 / 0  # word-in-code")
    box.command("echo word-in-command; exit 3")
    box.write("/tmp/word-in-name", b"word-in-file")
    box.read("/tmp/word-in-missing")
    daemon.stop()
    assert "word-in" not in daemon.log


def test_what_is_logged_for_a_request_names_it(own_daemon, boxes):
    """Also where the answer had to wait for another process."""
    daemon = own_daemon(config={"templates": ["base"]})
    box = boxes(daemon=daemon, template="base")
    named = lambda word: {"headers": {"X-Request-Id": word}}  # noqa: E731
    made = box.session.post(f"{daemon.url}/v1/sandboxes", json={"template": "base"}, timeout=30, **named("made")).json()
    kernel = box.kernel()
    run = f"/repl/sessions/{kernel.id}/run"
    box.send("POST", run, json={"code": "import os; os._exit(3)"}, **named("died"))
    box.send("POST", run, json={"code": "import os; os._exit(4)", "stream": True}, **named("died-streamed"))
    box.send("POST", "/pause", **named("paused"))
    box.send("POST", "/resume", **named("resumed"))
    box.send("DELETE", **named("deleted"))
    words = ("made", "died", "died-streamed", "paused", "resumed", "deleted")
    told = {line["request"]: line for line in daemon.events() if line.get("request") in words}
    assert {word: line["event"] for word, line in told.items()} == {
        "made": "sandbox.created", "died": "kernel.ended", "died-streamed": "kernel.ended", "paused": "sandbox.paused",
        "resumed": "sandbox.resumed", "deleted": "sandbox.ended",
    }  # fmt: skip
    assert told["made"]["sandbox"] == made["id"]


def test_the_log_is_json_lines(own_daemon, boxes):
    import json

    daemon = own_daemon()
    boxes(daemon=daemon).kill()
    daemon.stop()
    for line in daemon.log.splitlines():
        told = json.loads(line)
        assert {"time", "level", "process", "event", "message"} <= set(told), line


@pytest.mark.parametrize("config", [{"no_such_key": 1}, {"limits": {"memory_mb": -1}}, {"listen": 5}, {"limits": {"no_such": 1}}])
def test_a_wrong_configuration_stops_the_start(tmp_path, config):
    daemon = Daemon(tmp_path / "state", config=config)
    with pytest.raises(DaemonError) as refusal:
        daemon.start()
    assert list(config)[0] in str(refusal.value) or "no_such" in str(refusal.value)


def test_the_processes_have_the_documented_privileges(own_daemon):
    daemon = own_daemon()

    def status(pid: int) -> dict[str, str]:
        return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)

    api, warden = status(daemon.process("api").pid), status(daemon.process("warden").pid)
    assert len({*api["Uid"].split(), *api["Gid"].split()}) == 1 and int(api["Uid"].split()[0]) >= 0x10000, "an id of its own"
    assert int(api["CapEff"], 16) == int(api["CapPrm"], 16) == int(api["CapBnd"], 16) == 0
    assert api["NoNewPrivs"] == "1" and api["Groups"].strip() == ""
    assert set(warden["Uid"].split()) == {str(int(api["Uid"].split()[0]) + 16)}, "root of the nursery, nobody on the host"
    assert os.readlink(f"/proc/{daemon.process('warden').pid}/ns/user") != os.readlink("/proc/self/ns/user")
    assert os.listdir(f"/proc/{daemon.process('api').pid}/root") == ["state"] or "state" in os.listdir(f"/proc/{daemon.process('api').pid}/root")


def test_another_program_version_names_itself():
    done = subprocess.run([build_folder() / "sandglassd", "--version"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and "0." in done.stdout
