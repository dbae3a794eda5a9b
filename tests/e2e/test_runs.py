"""Runs as objects: streamed, detached, read again, cancelled; whose they are, and what is kept of them."""

from __future__ import annotations

import json
import threading
import time

import pytest
import requests

from daemon import wait_until


class Events:
    """The events of a stream, read as they come: (name, data) pairs; `id` is the last one's."""

    def __init__(self, answer):
        assert answer.status_code == 200, answer.text
        self.answer, self.id = answer, None
        self._events = self._read()

    def __iter__(self):
        return self._events

    def _read(self):
        name, data = None, None
        for line in self.answer.iter_lines():
            assert line.isascii()
            if line.startswith(b":"):
                continue
            if not line and name:
                yield name, json.loads(data)
                name = None
            field, _, value = line.decode().partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
            elif field == "id":
                self.id = int(value)

    def until(self, wanted):
        """Events up to and with the first of that name."""
        got = []
        for name, data in self:
            got.append((name, data))
            if name == wanted:
                return got
        raise AssertionError(f"no '{wanted}' among {got}")


def text_of(events, stream):
    return "".join(data["chunk"] for name, data in events if name == stream)


@pytest.fixture
def session(api, box):
    made = api.post(f"/sandboxes/{box.id}/repl/sessions", json={"language": "python"})
    assert made.status_code == 201
    return f"/sandboxes/{box.id}/repl/sessions/{made.json()['id']}"


@pytest.fixture
def stream(api, session):
    def start(code, **fields):
        return Events(api.post(f"{session}/run", json={"code": code, "stream": True, **fields}, stream=True))

    return start


def state_of(api, run_id):
    return api.get(f"/runs/{run_id}").json()["state"]


def wait_for(api, run_id, *states):
    wait_until(lambda: state_of(api, run_id) in states, 20, f"the run is one of {states}")
    return api.get(f"/runs/{run_id}").json()


# ---- streams ----


def test_a_streamed_run_tells_all_in_order(stream):
    code = "import sys\nprint('one')\ndisplay({'text/plain': 'two'}, raw=True)\nprint('three', file=sys.stderr)\n'fo\\u2028ur ä'"
    events = list(stream(code))
    order = [name for i, (name, _) in enumerate(events) if i == 0 or events[i - 1][0] != name]
    assert order == ["run", "stdout", "display", "stderr", "result", "end"]
    assert text_of(events, "stdout") == "one\n" and text_of(events, "stderr") == "three\n"
    assert dict(events)["display"] == {"text/plain": "two"}
    assert dict(events)["result"]["text/plain"] == "'fo\\u2028ur ä'"
    end = events[-1][1]
    assert (end["state"], end["exit"], end["timeout"], end["kernel"]["state_kept"]) == ("done", 0, False, True)
    assert end["duration_ms"] >= 0 and len(events[0][1]["id"]) == 16


def test_a_stream_comes_while_the_cell_runs(stream, api):
    events = stream("print('early'); input_ = __import__('time').sleep(1); print('late')")
    began = time.monotonic()
    events.until("stdout")
    assert time.monotonic() - began < 0.9
    assert text_of(events.until("end"), "stdout").strip() == "late"


def test_what_one_print_prints_is_one_event(stream):
    """With its line end, however it is flushed; two prints may be one event, too, but none is half of one."""
    events = stream("for i in range(50): print('line', i, flush=True)\nimport sys; print('aside', 2.5, None, sep='-', end='!\\n', file=sys.stderr)")
    chunks = [(name, data["chunk"]) for name, data in events if name in ("stdout", "stderr")]
    assert "".join(text for name, text in chunks if name == "stdout") == "".join(f"line {i}\n" for i in range(50))
    assert all(text.endswith("\n") for _, text in chunks) and chunks[-1] == ("stderr", "aside-2.5-None!\n")


PRINTS = """
import io, contextlib, sys, inspect
print(print, print.__module__, print.__self__, inspect.signature(print))
class Loud:
    def __str__(self):
        print('asked')
        return 'loud'
print('before', Loud(), 'after')
caught = io.StringIO()
with contextlib.redirect_stdout(caught):
    print('elsewhere', 1)
print('more', file=caught, end='')
print(repr(caught.getvalue()))
print(); print(end=''); print('a', 'b', sep=''); print(*range(3), sep=None, end=None)
for wrong in ({'sep': 1}, {'end': b''}, {'no_such': 1}, {'file': 3}):
    try:
        print('x', **wrong)
    except (TypeError, AttributeError) as problem:
        print(type(problem).__name__)
class Broken:
    def __str__(self):
        raise KeyError('no text')
print('then', Broken(), 'never')
"""


