"""The same hostile try made in four ways, and comparing what came of it.

look     a fresh sandbox and one of the ways; look.probe("clone") and look.python(code) return what was printed
"""

from __future__ import annotations

import json

import pytest
from boxes import LIBRARY, PROBE, Box, Kernel, boxes

__all__ = ["LIBRARY", "PROBE", "WAYS", "Look", "boxes", "differences", "look"]

# "First cell" and "later cell" are a process that was forked from the zygote and never called execve.
WAYS = ("first cell", "later cell", "started by a cell", "command")

# Other cells before the look: libraries, threads, a child, an event loop.
EARLIER_CELLS = (
    "import numpy as np, threading, subprocess; a = np.ones((300, 300)) @ np.ones((300, 300)); a.sum()",
    "t = threading.Thread(target=sum, args=([1, 2],)); t.start(); t.join(); subprocess.run(['true']).returncode",
    "import asyncio; await asyncio.sleep(0)",
)


class Look:
    """A sandbox and a way of running hostile code in it."""

    def __init__(self, box: Box, way: str) -> None:
        self.box, self.way = box, way
        self._kernel: Kernel | None = None

    @property
    def kernel(self) -> Kernel:
        if self._kernel is None:
            self._kernel = self.box.kernel()
            if self.way == "later cell":
                for code in EARLIER_CELLS:
                    self._kernel.said(code)
        return self._kernel

    def probe(self, *arguments) -> dict:
        words = [str(a) for a in arguments]
        self.box.with_probe()
        if self.way == "command":
            return self.box.probe(*words)
        if self.way == "started by a cell":
            code = f"import subprocess; print(subprocess.run({[PROBE, *words]!r}, capture_output=True, text=True).stdout)"
        else:
            code = (
                "import ctypes\n"
                f"words = [w.encode() for w in {['probe', *words]!r}]\n"
                f"_ = ctypes.CDLL({LIBRARY!r}).probe_main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None))\n"
            )
        return json.loads(self.kernel.said(code).strip().splitlines()[-1])

    def python(self, code: str):
        """Runs Python that prints JSON as its last line."""
        if self.way == "command":
            self.box.write("/tmp/probe/try.py", code)
            return json.loads(self.box.shell("python3 /tmp/probe/try.py").splitlines()[-1])
        if self.way == "started by a cell":
            starter = f"import subprocess, sys; print(subprocess.run(['python3', '-c', {code!r}], capture_output=True, text=True, check=True).stdout)"
            return json.loads(self.kernel.said(starter).strip().splitlines()[-1])
        return self.kernel.value(code)


def differences(got, expected, at: str = "") -> list[str]:
    """Where a report is not what it has to be. An expected value may be a set of allowed ones; `...` allows any."""
    if expected is ...:
        return []
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return [f"{at}: {got!r}, expected {expected!r}"]
        wrong = [f"{at}/{key}: missing" for key in expected if key not in got]
        wrong += [f"{at}/{key}: not expected, {got[key]!r}" for key in got if key not in expected]
        for key in expected:
            if key in got:
                wrong += differences(got[key], expected[key], f"{at}/{key}")
        return wrong
    is_right = got in expected if isinstance(expected, (set, frozenset)) else got == expected
    return [] if is_right else [f"{at}: {got!r}, expected {expected!r}"]


@pytest.fixture(params=WAYS)
def look(request, boxes):
    return Look(boxes(), request.param)
