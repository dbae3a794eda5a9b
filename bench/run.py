#!/usr/bin/env python3
"""How long, and how much: a sandbox and a kept kernel beside ipykernel and a bare walled process.

    make bench                  30 rounds; a table, build/bench/basics.json, and every single row in basics.jsonl
    bench/run.py --rounds 100

All contenders take turns within each round, so that whatever else the machine does meets them all. Times
are taken by the client that waits: for us a C program over HTTP on one kept connection (bench/client.c),
for ipykernel its own client over its own sockets, for bubblewrap from spawn to exit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import queue
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SANDGLASS_BUILD") or REPOSITORY / "build")
HOME = BUILD / "bench"
sys.path.insert(0, str(REPOSITORY / "tests/e2e"))
sys.dont_write_bytecode = True

IDLE_SANDBOXES = 50
LEAST_ROUNDS = 30
PANDAS = "import pandas as pd; int(pd.Series([1, 1]).sum())"  # one line; its value is 2


# ---- getting ready ----


def prepare() -> None:
    """The C client, and a venv with what is compared; then this program again, inside that venv."""
    HOME.mkdir(parents=True, exist_ok=True)
    client, source = HOME / "client", REPOSITORY / "bench/client.c"
    if not client.exists() or client.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-std=gnu17", "-O2", "-Wall", "-D_GNU_SOURCE", source, "-o", client], check=True)
    venv, requirements = HOME / "venv", REPOSITORY / "bench/requirements.txt"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    stamp = venv / "made-from"
    if not stamp.exists() or stamp.read_text() != wanted:
        print("installing ipykernel, bash_kernel and pandas to compare with ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
        subprocess.run(pip, check=True)
        subprocess.run([venv / "bin/python", "-m", "bash_kernel.install", "--sys-prefix"], check=True, stdout=subprocess.DEVNULL)
        stamp.write_text(wanted)
    if Path(sys.prefix) != venv:
        os.execv(venv / "bin/python", [str(venv / "bin/python"), *sys.argv])


# ---- the contenders ----


class Ours:
    """bench/client.c as a process that takes commands."""

    def __init__(self, daemon) -> None:
        host, _, port = daemon.url.removeprefix("http://").partition(":")
        self.process = subprocess.Popen([HOME / "client", host, port, daemon.key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command: str) -> dict:
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the client ended"}')
        if "error" in answer:
            raise SystemExit(f"bench: {command.split()[0]}: {answer['error']}")
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(10)


class Jupyter:
    """One ipykernel, or another kernel by its name, driven by jupyter_client."""

    def __init__(self, name: str = "python3") -> None:
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str) -> str:
        """The value of the cell, once the kernel is idle again."""
        asked = self.client.execute(code)
        value = ""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=60)
            except queue.Empty:
                raise SystemExit("bench: ipykernel did not answer") from None
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "execute_result":
                value = message["content"]["data"]["text/plain"]
            elif message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return value

    @property
    def pid(self) -> int:
        return self.manager.provisioner.process.pid

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def fresh_jupyter(code: str) -> float:
    start = time.perf_counter()
    kernel = Jupyter()
    value = kernel.run(code)
    took = (time.perf_counter() - start) * 1000
    kernel.close()
    if value != "2":
        raise SystemExit(f"bench: ipykernel answered {value!r}")
    return took


def kept_jupyter(kernel: Jupyter) -> float:
    start = time.perf_counter()
    value = kernel.run("1+1")
    took = (time.perf_counter() - start) * 1000
    assert value == "2"
    return took


BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]


def bubblewrap() -> float:
    start = time.perf_counter()
    done = subprocess.run([*BWRAP, "/usr/bin/python3", "-c", "print(1+1)"], capture_output=True, text=True)
    took = (time.perf_counter() - start) * 1000
    if done.stdout != "2\n":
        raise SystemExit(f"bench: bwrap: {done.stderr}")
    return took


# ---- memory ----


def pss_mb(pids) -> float:
    """Memory of processes in MB, what they share being split among those who share it."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue  # it ended
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def everyone(daemon) -> list[int]:
    return [process.pid for process in daemon.processes()]


def idle_memory(daemon, rows: list[dict]) -> None:
    """Growth of the daemon with all its processes for each sandbox that ran a cell and is idle."""
    ours = [Ours(daemon) for _ in range(IDLE_SANDBOXES)]
    ours[0].ask("open")
    ours[0].ask("again 1+1")
    last = pss_mb(everyone(daemon))
    for number, one in enumerate(ours[1:], 1):
        one.ask("open")
        one.ask("again 1+1")
        if number % 7 == 0:  # seven groups of seven sandboxes
            now = pss_mb(everyone(daemon))
            rows.append({"what": "idle sandbox, memory", "value": (now - last) / 7, "sandboxes": number + 1})
            last = now
    for one in ours:
        one.ask("close")
        one.close()


# ---- figures ----