def test_print_is_as_it_always_was(api, session):
    answer = api.post(f"{session}/run", json={"code": PRINTS}).json()
    assert answer["stdout"].splitlines() == [
        "<built-in function print> builtins <module 'builtins' (built-in)> (*args, sep=' ', end='\\n', file=None, flush=False)",
        "before asked", "loud after", "'elsewhere 1\\nmore'", "", "ab", "0 1 2",
        "TypeError", "TypeError", "TypeError", "AttributeError", "then ",
    ]  # fmt: skip
    assert answer["error_name"] == "KeyError" and "print.c" not in answer["error"]


def test_the_head_of_a_stream_is_what_the_clients_need(stream):
    events = stream("1")
    headers = events.answer.headers
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert headers["Transfer-Encoding"] == "chunked"
    list(events)


def test_a_streamed_error_is_an_event_before_the_end(stream):
    events = list(stream("def f():\n    return 1/0\nf()"))
    error, end = events[-2], events[-1]
    assert error[0] == "error" and error[1]["name"] == "ZeroDivisionError" and "return 1/0" in error[1]["traceback"]
    assert end[1]["state"] == "done" and end[1]["exit"] == 1


def test_a_streamed_run_at_its_limit_says_so(stream):
    events = list(stream("print('begun', flush=True)\nwhile True: pass", timeout_ms=500))
    assert text_of(events, "stdout") == "begun\n"
    assert events[-2][1]["code"] == "cell.timeout" and events[-1][1]["state"] == "timeout" and events[-1][1]["exit"] == 124


def test_a_streamed_kernel_death_says_so(stream):
    events = list(stream("import os; os._exit(3)"))
    assert events[-2][0] == "error" and events[-2][1]["name"] == "KernelDied"
    assert events[-1][1]["state"] == "kernel_died" and events[-1][1]["kernel"]["restarted"]


def test_updates_and_clears_are_events(stream):
    code = "h = display('a', display_id='x')\nh.update('b')\nfrom IPython.display import clear_output\nclear_output()"
    events = list(stream(code))
    shown = [(name, data) for name, data in events if name in ("display", "update", "clear")]
    assert [name for name, _ in shown] == ["display", "update", "clear"]
    assert shown[0][1]["display_id"] == shown[1][1]["display_id"] == "x"


def test_a_client_that_reads_slowly_loses_nothing(stream):
    size = 30_000_000
    events = stream(f"for i in range({size} // 10000):\n    print('x' * 9999)", timeout_ms=60000)
    time.sleep(1)
    got = list(events)
    assert len(text_of(got, "stdout")) == size and not [1 for name, _ in got if name == "gap"]
    assert got[-1][1]["state"] == "done"


def test_a_streams_client_that_goes_away_interrupts(stream, api, box):
    events = stream("import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('cut')")
    run_id = next(iter(events))[1]["id"]
    wait_for(api, run_id, "running")
    events.answer.close()
    run = wait_for(api, run_id, "interrupted")
    assert run["stdout"] == "cut\n"


# ---- detached ----


def test_a_detached_run_answers_at_once_and_goes_on(api, session):
    answer = api.post(f"{session}/run", json={"code": "import time; time.sleep(0.5); print('done'); 6 * 7", "detach": True})
    assert answer.status_code == 202 and answer.json()["state"] in ("queued", "running") and answer.json()["detached"]
    run = wait_for(api, answer.json()["run_id"], "done")
    assert run["stdout"] == "done\n" and run["results"][0]["text/plain"] == "42" and run["exit"] == 0
    assert run["started_at"] <= run["ended_at"]


def test_a_detached_stream_may_be_left_and_found_again(stream, api):
    code = "import time\nfor i in range(6):\n    print(i, flush=True); time.sleep(0.2)"
    events = stream(code, detach=True)
    first = events.until("stdout")
    place = events.id
    events.answer.close()
    run_id = first[0][1]["id"]
    again = Events(api.get(f"/runs/{run_id}/stream", params={"offset": place}, stream=True))
    rest = list(again)
    assert text_of(first, "stdout") + text_of(rest, "stdout") == "0\n1\n2\n3\n4\n5\n"
    assert rest[-1][0] == "end" and rest[-1][1]["state"] == "done"


