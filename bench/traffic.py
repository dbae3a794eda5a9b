#!/usr/bin/env python3
"""How long, and how much: languages, commands, files, streams, followers and terminals.

    make bench                      after basics: a table, build/bench/traffic.json, every row in traffic.jsonl
    bench/traffic.py --rounds 100

Contenders take turns within each round, as in run.py. What is compared with: bash_kernel for a kept bash,
a bare walled process for Node and for a command, Python's own web server for reading a file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import run as basics
from run import BUILD, BWRAP, HOME, LEAST_ROUNDS, Jupyter, Ours, percentile

MIB, GIB = 1 << 20, 1 << 30
BIG_ROUNDS = 5  # of 1 GiB each way
FOLLOWERS, LINES = 200, 1000
TERMINALS = 100
LIMITS = {"memory_mb": 6144, "files_mb": 2048}

FIGURES = [
    # what, unit, against
    ("1+1 in a kept bash", "ms", "1+1 in a kept bash_kernel"),
    ("1+1 in a kept Node", "ms", "bwrap node -p 1+1"),
    ("exec of true", "ms", "bwrap true"),
    ("streamed first byte", "ms", "ipykernel's first byte"),
    ("write 1 MiB", "ms", None),
    ("read 1 MiB", "ms", "http.server, 1 MiB"),
    ("write 1 GiB", "ms", None),
    ("read 1 GiB", "ms", "http.server, 1 GiB"),
    ("line to the last of 200 followers", "ms", None),
    ("1,000 lines to each of 200 followers", "ms", None),
    ("api's memory for a follower", "kB", None),
    ("a terminal opened, until its prompt", "ms", None),
    ("a key's echo, 100 terminals open", "ms", None),
    ("api's memory for a terminal", "kB", None),
    ("1+1 in a kept bash_kernel", "ms", None),
    ("bwrap node -p 1+1", "ms", None),
    ("bwrap true", "ms", None),
    ("ipykernel's first byte", "ms", None),
    ("http.server, 1 MiB", "ms", None),
    ("http.server, 1 GiB", "ms", None),
]


class Clock:
    """Collects rows; `take` times what it is given unless that says itself how long it took."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.round = 0

    def add(self, what: str, value: float) -> None:
        self.rows.append({"round": self.round, "what": what, "value": value})

    def take(self, what: str, measure) -> None:
        start = time.perf_counter()
        got = measure()
        took = time.perf_counter() - start
        self.add(what, got["us"] / 1000 if isinstance(got, dict) else 1000 * took)

    def take_turns(self, contenders: dict, rounds: int, name: str) -> None:
        for self.round in range(rounds):
            print(f"\r{name}: round {self.round + 1} of {rounds}   ", end="", file=sys.stderr, flush=True)
            for what, measure in contenders.items():
                self.take(what, measure)


# ---- languages, commands, streams ----


def walled(*command: str) -> None:
    subprocess.run([*BWRAP, *command], check=True, stdout=subprocess.DEVNULL)


def say(kernel: Jupyter, code: str) -> None:
    """Until the first output of the cell is here."""
    kernel.client.execute(code)
    while kernel.client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass


def finish(kernel: Jupyter) -> None:
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            return


def first_byte(kernel: Jupyter) -> dict:
    start = time.perf_counter()
    say(kernel, "print(2)")
    took = time.perf_counter() - start
    finish(kernel)
    return {"us": took * 1e6}


def kept_bash(kernel: Jupyter) -> None:
    say(kernel, "echo $((1+1))")
    finish(kernel)


def measure_cells(daemon, clock: Clock, rounds: int) -> None:
    bash, node, python = Ours(daemon), Ours(daemon), Ours(daemon)
    bash.ask("open bash")
    node.ask("open node")
    python.ask("open python")
    other, other_bash = Jupyter(), Jupyter("bash")
    contenders = {
        "1+1 in a kept bash": lambda: bash.ask("again echo $((1+1))"),
        "1+1 in a kept bash_kernel": lambda: kept_bash(other_bash),
        "1+1 in a kept Node": lambda: node.ask("again 1+1"),
        "bwrap node -p 1+1": lambda: walled("node", "-p", "1+1"),
        "exec of true": lambda: python.ask("exec true"),
        "bwrap true": lambda: walled("true"),
        "streamed first byte": lambda: python.ask("stream print(2)"),
        "ipykernel's first byte": lambda: first_byte(other),
    }
    for measure in contenders.values():  # all warm
        measure()
    clock.take_turns(contenders, rounds, "cells and commands")
    for one in (bash, node, python):
        one.ask("close")
        one.close()
    other.close()
    other_bash.close()


# ---- files ----


class WebServer:
    """Python's own, over a folder in memory, with kept connections."""

    def __init__(self, folder: str) -> None:
        command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", folder, "--protocol", "HTTP/1.1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = "http://127.0.0.1:" + re.search(r"port (\d+)", self.process.stdout.readline())[1]
        self.key = "none"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


def measure_files(daemon, clock: Clock, rounds: int) -> None:
    ours = Ours(daemon)
    ours.ask("open python " + json.dumps(LIMITS, separators=(",", ":")))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for name, size in (("small", MIB), ("big", GIB)):
            subprocess.run(["truncate", "-s", str(size), f"{folder}/{name}"], check=True)
        server = WebServer(folder)
        other = Ours(server)
        for size, name, short, times in ((MIB, "1 MiB", "small", rounds), (GIB, "1 GiB", "big", BIG_ROUNDS)):
            contenders = {
                f"write {name}": lambda size=size: ours.ask(f"put {size}"),
                f"read {name}": lambda size=size: ours.ask(f"get {size}"),
                f"http.server, {name}": lambda short=short: other.ask(f"fetch /{short}"),
            }
            clock.take_turns(contenders, times, f"files of {name}")
        other.close()
        server.close()
    ours.ask("close")
    ours.close()