def percentile(values: list[float], percent: float) -> float:
    """Nearest rank: a value that was measured."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


FIGURES = [
    # what, unit, against, goal, the goal as a test of (p50, ratio)
    ("create to first result", "ms", "fresh ipykernel", "p50 <= 2 ms", lambda p50, ratio: p50 <= 2),
    ("create to first result, no pool", "ms", "fresh ipykernel", "p50 <= 6 ms", lambda p50, ratio: p50 <= 6),
    ("create to first result with pandas", "ms", "fresh ipykernel with pandas", "30 times sooner", lambda p50, ratio: ratio >= 30),
    ("1+1 in a kept kernel", "ms", "1+1 in a kept ipykernel", "p50 <= 1 ms, and sooner", lambda p50, ratio: p50 <= 1 and ratio > 1),
    ("idle sandbox, memory", "MB", "idle ipykernel with pandas, memory", "p50 <= 3 MB", lambda p50, ratio: p50 <= 3),
    ("fresh ipykernel", "ms", None, None, None),
    ("fresh ipykernel with pandas", "ms", None, None, None),
    ("1+1 in a kept ipykernel", "ms", None, None, None),
    ("idle ipykernel with pandas, memory", "MB", None, None, None),
    ("bwrap python3 -c", "ms", None, None, None),
]


def summarise(rows: list[dict]) -> list[dict]:
    values = {what: [row["value"] for row in rows if row["what"] == what] for what, *_ in FIGURES}
    summary = []
    for what, unit, against, goal, _ in FIGURES:
        mine = values[what]
        ratio = percentile(values[against], 50) / percentile(mine, 50) if against else None
        summary.append({
            "name": what, "unit": unit, "n": len(mine), "p50": round(percentile(mine, 50), 3), "p99": round(percentile(mine, 99), 3),
            "against": against, "ratio": ratio and round(ratio, 1), "goal": goal,
        })  # fmt: skip
    first, bare = summary[0], summary[-1]
    bare_ratio = round(bare["p50"] / first["p50"], 1)
    summary.append({**first, "name": first["name"] + ", beside bubblewrap", "against": bare["name"], "ratio": bare_ratio, "goal": None})
    return summary


def print_table(summary: list[dict]) -> None:
    tests = {what: test for what, _, _, _, test in FIGURES}
    print(f"\n{'':42} {'n':>4} {'p50':>9} {'p99':>9}      {'against':36} {'ratio':>7}  goal")
    for row in summary:
        ratio = f"{row['ratio']:.1f} x" if row["ratio"] else ""
        goal = row["goal"] or ""
        if goal:
            goal += ": met" if tests[row["name"]](row["p50"], row["ratio"]) else ": NOT met"
        print(f"{row['name']:42} {row['n']:4} {row['p50']:9.2f} {row['p99']:9.2f} {row['unit']:4} {row['against'] or '':36} {ratio:>7}  {goal}")


def machine() -> dict:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"what": "machine", "cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    options = parser.parse_args()
    prepare()
    from daemon import Daemon

    rows: list[dict] = []
    with Daemon(build=BUILD) as daemon, Daemon(build=BUILD, config={"pool": 0}) as bare_daemon:
        ours, bare, kept = Ours(daemon), Ours(bare_daemon), Jupyter()
        ours.ask("open")
        for _ in range(5):  # all warm
            ours.ask("first 1+1")
            ours.ask("again 1+1")
            bare.ask("first 1+1")
            kept.run("1+1")

        def pooled(code: str) -> dict:
            daemon.wait_for_pool()
            return ours.ask("first " + code)

        contenders = {
            "create to first result": lambda: pooled("1+1"),
            "create to first result, no pool": lambda: bare.ask("first 1+1"),
            "fresh ipykernel": lambda: fresh_jupyter("1+1"),
            "create to first result with pandas": lambda: pooled(PANDAS),
            "fresh ipykernel with pandas": lambda: fresh_jupyter(PANDAS),
            "1+1 in a kept kernel": lambda: ours.ask("again 1+1"),
            "1+1 in a kept ipykernel": lambda: kept_jupyter(kept),
            "bwrap python3 -c": bubblewrap,
        }
        for number in range(options.rounds):
            print(f"\rround {number + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
            for what, measure in contenders.items():
                got = measure()
                more = {"parts_us": got["parts"]} if isinstance(got, dict) and "parts" in got else {}
                value = got["us"] / 1000 if isinstance(got, dict) else got
                rows.append({"round": number, "what": what, "value": value, **more})
        print("\rmemory ...            ", end="", file=sys.stderr, flush=True)
        for _ in range(3):
            other = Jupyter()
            other.run(PANDAS)
            rows.append({"what": "idle ipykernel with pandas, memory", "value": pss_mb([other.pid])})
            other.close()
        kept.close()
        ours.ask("close")
        ours.close()
        bare.close()
        idle_memory(bare_daemon, rows)  # a pool that fills meanwhile would count, too
        print("\r                      \r", end="", file=sys.stderr, flush=True)
    summary = summarise(rows)
    (HOME / "basics.json").write_text(json.dumps(summary, indent=1) + "\n")
    with open(HOME / "basics.jsonl", "w") as file:
        for row in [machine(), *rows]:
            file.write(json.dumps(row) + "\n")
    print_table(summary)
    print(f"\n{HOME}/basics.json, every row in basics.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