def test_a_run_can_be_followed_after_its_end(stream, api):
    events = list(stream("print('all of it'); 1"))
    again = list(Events(api.get(f"/runs/{events[0][1]['id']}/stream", stream=True)))
    assert again[1:] == events[1:]


def test_last_event_id_counts_as_offset(stream, api):
    events = stream("print('a', end='')\n1")  # one write: one event
    run_id = events.until("stdout")[0][1]["id"]
    place = events.id
    list(events)
    again = Events(api.get(f"/runs/{run_id}/stream", headers={"Last-Event-ID": str(place)}, stream=True))
    assert [name for name, _ in again] == ["run", "result", "end"]


def test_a_browser_that_comes_back_gets_nothing_twice(stream, api):
    """It sends the id of its last event, and still the address that it began with."""
    events = stream("print('a', end='')\n1")
    run_id = events.until("stdout")[0][1]["id"]
    place = events.id
    list(events)
    again = Events(api.get(f"/runs/{run_id}/stream?offset=0", headers={"Last-Event-ID": str(place)}, stream=True))
    assert [name for name, _ in again] == ["run", "result", "end"]


def test_a_browser_that_has_seen_the_end_is_told_to_stay_away(stream, api):
    events = stream("1")
    run_id = events.until("end")[0][1]["id"]
    last = {"Last-Event-ID": str(events.id)}
    answer = api.get(f"/runs/{run_id}/stream", headers=last)
    assert (answer.status_code, answer.content) == (204, b"")
    assert api.get(f"/runs/{run_id}/stream?offset={events.id}").status_code == 200, "who asks for a place is answered"


def test_a_browser_that_comes_back_early_waits_for_the_rest(api, session):
    run_id = api.post(f"{session}/run", json={"code": "import time; print('a', end=''); time.sleep(1)", "detach": True}).json()["run_id"]
    events = Events(api.get(f"/runs/{run_id}/stream", stream=True))
    events.until("stdout")
    again = Events(api.get(f"/runs/{run_id}/stream", headers={"Last-Event-ID": str(events.id)}, stream=True))
    assert [name for name, _ in again] == ["run", "end"]


# ---- reading ----


def test_every_answer_names_its_run(api, session):
    answer = api.post(f"{session}/run", json={"code": "print('x')"}).json()
    run = api.get(f"/runs/{answer['run_id']}").json()
    assert run["state"] == "done" and run["stdout"] == "x\n" and run["session_id"] == session.rsplit("/", 1)[1]


def test_a_run_is_read_from_an_offset_on(api, session):
    run_id = api.post(f"{session}/run", json={"code": "print('abcdef')"}).json()["run_id"]
    run = api.get(f"/runs/{run_id}", params={"offset": 3}).json()
    assert run["stdout"] == "def\n" and run["offset"] == 3
    rest = api.get(f"/runs/{run_id}", params={"offset": run["next_offset"]}).json()
    assert rest["stdout"] == "" and rest["next_offset"] == run["next_offset"]
    for odd in ("-1", "x", "1e3", "99999999999999999999"):
        refused = api.get(f"/runs/{run_id}", params={"offset": odd})
        assert refused.status_code == 400 and "offset" in refused.json()["error"]


def test_a_run_keeps_more_than_the_answer_shows(api, session):
    code = "for i in range(300):\n    print('%09d' % i * 1000)"
    answer = api.post(f"{session}/run", json={"code": code}).json()
    assert "truncated" in answer
    run = api.get(f"/runs/{answer['run_id']}").json()
    assert len(run["stdout"]) == 300 * 9001 and "dropped" not in run


def test_what_does_not_fit_the_window_is_counted(api, session):
    code = "line = 'x' * 99999\nfor i in range(300):\n    print(line)"
    run_id = api.post(f"{session}/run", json={"code": code}).json()["run_id"]
    run = api.get(f"/runs/{run_id}").json()
    assert run["dropped"] == run["offset"] > 0
    assert len(run["stdout"]) + run["dropped"] == 300 * 100000
    events = list(Events(api.get(f"/runs/{run_id}/stream", stream=True)))
    assert events[1][0] == "gap" and events[1][1]["bytes"] == run["dropped"]


