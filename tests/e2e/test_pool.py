"""The ready pool: sandboxes and kernels that stand ready are as good as new ones, and in nobody's way."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import census
import pytest
import requests
from boxes import Box
from daemon import PATIENCE, Daemon, DaemonError, wait_until
from test_templates import Cache

MIB = 1 << 20
PID = {
    "python": "import os; print(os.getpid())",
    "bash": "echo $PPID",  # the shell's parent is the kernel
    "node": "console.log(process.ppid)",
}


@pytest.fixture
def pooled(own_daemon):
    """A daemon whose pool is full: pooled(pool=2, ...)."""

    def start(pool=2, templates=("base",), **config) -> Daemon:
        daemon = own_daemon(config={"pool": pool, "templates": list(templates), **config})
        daemon.wait_for_pool()
        return daemon

    return start


def create(daemon, **options) -> Box:
    """Of the daemon's first template, and ended with it."""
    return Box(daemon, template=daemon.config["templates"][0], **options)


def ask(daemon, method: str, path: str, **options) -> requests.Response:
    headers = {"Authorization": f"Bearer {daemon.key}"}
    return requests.request(method, f"{daemon.url}/v1{path}", headers=headers, timeout=60 * PATIENCE, **options)


def inits(daemon) -> set[int]:
    """Of all sandboxes, the unclaimed too."""
    warden = daemon.process("warden").pid
    return {p.pid for p in daemon.processes("init") if p.parent == warden}