# ---- many at once ----


def resident_kb(daemon) -> int:
    status = Path(f"/proc/{daemon.process('api').pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


class Box:
    """A sandbox with one session, over Python's requests."""

    def __init__(self, daemon) -> None:
        import requests

        self.http, self.url = requests.Session(), daemon.url + "/v1/sandboxes"
        self.http.headers["Authorization"] = f"Bearer {daemon.key}"
        self.url += "/" + self.post("", {})["id"]
        self.session = self.post("/repl/sessions", {})["id"]

    def post(self, path: str, body: dict) -> dict:
        answer = self.http.post(self.url + path, json=body)
        answer.raise_for_status()
        return answer.json()

    def run(self, code: str) -> None:
        assert self.post(f"/repl/sessions/{self.session}/run", {"code": code})["exit_code"] == 0

    def close(self) -> None:
        self.http.delete(self.url)
        self.http.close()


class Followers:
    """Readers of one log in one thread each; `wait_for` ends when all have seen a text."""

    def __init__(self, box: Box, count: int) -> None:
        self.condition, self.seen, self.open = threading.Condition(), {}, 0
        self.threads = [threading.Thread(target=self._read, args=(box,), daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()
        with self.condition:
            if not self.condition.wait_for(lambda: self.open == count, 60):
                raise SystemExit(f"bench: {self.open} of {count} followers got an answer")

    def _read(self, box: Box) -> None:
        with box.http.get(box.url + "/logs?follow=true", stream=True) as answer:
            answer.raise_for_status()
            with self.condition:
                self.open += 1
                self.condition.notify()
            for line in answer.iter_lines(chunk_size=None):
                for mark in re.findall(rb"mark-\d+-\d+", line):
                    with self.condition:
                        self.seen[mark] = self.seen.get(mark, 0) + 1
                        self.condition.notify()

    def wait_for(self, mark: bytes) -> None:
        with self.condition:
            if not self.condition.wait_for(lambda: self.seen.get(mark) == len(self.threads), 120):
                raise SystemExit(f"bench: {self.seen.get(mark, 0)} of {len(self.threads)} followers saw the line")


def measure_followers(daemon, clock: Clock, rounds: int) -> None:
    box = Box(daemon)
    box.run("1")
    before = resident_kb(daemon)
    followers = Followers(box, FOLLOWERS)
    clock.add("api's memory for a follower", (resident_kb(daemon) - before) / FOLLOWERS)

    def tell(number: int, lines: int) -> None:
        box.run(f"for i in range({lines - 1}): print('x' * 60)\nprint('mark-{lines}-{number}')")
        followers.wait_for(b"mark-%d-%d" % (lines, number))

    clock.take_turns({"line to the last of 200 followers": lambda: tell(clock.round, 1)}, rounds, "followers")
    clock.take_turns({"1,000 lines to each of 200 followers": lambda: tell(clock.round, LINES)}, BIG_ROUNDS, "followers")
    box.close()
    for thread in followers.threads:
        thread.join(30)


def measure_terminals(daemon, clock: Clock, rounds: int) -> None:
    from ws import WebSocket

    boxes = [Box(daemon), Box(daemon)]  # one has at most 64 terminals
    before = resident_kb(daemon)
    terminals = []
    for clock.round in range(TERMINALS):
        start = time.perf_counter()
        terminal = WebSocket(f"{boxes[clock.round % 2].url}/ssh", key=daemon.key)
        terminal.receive_until(b"$ ")
        clock.add("a terminal opened, until its prompt", 1000 * (time.perf_counter() - start))
        terminals.append(terminal)
    clock.add("api's memory for a terminal", (resident_kb(daemon) - before) / TERMINALS)
    for clock.round, terminal in enumerate(terminals):
        start = time.perf_counter()
        terminal.send(b"x")
        terminal.receive_until(b"x")
        clock.add("a key's echo, 100 terminals open", 1000 * (time.perf_counter() - start))
    for box in boxes:
        box.close()
    for terminal in terminals:
        terminal.socket.close()


# ---- figures ----


def summarise(rows: list[dict]) -> list[dict]:
    values = {what: [row["value"] for row in rows if row["what"] == what] for what, *_ in FIGURES}
    summary = []
    for what, unit, against in FIGURES:
        middle = percentile(values[what], 50)
        ratio = round(percentile(values[against], 50) / middle, 1) if against else None
        tail = percentile(values[what], 99)
        summary.append({"name": what, "unit": unit, "n": len(values[what]), "p50": round(middle, 3), "p99": round(tail, 3), "against": against, "ratio": ratio})
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    options = parser.parse_args()
    basics.prepare()
    from daemon import Daemon

    clock = Clock()
    for measure in (measure_cells, measure_files, measure_followers, measure_terminals):
        with Daemon(build=BUILD) as daemon:  # each: memory that is grown once is not given back
            measure(daemon, clock, options.rounds)
    print("\r" + " " * 50 + "\r", end="", file=sys.stderr, flush=True)
    summary = summarise(clock.rows)
    (HOME / "traffic.json").write_text(json.dumps(summary, indent=1) + "\n")
    with open(HOME / "traffic.jsonl", "w") as file:
        for row in [basics.machine(), *clock.rows]:
            file.write(json.dumps(row) + "\n")
    for row in summary:
        beside = f"{row['against']:28} {row['ratio']:7.1f} x" if row["ratio"] else ""
        print(f"{row['name']:40} {row['n']:4} {row['p50']:10.2f} {row['p99']:10.2f} {row['unit']:4} {beside}")
    print(f"\n{HOME}/traffic.json, every row in traffic.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