def test_characters_cut_by_the_pipe_are_whole(stream):
    text = "ä€😀" * 20000
    events = list(stream(f"import os\nb = {text!r}.encode()\nfor i in range(0, len(b), 7): os.write(1, b[i:i+7])"))
    assert text_of(events, "stdout") == text


def test_runs_are_listed_by_sandbox(api, box, session):
    ids = [api.post(f"{session}/run", json={"code": str(i)}).json()["run_id"] for i in range(3)]
    runs = api.get(f"/sandboxes/{box.id}/runs").json()["runs"]
    assert [run["id"] for run in runs] == ids and {run["state"] for run in runs} == {"done"}


def test_only_so_many_ended_runs_are_kept(api, box, session):
    first = api.post(f"{session}/run", json={"code": "0"}).json()["run_id"]
    for i in range(64):
        api.post(f"{session}/run", json={"code": "0"})
    assert len(api.get(f"/sandboxes/{box.id}/runs").json()["runs"]) == 64
    assert api.get(f"/runs/{first}").status_code == 404


def test_runs_end_with_their_sandbox(api, box, session):
    run_id = api.post(f"{session}/run", json={"code": "0"}).json()["run_id"]
    box.kill()
    assert api.get(f"/runs/{run_id}").json()["code"] == "run.not_found"


def test_an_unknown_run_is_404(api):
    for run_id in ("0" * 16, "x", "A" * 16, "%00"):
        assert api.get(f"/runs/{run_id}").status_code in (400, 404)
    assert api.post("/runs/0123456789abcdef/cancel").json()["code"] == "run.not_found"
    assert requests.get(f"{api.get('/capabilities').url.rsplit('/', 1)[0]}/runs/{'0' * 16}", timeout=10).status_code == 401


# ---- cancel ----


def test_a_cancelled_run_is_interrupted_and_the_state_kept(api, session):
    api.post(f"{session}/run", json={"code": "x = 5"})
    run_id = api.post(f"{session}/run", json={"code": "while True: pass", "detach": True}).json()["run_id"]
    wait_for(api, run_id, "running")
    assert api.post(f"/runs/{run_id}/cancel").status_code == 200
    run = wait_for(api, run_id, "interrupted")
    assert run["error_name"] == "KeyboardInterrupt" and run["kernel"]["state_kept"]
    assert api.post(f"{session}/run", json={"code": "x"}).json()["results"][0]["text/plain"] == "5"
    assert api.post(f"/runs/{run_id}/cancel").json()["state"] == "interrupted"


def test_a_waiting_run_is_cancelled_before_it_begins(api, session):
    busy = api.post(f"{session}/run", json={"code": "import time; time.sleep(1.5)", "detach": True}).json()["run_id"]
    waiting = api.post(f"{session}/run", json={"code": "print('never')", "detach": True}).json()["run_id"]
    assert state_of(api, waiting) == "queued"
    cancelled = api.post(f"/runs/{waiting}/cancel").json()
    assert cancelled["state"] == "interrupted" and cancelled["code"] == "run.cancelled"
    assert wait_for(api, busy, "done") and api.get(f"/runs/{waiting}").json()["stdout"] == ""


def test_who_waits_for_a_cancelled_run_is_told(api, session):
    api.post(f"{session}/run", json={"code": "import time; time.sleep(1)", "detach": True})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(api.post(f"{session}/run", json={"code": "1"})))
    thread.start()
    box_id = session.split("/")[2]
    runs = lambda: api.get(f"/sandboxes/{box_id}/runs").json()["runs"]  # noqa: E731
    wait_until(lambda: len(runs()) == 2, 10, "both runs are there")
    api.post(f"/runs/{runs()[1]['id']}/cancel")
    thread.join(10)
    assert answers[0].status_code == 409 and answers[0].json()["code"] == "run.cancelled"


def test_a_refused_run_leaves_no_trace(api, box, session):
    for body in ({"code": ""}, {"code": "1", "stream": "yes"}, {"code": "1", "detach": 1}, {"code": "1", "keep": True}):
        assert api.post(f"{session}/run", json=body).status_code == 400
    assert api.get(f"/sandboxes/{box.id}/runs").json() == {"runs": []}


def test_a_sandbox_that_ends_ends_its_streams(stream, box):
    events = stream("print('here', flush=True)\nimport time; time.sleep(60)")
    events.until("stdout")
    box.kill()
    rest = events.until("end")
    assert rest[-2][1]["code"] == "sandbox.ended" and rest[-1][1]["state"] == "interrupted"