def members(box: str) -> dict[int, int]:
    """Host pid -> pid inside, of a sandbox's processes."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"/box/{box}" in Path(f"/proc/{name}/cgroup").read_text():
                status = Path(f"/proc/{name}/status").read_text()
                found[int(name)] = int(status.split("NSpid:")[1].splitlines()[0].split()[-1])
        except OSError:
            continue
    return found


def kernels(daemon) -> set[int]:
    """Children of the warden inside of sandboxes that are no init: kernels, given to somebody or not."""
    warden = daemon.process("warden").pid
    return {p.pid for p in daemon.processes() if p.parent == warden and p.role != "init" and "/box/" in Path(f"/proc/{p.pid}/cgroup").read_text()}


def outer(box: Box, inner: int) -> int:
    return next(pid for pid, inside in members(box.id).items() if inside == inner)


def group(box: Box, controller: str, file: str, part: str = "") -> int:
    """What a limit's own file says, read on the host."""
    init = outer(box, 1)
    for line in Path(f"/proc/{init}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return int(Path(f"/sys/fs/cgroup/{controller}{path}{part}/{file}").read_text())
    raise AssertionError(f"no {controller} among the groups of {init}")


# ---- taken and filled again ----


def test_a_create_takes_sandbox_and_kernel_that_stand_ready_and_the_pool_fills_again(pooled):
    daemon = pooled(2)
    ready, running = inits(daemon), kernels(daemon)
    assert len(ready) == 2 and len(running) == 2
    assert ask(daemon, "GET", "/sandboxes").json() == []
    box = create(daemon)
    assert outer(box, 1) in ready
    assert outer(box, int(box.kernel().said(PID["python"]))) in running
    daemon.wait_for_pool()
    assert len(inits(daemon)) == 3 and ready < inits(daemon) and len(kernels(daemon)) == 3
    assert [one["id"] for one in ask(daemon, "GET", "/sandboxes").json()] == [box.id]
    assert box.kernel().said("print('second')") == "second\n"
    box.kill()
    wait_until(lambda: len(inits(daemon)) == 2, 10, "what was claimed has ended, what was not has not")


@pytest.mark.parametrize("language", PID)
def test_a_context_takes_the_kernel_of_its_language_and_the_others_end(pooled, language):
    daemon = pooled({"sandboxes": 1, "languages": ["python", "bash", "node"]}, ("code-interpreter",))
    running = kernels(daemon)
    assert len(running) == 3
    box = create(daemon)
    kernel = box.kernel(language)
    assert outer(box, int(kernel.said(PID[language]))) in running
    wait_until(lambda: len(running & set(members(box.id))) == 1, 5, "the kernels of the other languages have ended")
    for other in set(PID) - {language}:
        assert outer(box, int(box.kernel(other).said(PID[other]))) not in running
    assert kernel.run(PID[language])["kernel"]["state_kept"] is True


@pytest.mark.slow
def test_kernels_that_nobody_asks_for_end_by_themselves(pooled):
    daemon = pooled({"sandboxes": 1, "languages": ["python", "bash"]})
    box = create(daemon)
    wait_until(lambda: list(members(box.id).values()) == [1], 15, "only its init is left")
    assert box.request("GET", "/metrics")["processes"] <= 1
    assert box.kernel().said("print(1)") == "1\n"


def test_without_a_pool_nothing_stands_ready(own_daemon):
    daemon = own_daemon(config={"pool": 0, "templates": ["base"]})
    assert inits(daemon) == set() and kernels(daemon) == set()
    assert create(daemon).kernel().said("print(1)") == "1\n"
    assert not [line for line in daemon.events("sandbox.started") if "pool" in line["message"]]


def test_each_template_has_its_own(pooled):
    daemon = pooled(1, ("code-interpreter", "base"))
    assert len(inits(daemon)) == 2
    for template in ("base", "code-interpreter"):
        box = Box(daemon, template=template)
        assert box.about["template"] == template
        assert box.kernel().value("import importlib.util, json; print(json.dumps(importlib.util.find_spec('numpy') is not None))") is (template != "base")
    assert len([line for line in daemon.events("sandbox.started") if "from the pool" in line["message"]]) == 2


def test_creates_without_a_pause_do_not_keep_the_pool_empty(pooled):
    """Of several at once, so that there is no pause of 25 ms, in which it would be filled anyway."""
    daemon = pooled(pool=1)
    is_over = threading.Event()

    def create_on_and_on() -> None:
        while not is_over.is_set():
            create(daemon).kill()

    def is_filled_again() -> bool:
        return sum("from the pool" in line["message"] for line in daemon.events("sandbox.started")) >= 4

    crowd = [threading.Thread(target=create_on_and_on) for _ in range(6)]
    for one in crowd:
        one.start()
    try:
        wait_until(is_filled_again, 15, "the pool was filled while creates went on")
    finally:
        is_over.set()
        for one in crowd:
            one.join()


def test_twenty_creates_at_once_all_get_a_sandbox_of_their_own(pooled):
    daemon = pooled(4)
    made: list[Box] = []
    problems: list[str] = []

    def work(number: int) -> None:
        try:
            box = create(daemon)
            made.append(box)
            assert box.kernel().said(f"open('/workspace/mine', 'x').write('{number}'); print({number})") == f"{number}\n"
        except Exception as problem:
            problems.append(repr(problem))

    crowd = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert problems == [] and len({box.id for box in made}) == 20
    assert len({next(pid for pid, inside in members(box.id).items() if inside == 1) for box in made}) == 20
    for box in made:
        box.kill()
    daemon.wait_for_pool()
    wait_until(lambda: len(inits(daemon)) == 4, 10, "only the pool is left")


# ---- limits ----


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"memory_mb": 128, "files_mb": 16, "inodes": 2000, "processes": 70, "cpus": 0.25},
        {"memory_mb": 1500, "files_mb": 700, "inodes": 150000, "processes": 400, "cpus": 2},
        {"files_mb": 33},
        {"inodes": 1234},
        {"memory_mb": 1030},
        {"processes": 8, "cpus": 1.5},
    ],
    ids=["as configured", "all smaller", "all larger", "files", "inodes", "memory", "few processes"],
)
def test_the_limits_of_the_create_hold_in_what_stood_ready(pooled, limits):
    daemon = pooled(1)
    ready = inits(daemon)
    box = create(daemon, limits=limits)
    assert outer(box, 1) in ready
    told = {"memory_mb": 1024, "files_mb": 512, "inodes": 100000, "processes": 256, "cpus": 1, **limits}
    assert group(box, "memory", "memory.limit_in_bytes") == told["memory_mb"] * MIB
    assert group(box, "pids", "pids.max", "/work") == told["processes"]
    assert group(box, "pids", "pids.max") == told["processes"] + 64
    assert group(box, "cpu", "cpu.cfs_quota_us", "/work") == told["cpus"] * group(box, "cpu", "cpu.cfs_period_us", "/work")
    kernel = box.kernel()
    size, nodes, cores = kernel.value("import json, os; s = os.statvfs('/'); print(json.dumps([s.f_blocks * s.f_frsize, s.f_files, os.cpu_count()]))")
    assert (size, nodes) == (told["files_mb"] * MIB, told["inodes"])
    assert cores == min(-(-told["cpus"] // 1), os.cpu_count())
    assert box.shell("df --output=size -BM / | tail -1").strip() == f"{told['files_mb']}M"
    usage = box.request("GET", "/metrics")
    assert usage["memory_limit_bytes"] == told["memory_mb"] * MIB and usage["process_limit"] == told["processes"]


def test_a_claim_of_little_memory_gets_a_new_sandbox_where_a_standby_uses_much(pooled):
    """Else the system would kill in the sandbox before anything of its owner runs."""
    daemon = pooled({"sandboxes": 1, "languages": ["python", "node"]}, ("code-interpreter",))
    ready = inits(daemon)
    small = create(daemon, limits={"memory_mb": 64})
    assert outer(small, 1) not in ready and ready <= inits(daemon)
    assert small.kernel().said("print(1)") == "1\n"
    assert small.request("GET", "/metrics")["memory_kills"] == 0
    assert outer(create(daemon), 1) in ready
    assert not [line for line in daemon.events() if line["level"] in ("warning", "error")]


def test_limits_that_were_changed_are_felt_inside(pooled):
    daemon = pooled(1)
    box = create(daemon, limits={"files_mb": 8, "inodes": 300, "processes": 70, "memory_mb": 200})
    kernel = box.kernel()
    assert "ENOSPC" in kernel.said("import errno\ntry:\n    open('/workspace/big', 'wb').write(b'x' * (9 << 20))\nexcept OSError as e:\n    print(errno.errorcode[e.errno])")
    assert "ENOSPC" in kernel.said("import os, errno; os.remove('/workspace/big')\ntry:\n    [open(f'/workspace/{n}', 'w').close() for n in range(400)]\nexcept OSError as e:\n    print(errno.errorcode[e.errno])")
    assert "EAGAIN" in kernel.said("import subprocess\nstarted = []\ntry:\n    for _ in range(80): started.append(subprocess.Popen(['sleep', '9']))\nexcept OSError as e:\n    print(errno.errorcode[e.errno])\n[p.kill() for p in started] and None")
    answer = kernel.run("x = bytearray(400 << 20)")
    assert answer["kernel"]["reason"] == "memory_limit" and "200" in answer["error"]


# ---- nothing is shared ----


def test_what_stood_ready_side_by_side_shares_no_randomness(pooled):
    daemon = pooled({"sandboxes": 3, "languages": ["python"]}, ("code-interpreter",))
    code = (
        "import json, random, uuid, ssl, secrets, tempfile, numpy, os\n"
        "print(json.dumps([random.random(), float(numpy.random.random()), float(numpy.random.default_rng().random()), str(uuid.uuid4()), str(uuid.uuid1()),"
        " ssl.RAND_bytes(8).hex(), secrets.token_hex(8), os.path.basename(tempfile.mktemp()), os.urandom(8).hex()]))"
    )
    made = [create(daemon) for _ in range(3)]
    drawn = [box.kernel().value(code) for box in made]
    assert len([line for line in daemon.events("sandbox.started") if "from the pool" in line["message"]]) == 3
    for values in zip(*drawn):
        assert len(set(values)) == 3, values
    again = made[0].kernel().value(code)  # a fresh one beside it
    assert not set(map(str, again)) & set(map(str, drawn[0]))


def test_a_kernel_that_stood_ready_begins_as_any_other(pooled):
    box = create(pooled(1))
    code = "import json; print(json.dumps([sorted(k for k in globals()), len(In), list(Out), repr(_), get_ipython().execution_count]))"
    ready, fresh = box.kernel().value(code), box.kernel().value(code)
    assert ready == fresh and ready[1:] == [2, [], "''", 2]


def test_what_stood_ready_in_bash_and_node_shares_no_randomness(pooled):
    daemon = pooled({"sandboxes": 2, "languages": ["bash", "node"]}, ("code-interpreter",))
    code = {"bash": "echo $RANDOM$RANDOM$RANDOM$SRANDOM", "node": "console.log(Math.random(), crypto.randomUUID())"}
    for language in code:
        daemon.wait_for_pool()
        drawn = [create(daemon).kernel(language).said(code[language]) for _ in range(2)]
        assert drawn[0] != drawn[1]


# ---- hostile commands ahead of the first context ----


@pytest.mark.parametrize("how", ["KILL", "STOP", "SEGV"])
def test_a_command_that_ends_or_stops_what_stands_ready_keeps_no_context_from_starting(pooled, how):
    daemon = pooled(1)
    box = create(daemon)
    box.command(f"pkill -{how} -u user -f python; true")
    kernel = box.kernel()
    answer = kernel.run("print('fine')", seconds=10)
    if answer["exit"] != 0:  # it was given before its death was seen
        assert answer["kernel"]["restarted"] is True, answer
        answer = kernel.run("print('fine')")
    assert answer["stdout"] == "fine\n"


# ---- ends ----


def test_a_pooled_sandbox_that_ends_is_replaced_and_named(pooled):
    daemon = pooled(2)
    ready = inits(daemon)
    os.kill(min(ready), signal.SIGKILL)
    wait_until(lambda: daemon.events("pool.ended"), 5, "its end is told")
    daemon.wait_for_pool()
    assert len(inits(daemon)) == 2 and min(ready) not in inits(daemon)
    assert not daemon.events("sandbox.ended")
    assert create(daemon).kernel().said("print(1)") == "1\n"


def test_a_kernel_that_dies_in_the_pool_is_replaced(pooled):
    daemon = pooled(1)
    ready, running = inits(daemon), kernels(daemon)
    os.kill(min(running), signal.SIGKILL)
    wait_until(lambda: len(kernels(daemon)) == 1 and kernels(daemon) != running, 10, "another stands ready")
    assert inits(daemon) == ready
    assert create(daemon).kernel().said("print(1)") == "1\n"


def test_the_pool_outlives_the_api_and_is_not_taken_for_its_sandboxes(pooled):
    daemon = pooled(2)
    box = create(daemon)
    kernel = box.kernel()
    kernel.said("kept = 1")
    daemon.wait_for_pool()
    ready = inits(daemon)
    old = daemon.process("api")
    os.kill(old.pid, signal.SIGKILL)
    wait_until(lambda: not old.is_alive(), 5, "the api is dead")

    def listed():
        try:
            return ask(daemon, "GET", "/sandboxes").json()
        except (requests.RequestException, ValueError):
            return None

    assert [one["id"] for one in wait_until(listed, 20, "a new api serves")] == [box.id]
    assert kernel.said("print(kept)") == "1\n"
    assert inits(daemon) == ready
    assert outer(create(daemon), 1) in ready


def test_the_pool_goes_with_its_warden_and_a_new_one_fills_its_own(pooled):
    daemon = pooled(2)
    family = [p for p in daemon.processes() if p.role not in ("keeper", "api")]
    groups = census.control_groups(daemon)
    os.kill(daemon.process("warden").pid, signal.SIGKILL)
    wait_until(lambda: not any(p.is_alive() for p in family if p.name != "sandglassd"), 10, "all of the nursery is dead")
    wait_until(lambda: len(daemon.events("pool.full")) == 2, 20, "the new one's pool is full")
    assert len(inits(daemon)) == 2 and not inits(daemon) & {p.pid for p in family}
    wait_until(lambda: census.control_groups(daemon) == groups, 10, "no control group of the former pool is left")
    assert create(daemon).kernel().said("print(1)") == "1\n"


def test_a_rebuilt_template_has_a_pool_of_its_own_and_the_former_ones_is_gone(own_daemon, tmp_path):
    cache = Cache(tmp_path)
    cache.put("first")
    daemon = own_daemon(config={"pool": 2, "templates": ["first"]}, env={"SANDGLASS_CACHE": str(tmp_path)})
    daemon.wait_for_pool()
    box = create(daemon)
    kernel = box.kernel()
    kernel.said("kept = 1")
    daemon.wait_for_pool()
    former = inits(daemon) - set(members(box.id))
    cache.put("first", description="as it is now", preload=["json"])
    wait_until(lambda: not former & inits(daemon), 30, "what stood ready of the former is gone")
    daemon.wait_for_pool()
    taken = create(daemon)
    assert taken.kernel().said("print(2)") == "2\n" and daemon.events("sandbox.started")[-1]["message"].endswith("from the pool")
    assert kernel.said("print(kept)") == "1\n" and not daemon.events("template.gone")
    box.kill()
    wait_until(lambda: daemon.events("template.gone"), 10, "the former image goes with its last sandbox")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_of_the_pool_is_left(pooled, end):
    daemon = pooled({"sandboxes": 3, "languages": ["python", "bash", "node"]}, ("code-interpreter",))
    pid, family = daemon.pid, daemon.processes()
    assert len(family) > 12
    getattr(daemon, end)()
    assert not [p for p in family if p.is_alive()]
    if end == "stop":
        assert not list(Path("/sys/fs/cgroup").glob(f"**/sandglass-{pid}"))


def test_a_daemon_that_stops_while_the_pool_fills_ends_cleanly(own_daemon):
    daemon = own_daemon(config={"pool": 50, "templates": ["base"]})
    wait_until(lambda: len(inits(daemon)) >= 2, 10, "it fills")
    daemon.stop()


def test_a_paused_sandbox_from_the_pool_stands_still_and_goes_on(pooled):
    daemon = pooled({"sandboxes": 1, "languages": ["python", "bash"]})
    box = create(daemon)
    box.request("POST", "/pause", want=204)
    assert all(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "DS" for pid in members(box.id))
    assert box.send("POST", "/repl/sessions", json={"language": "python"}).status_code == 409
    box.request("POST", "/resume", want=204)
    assert box.kernel().said("print(1)") == "1\n"
    box.request("POST", "/pause", want=204)
    box.kill()
    wait_until(lambda: not members(box.id), 10, "it ends while it is paused")


# ---- room ----


def megabytes(count: float) -> float:
    """As a factor of this machine's memory."""
    return count * MIB / (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def test_promised_memory_goes_to_claims_before_the_pool(pooled):
    daemon = pooled(4, limits={"memory_mb": 100, "files_mb": 20}, admission={"memory_overcommit": megabytes(250)})
    assert len(inits(daemon)) == 2, "a third would be more than may be promised"
    made = ask(daemon, "POST", "/sandboxes", json={"limits": {"memory_mb": 200, "files_mb": 20}})
    assert made.status_code == 201, made.text
    wait_until(lambda: len(inits(daemon)) == 1, 10, "the pool has made room")
    refused = ask(daemon, "POST", "/sandboxes", json={"limits": {"memory_mb": 100, "files_mb": 20}})
    assert refused.status_code == 507 and refused.json()["code"] == "host.memory"
    assert ask(daemon, "DELETE", f"/sandboxes/{made.json()['id']}").status_code == 204
    wait_until(lambda: len(inits(daemon)) == 2, 10, "the pool has its room again")


def test_without_the_reserve_nothing_stands_ready_and_a_create_is_refused(own_daemon):
    daemon = own_daemon(config={"admission": {"memory_reserve_mb": 10**9}})
    refused = ask(daemon, "POST", "/sandboxes", json={})
    assert refused.status_code == 507 and inits(daemon) == set()


def test_places_go_to_claims_before_the_pool(pooled):
    daemon = pooled(4, ("code-interpreter", "base"), caps={"sandboxes": 3}, owners={"default": {"sandboxes": 9}})
    assert len(inits(daemon)) == 3
    made = [ask(daemon, "POST", "/sandboxes", json={"template": "base"}) for _ in range(3)]
    assert [one.status_code for one in made] == [201] * 3
    refused = ask(daemon, "POST", "/sandboxes", json={"template": "code-interpreter"})
    assert refused.status_code == 503 and refused.json()["code"] == "host.full"
    wait_until(lambda: len(inits(daemon)) == 3, 10, "the pool has made room")
    for one in made:
        assert ask(daemon, "DELETE", f"/sandboxes/{one.json()['id']}").status_code == 204
    assert ask(daemon, "POST", "/sandboxes", json={"template": "code-interpreter"}).status_code == 201


@pytest.mark.parametrize(
    "pool, named",
    [(-1, "'pool'"), ("4", "'pool'"), (1000, "'pool'"), ({"sandboxes": "x"}, "pool.sandboxes"), ({"size": 4}, "pool.size"),
     ({"languages": ["cobol"]}, "cobol"), ({"languages": "python"}, "pool.languages"), ({"languages": [1]}, "pool.languages")],
)  # fmt: skip
def test_a_wrong_configuration_of_the_pool_stops_the_start_and_is_named(tmp_path, pool, named):
    daemon = Daemon(tmp_path / "state", config={"pool": pool})
    with pytest.raises(DaemonError) as refusal:
        daemon.start()
    assert named in str(refusal.value)


def test_all_kernels_that_wait_for_a_zygote_to_get_warm_are_made(own_daemon):
    """More than its socket holds requests for, all asked for while it is started anew."""
    daemon = own_daemon(config={"pool": 0, "templates": ["base"]})
    many = [Box(daemon, template="base") for _ in range(14)]
    (zygote,) = (p.pid for p in daemon.processes() if p.name.startswith("python"))
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: daemon.events("zygote.ended"), 10, "it has ended")
    answers, lock = [], threading.Lock()

    def start(box: Box) -> None:
        answer = requests.post(
            f"{daemon.url}/v1/sandboxes/{box.id}/repl/sessions", json={"language": "python"}, headers={"Authorization": f"Bearer {daemon.key}"}, timeout=60 * PATIENCE
        )
        with lock:
            answers.append((answer.status_code, answer.json().get("error")))

    threads = [threading.Thread(target=start, args=(box,)) for box in many for _ in range(15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [(201, None)] * len(threads)
