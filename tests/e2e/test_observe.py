"""Logs, events, metrics: what a sandbox printed, what happened to it, what it uses."""

from __future__ import annotations

import json
import re
import socket
import threading
import time

import pytest
import requests

from boxes import boxes  # noqa: F401
from daemon import PATIENCE, wait_until
from test_keys import owner_key
from test_restart import kill_api
from test_runs import Events


def log_of(api, box, **query):
    answer = api.get(f"/sandboxes/{box.id}/logs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


def events_of(api, box, **query):
    return api.get(f"/sandboxes/{box.id}/events", params=query).json()["events"]


def kinds_of(events):
    return [event["type"] for event in events]


# ---- logs ----


def test_the_log_is_what_cells_and_commands_printed(api, box, kernel):
    kernel.run_code("print('from a cell')")
    box.exec("echo from a command; echo aside >&2")
    box.exec_stream("echo streamed", on_stdout=lambda _: None)
    assert log_of(api, box).splitlines() == ["from a cell", "from a command", "aside", "streamed"]
    assert log_of(api, box, stream="stderr") == "aside\n"
    assert "aside" not in log_of(api, box, stream="stdout")
    assert list(box.logs()) == ["from a cell", "from a command", "aside", "streamed"]


def test_what_threads_print_between_cells_is_logged(api, box, kernel):
    kernel.run_code("import threading, time\ndef late():\n    time.sleep(0.3); print('from a thread', flush=True)\nthreading.Thread(target=late).start()")
    wait_until(lambda: log_of(api, box) == "from a thread\n", 10, "the thread's line is in the log")


def test_the_log_is_valid_text_whatever_is_printed(api, box):
    box.exec(r"printf 'a\377\302\205b\n\000'")
    answer = api.get(f"/sandboxes/{box.id}/logs")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.content.decode() == "a\ufffd\u0085b\n\0\n"


def test_redrawn_lines_are_logged_once(api, box):
    box.exec(r"for i in 1 2 3; do printf '\r%d0%%' $i; done; echo")
    assert log_of(api, box) == "30%\n"


def test_the_log_is_bounded_and_says_what_is_gone(api, box):
    box.exec("yes 0123456789 | head -c 3000000")
    text = log_of(api, box)
    assert len(text) < 1_100_000
    gone = re.match(r"\[\.\.\. (\d+) bytes of output left out \.\.\.\]\n", text)
    assert gone and int(gone[1]) + len(text) - len(gone[0]) == pytest.approx(3_000_000, abs=2)
    assert text.splitlines()[1] in ("0123456789"[i:] for i in range(10))


def test_a_followed_log_brings_old_and_new_lines(api, box):
    box.exec("echo old")
    events = Events(api.get(f"/sandboxes/{box.id}/logs", params={"follow": "true"}, stream=True))
    assert next(iter(events)) == ("line", {"line": "old\n"})
    box.exec("echo new 1; echo 'ü 2'")
    assert [next(iter(events)) for _ in range(2)] == [("line", {"line": "new 1\n"}), ("line", {"line": "ü 2\n"})]
    place = events.id
    box.exec("echo later")
    again = Events(api.get(f"/sandboxes/{box.id}/logs?follow=1", headers={"Last-Event-ID": str(place)}, stream=True))
    assert next(iter(again)) == ("line", {"line": "later\n"})
    box.kill()
    assert list(again) == []


def test_a_log_begins_with_its_last_lines_where_that_is_asked_for(api, box):
    box.exec("seq 1 500; echo aside >&2")
    box.exec("seq 501 1000")
    assert log_of(api, box, tail=2) == "999\n1000\n"
    assert sorted(log_of(api, box, tail=502).splitlines()[:2]) == ["500", "aside"]
    assert log_of(api, box, tail=501, stream="stdout").startswith("500\n501\n")
    assert log_of(api, box, tail=1, stream="stderr") == "aside\n"
    assert log_of(api, box, tail=0) == "" and log_of(api, box, tail=100_000) == log_of(api, box)
    followed = iter(Events(api.get(f"/sandboxes/{box.id}/logs", params={"follow": "true", "tail": 1}, stream=True)))
    box.exec("echo new")
    assert [data["line"] for _, data in (next(followed), next(followed))] == ["1000\n", "new\n"]


def test_the_first_bytes_of_a_followed_log_are_a_comment(api, box, daemon):
    with api.get(f"/sandboxes/{box.id}/logs?follow=1", stream=True) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["Transfer-Encoding"] == "chunked"
        assert next(answer.iter_content(1)) == b":"


@pytest.mark.slow
@pytest.mark.limit(90)
def test_a_quiet_log_does_not_end(box):
    lines, ended = [], threading.Event()

    def follow():
        lines.extend(box.logs(follow=True))
        ended.set()

    threading.Thread(target=follow, daemon=True).start()
    assert not ended.wait(33)
    box.exec("echo still there")
    wait_until(lambda: lines or True, 1, "")
    box.kill()
    assert ended.wait(10) and [line.strip() for line in lines if line.strip()] == ["still there"]


def test_odd_queries_are_refused_by_name(api, box):
    for path, name in (("logs?stream=all", "stream"), ("logs?tail=few", "tail"), ("logs?follow=maybe", "follow"), ("events?tail=-1", "tail"), ("events?since=x", "since")):
        refused = api.get(f"/sandboxes/{box.id}/{path}")
        assert refused.status_code == 400 and f"'{name}'" in refused.json()["error"]


def test_a_slow_follower_holds_up_nobody_and_is_told_of_the_gap(api, box, daemon):
    host, port = daemon.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        head = f"GET /v1/sandboxes/{box.id}/logs?follow=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\n\r\n"
        connection.sendall(head.encode())
        for _ in range(8):
            box.exec("yes 'a line that fills the log' | head -c 4000000")
        assert box.exec("echo quick").stdout == "quick\n"
        box.kill()
        text = b""
        while not text.endswith(b"0\r\n\r\n"):
            part = connection.recv(1 << 20)
            assert part, "the stream was cut"
            text += part
        assert b"bytes of output left out" in text and b"quick" in text


def test_two_hundred_followers_of_one_log_are_cheap(api, box, daemon):
    host, port = daemon.url.removeprefix("http://").split(":")
    connections = []
    head = f"GET /v1/sandboxes/{box.id}/logs?follow=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\n\r\n"
    try:
        for _ in range(200):
            connections.append(socket.create_connection((host, int(port)), timeout=20 * PATIENCE))
            connections[-1].sendall(head.encode())
        for connection in connections:
            while b": following" not in connection.recv(4096):
                pass
        pid = daemon.process("api").pid
        before = cpu_of(pid)
        box.exec("for i in $(seq 100); do echo line $i; sleep 0.01; done; echo over")
        for connection in connections:
            text = b""
            while b"over" not in text:
                text += connection.recv(65536)
            assert text.count(b"event: line") == 101
        assert cpu_of(pid) - before < 1.5 * PATIENCE
    finally:
        for connection in connections:
            connection.close()


def cpu_of(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


# ---- events ----


def test_events_tell_what_happened_in_order(api, box, kernel):
    kernel.run_code("1")
    box.exec("exit 3")
    events = events_of(api, box)
    assert kinds_of(events) == ["sandbox.running", "run.started", "run.ended", "command.started", "command.ended"]
    assert [event["id"] for event in events] == list(range(1, 6))
    assert all(event["sandbox_id"] == box.id and event["time"].endswith("Z") for event in events)
    assert events[2]["payload"]["run_id"] == events[1]["payload"]["run_id"] and events[2]["payload"]["state"] == "done"
    assert events[3]["payload"]["cmd"] == "exit 3" and events[4]["payload"]["exit_code"] == 3


def test_limits_and_restarts_are_events(api, box, kernel):
    from pandastack import SandboxTimeout

    with pytest.raises(SandboxTimeout):
        kernel.run_code("while True: pass", timeout_seconds=1)
    kernel.run_code("import os; os._exit(1)")
    with pytest.raises(SandboxTimeout):
        box.exec("sleep 60", timeout_seconds=1)
    events = events_of(api, box)
    hits = [event["payload"] for event in events if event["type"] == "limit.hit"]
    assert [hit["limit"] for hit in hits] == ["time", "time"] and "run_id" in hits[0] and "command_id" in hits[1]
    restarted = [event["payload"] for event in events if event["type"] == "kernel.restarted"]
    assert len(restarted) == 1 and restarted[0]["session_id"] == kernel.id
    ended = [event["payload"] for event in events if event["type"] == "command.ended"]
    assert ended[0]["timeout"] and "exit_code" not in ended[0]


def test_events_from_an_id_on_and_the_last_ones(api, box):
    for i in range(5):
        box.exec("true")
    everything = events_of(api, box)
    assert events_of(api, box, since=everything[3]["id"]) == everything[4:]
    assert events_of(api, box, tail=2) == everything[-2:]
    assert events_of(api, box, tail=0) == [] and events_of(api, box, since=10**9) == []


@pytest.mark.parametrize("began_with", ["", "since=1", "since=100000", "tail=1", "tail=0&since=2"])
def test_a_browser_that_comes_back_misses_no_event(api, box, began_with):
    """It sends the id of its last event, and still the address that it began with."""
    for _ in range(3):
        box.exec("true")
    events = Events(api.get(f"/sandboxes/{box.id}/events?follow=1&{began_with}", headers={"Last-Event-ID": "2"}, stream=True))
    assert [next(iter(events))[1]["id"] for _ in range(5)] == [3, 4, 5, 6, 7]


def test_followed_events_end_with_the_sandboxs_own(api, box):
    events = Events(api.get(f"/sandboxes/{box.id}/events?follow=1&since=1", stream=True))
    box.exec("true")
    assert next(iter(events))[1]["type"] == "command.started"
    assert events.id == 2
    box.kill()
    rest = list(events)
    assert rest[-1][0] == "event" and rest[-1][1]["type"] == "sandbox.deleted" and rest[-1][1]["payload"] == {"reason": "released"}


def test_events_are_bounded_and_their_ids_go_on(api, box):
    session = api.post(f"/sandboxes/{box.id}/repl/sessions", json={}).json()["id"]
    for i in range(600):
        api.post(f"/sandboxes/{box.id}/repl/sessions/{session}/run", json={"code": "pass"})
    events = events_of(api, box)
    assert 200 < len(events) < 1201 and events[-1]["id"] == 1201
    assert [event["id"] for event in events] == list(range(events[0]["id"], 1202))


def test_looking_is_no_use(api, box):
    for path in ("logs", "events", "metrics", "runs"):
        api.get(f"/sandboxes/{box.id}/{path}")
    before = box.lifecycle()["idle_seconds"]
    time.sleep(1.1)
    for path in ("logs", "events", "metrics", "runs"):
        assert api.get(f"/sandboxes/{box.id}/{path}").status_code == 200
    assert box.lifecycle()["idle_seconds"] > before


# ---- metrics ----


def metrics_of(api, box):
    answer = api.get(f"/sandboxes/{box.id}/metrics")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_metrics_are_all_numbers(api, box):
    metrics = metrics_of(api, box)
    assert all(isinstance(value, int | float) for value in metrics.values())
    for name in ("pid", "uptime_seconds", "host_cpu_percent", "host_rss_bytes", "host_vsz_bytes", "threads"):
        assert name in metrics
    assert metrics["pid"] > 1 and metrics["memory_limit_bytes"] == 1 << 30 and metrics["cpu_limit"] == 1


def test_metrics_count_processor_time(api, box, kernel):
    before, start = metrics_of(api, box), time.monotonic()
    kernel.run_code("import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass")
    after, end = metrics_of(api, box), time.monotonic()
    used = after["cpu_seconds"] - before["cpu_seconds"]
    assert 0.9 < used < 3
    # Of the time that passed, however long a busy machine takes for that second; each look takes some, too.
    assert 0.5 < after["host_cpu_percent"] / (100 * used / (end - start)) < 1.5


def test_metrics_count_what_commands_used_and_is_gone(api, box):
    before = metrics_of(api, box)["cpu_seconds"]
    box.exec("python3 -c 'import time\nwhile time.process_time() < 0.7: pass'")
    assert metrics_of(api, box)["cpu_seconds"] - before > 0.5


def test_metrics_count_memory_files_and_processes(api, box, kernel):
    before = metrics_of(api, box)
    kernel.run_code("block = bytearray(100 << 20)\nfor i in range(0, len(block), 4096): block[i] = 1")
    api.put(f"/sandboxes/{box.id}/fs", params={"path": "/workspace/ten"}, data=b"x" * (10 << 20))
    box.exec("sleep 100 & sleep 100 &")
    after = metrics_of(api, box)
    assert after["memory_bytes"] - before["memory_bytes"] > 100 << 20
    assert after["memory_peak_bytes"] >= after["memory_bytes"] - (1 << 20)
    assert 10 << 20 <= after["disk_bytes"] - before["disk_bytes"] < 12 << 20
    assert after["disk_limit_bytes"] == 512 << 20 and after["inodes"] > before["inodes"]
    assert after["processes"] >= before["processes"] + 2


def test_metrics_of_a_stranger_are_404(api):
    for path in ("logs", "events", "metrics", "runs"):
        assert api.get(f"/sandboxes/{'0' * 32}/{path}").status_code == 404


# ---- prometheus ----

SAMPLE = re.compile(r'sandglass_[a-z_]+(\{[a-z]+="[^"\\\n]*"\})? -?[0-9.]+$')


def scrape(daemon, **headers):
    return requests.get(f"{daemon.url}/metrics", headers=headers, timeout=20)


def samples(daemon):
    answer = scrape(daemon, Authorization=f"Bearer {daemon.key}")
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.match(line) for line in lines)
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_prometheus_counts(daemon, api, box, kernel):
    before = samples(daemon)
    kernel.run_code("print('12345')")
    box.exec("true")
    api.get(f"/sandboxes/{'0' * 32}")
    after = samples(daemon)

    def grew(name):
        return after[f"sandglass_{name}"] - before.get(f"sandglass_{name}", 0)

    assert grew('runs_total{state="done"}') == 1 and grew("run_seconds_count") == 1
    assert grew("commands_total") == 1 and grew('output_bytes_total{stream="stdout"}') == 6
    assert grew('errors_total{code="sandbox.not_found"}') >= 1 and grew("requests_total") >= 3
    assert after["sandglass_sandboxes_running"] >= 1
    assert after['sandglass_run_seconds_bucket{le="+Inf"}'] == after["sandglass_run_seconds_count"]


def test_prometheus_needs_a_key(daemon):
    assert scrape(daemon).status_code == 401


def test_prometheus_may_be_opened(own_daemon):
    daemon = own_daemon(config={"open_metrics": True})
    answer = scrape(daemon)
    assert answer.status_code == 200 and "sandglass_sandboxes 0" in answer.text
    assert requests.get(f"{daemon.url}/v1/sandboxes", timeout=20).status_code == 401


def test_the_api_coming_back_begins_new_journals(own_daemon):
    """Logs, events and runs are memory of the api; the sandbox itself lives on, and ids still only grow."""
    import signal

    from pandastack import Client

    daemon = own_daemon()
    client = Client(api_url=daemon.url, api_key=daemon.key)
    box = client.sandboxes.create(ttl_seconds=600)
    box.exec("echo before")
    headers = {"Authorization": f"Bearer {daemon.key}"}
    events = lambda: requests.get(f"{daemon.url}/v1/sandboxes/{box.id}/events", headers=headers, timeout=20).json()["events"]  # noqa: E731
    last = events()[-1]["id"]
    import os

    os.kill(daemon.process("api").pid, signal.SIGKILL)

    def is_back():
        try:
            return events()
        except requests.RequestException:
            return None

    now = wait_until(is_back, 20, "the api serves again")
    assert now[0]["type"] == "sandbox.recovered" and now[0]["id"] > last
    assert json.loads(json.dumps(now))[0]["sandbox_id"] == box.id
    assert box.exec("echo after").stdout == "after\n"


def test_the_events_of_all_sandboxes_are_followed_in_one_stream(own_daemon, boxes):  # noqa: F811
    """Those that begin later too; and nobody else's."""
    daemon = own_daemon(config={"templates": ["base"]})
    other = owner_key(daemon, "other")
    wait_until(lambda: requests.get(daemon.url + "/v1/me", headers={"Authorization": f"Bearer {other}"}, timeout=30).ok, 10, "the key counts")

    def ask(key=daemon.key, path="/v1/events", **options):
        return requests.get(daemon.url + path, headers={"Authorization": f"Bearer {key}"} | options.pop("headers", {}), timeout=30, **options)

    first = boxes(daemon=daemon, template="base")
    first.shell("true")
    with ask(params={"follow": "true"}, stream=True) as answer:
        events, told = iter(Events(answer)), []
        told += [next(events)[1] for _ in range(3)]
        later = boxes(daemon=daemon, template="base")
        later.kill()
        told += [next(events)[1] for _ in range(2)]
    assert [(event["sandbox_id"], event["type"]) for event in told] == [
        (first.id, "sandbox.running"), (first.id, "command.started"), (first.id, "command.ended"),
        (later.id, "sandbox.running"), (later.id, "sandbox.deleted"),
    ]  # fmt: skip
    assert ask().json()["events"] == told
    assert ask(params={"since": told[2]["id"]}).json()["events"] == told[3:] == ask(params={"tail": 2}).json()["events"]
    assert ask(key=other).json() == {"events": []} and ask(key="sg_" + "2" * 40).status_code == 401
    assert requests.get(f"{daemon.url}/v1/events?access_token={daemon.key}", timeout=30).json()["events"] == told
    assert ask(params={"since": "x"}).status_code == 400 and ask(params={"follow": "maybe"}).status_code == 400
    kill_api(daemon)
    (recovered,) = ask(params={"since": told[-1]["id"]}).json()["events"]
    assert recovered["type"] == "sandbox.recovered" and recovered["id"] > told[-1]["id"]


def test_who_follows_all_sandboxes_is_left_when_the_key_is_revoked(daemon, boxes):  # noqa: F811
    def ask(method, path, key=daemon.key, **options):
        return requests.request(method, f"{daemon.url}/v1{path}", headers={"Authorization": f"Bearer {key}"}, timeout=30, **options)

    token = ask("POST", "/me/tokens", json={"label": "follower"}).json()
    with ask("GET", "/events", token["token"], params={"follow": "true", "tail": 1}, stream=True) as answer:
        lines = answer.iter_lines()
        assert next(lines) == b": following"
        assert ask("DELETE", f"/me/tokens/{token['prefix']}").status_code == 204
        later = boxes(template="base")
        assert later.id not in b"".join(lines).decode()  # and it is over
    assert later.id in ask("GET", "/events").text


@pytest.mark.limit(120)
def test_who_comes_back_after_crashes_sees_nothing_twice_and_misses_nothing_that_is_kept(own_daemon, boxes):  # noqa: F811
    """Places of a log go on over a crash of the api, however little or much was printed before it."""
    daemon = own_daemon(config={"templates": ["base"]})
    box = boxes(daemon=daemon, template="base")

    def lines_behind(place: int) -> tuple[list[str], int]:
        """Up to a mark that is printed now; and the place of the last of them."""
        with box.send("GET", "/logs", params={"follow": "true"}, headers={"Last-Event-ID": str(place)}, stream=True) as answer:
            events, lines, last = Events(answer), [], place
            box.shell("echo mark")
            for _, data in events:
                if data["line"] == "mark\n":
                    return lines, last
                assert events.id >= last
                lines, last = [*lines, data["line"]], events.id
        raise AssertionError(f"the stream ended after {lines}")

    box.shell("echo first")
    lines, seen = lines_behind(0)
    assert lines == ["first\n"]
    gone = "[... what was printed before the daemon's HTTP side was restarted is gone ...]\n"
    for turn in range(2):
        kill_api(daemon)
        box.shell(f"echo turn {turn}; head -c 3000 /dev/zero | tr '\\0' x; echo")
        lines, last = lines_behind(seen)
        assert lines == [f"turn {turn}\n", "x" * 3000 + "\n"] and last > seen
        assert lines_behind(last)[0] == []
        assert box.send("GET", "/logs").text.startswith(gone + f"turn {turn}\n")
        seen = last
