"""What the zygote does once, so that no session has to: imports, and the first use of everything.

After it the process must be fit to be forked and to be written to a file: one thread, no descriptor beyond the four
it was given, nothing in memory that is a secret.
"""
from __future__ import annotations

import gc
import importlib
import os
import sys
import threading

# read by the libraries when they are loaded: no threads of their own
SINGLE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false", "ARROW_DEFAULT_MEMORY_POOL": "system",
}
FONT_CACHES = ("/usr/share/sandglass/matplotlib", "/root/.cache/matplotlib", "/var/cache/matplotlib")
ALWAYS = ("asyncio", "base64", "ctypes", "decimal", "glob", "json", "multiprocessing.pool", "multiprocessing.synchronize",
          "concurrent.futures.process", "concurrent.futures.thread", "pathlib", "random", "re", "shutil", "socket", "ssl",
          "subprocess", "tempfile", "uuid")

CELLS = (
    "1 + 1",
    "x = 1",
    "import json, math, os, re, sys\nprint('warm', file=sys.stdout)\n{'k': [1, 2.5, 'é']}",
    "def f(n):\n    return {}['k']\ntry:\n    f(1)\nexcept KeyError as e:\n    raise ValueError('warm') from e",
    "c = = 1",
    "from IPython.display import HTML, JSON, Markdown, display\ndisplay(HTML('<b>w</b>'), display_id='w')\ndisplay(JSON({}), Markdown('*w*'))",
    "import asyncio\nasync def g():\n    await asyncio.sleep(0)\nawait g()",
    "asyncio.run(g())",
    "%matplotlib inline",
    "!true",
    "%%bash\ntrue",
)
CELLS_FOR = {
    "pandas": ("import pandas as pd, numpy as np\nd = pd.DataFrame({'a': np.arange(4.0), 'b': list('wxyz')})\n"
               "d.groupby('b')['a'].agg(['mean', 'sum'])", "d.describe()", "pd.to_datetime(pd.Series(['2020-01-01']))",
               "import io\npd.read_csv(io.StringIO('a,b\\n1,x\\n2,y\\n')).merge(d, on='a', how='left').sort_values('a').to_string()"),
    "numpy": ("import numpy as np\na = np.ones((8, 8))\n(a @ a).sum(), np.linalg.inv(np.eye(3)), np.random.default_rng(0).random(3)",),
    "matplotlib.pyplot": ("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2], label='w')\nax.set_title('Warm 中')\n"
                          "ax.legend()\nplt.show()", "plt.bar(['a', 'b'], [1, 2])\nplt.close('all')"),
}


class _Nowhere:
    """Stands for the standard streams while warming: what warm-up cells print is nobody's business."""

    encoding, errors, closed = "utf-8", "strict", False

    def write(self, text):
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False


def _import_matplotlib() -> None:
    """Importing it asks for a folder that can be written; the template has none, and it needs none."""
    folder = next((f for f in FONT_CACHES if os.path.isdir(f)), "/")
    os.environ["MPLCONFIGDIR"] = folder
    access, os.access = os.access, lambda *_, **__: True
    try:
        importlib.import_module("matplotlib.font_manager")
    finally:
        os.access = access


def _run_cells(shell, preload) -> list[str]:
    """Run the warm-up cells, with all output dropped. Returns what failed that should not."""
    from . import bundles, cells, figures, tracebacks

    failures = []
    for source in [*CELLS, *(c for name in preload for c in CELLS_FOR.get(name, ()))]:
        shell.remember_input(source)
        try:
            cells.run(shell, source, "<cell 0>")
            figures.flush()
            bundles.Budget().fit({"text/plain": source})
        except BaseException as error:
            told = tracebacks.describe(error)
            if not isinstance(error, (SyntaxError, ValueError)) or "warm" not in source + told["message"]:
                if not isinstance(error, SyntaxError):
                    failures.append(f"{source[:40]!r}: {told['name']}: {told['message']}")
    return failures


def _forget_session(shell) -> None:
    """Nothing of the warm-up may be seen in a session."""
    import linecache
    shell.displayhook.flush()
    shell.history_manager.input_hist_parsed[:] = shell.history_manager.input_hist_raw[:] = [""]
    shell.execution_count = 1
    hidden = set(shell.user_ns_hidden) | {"_", "__", "___"}
    for name in [n for n in shell.user_ns if n not in hidden and not n.startswith("__")]:
        del shell.user_ns[name]
    shell.user_ns.update({"_": "", "__": "", "___": ""})
    linecache.cache.pop("<cell 0>", None)
    for name in ("last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)


def rehearse(kernel) -> None:
    """In a kernel that nobody waits for yet. A cell touches much of what was warmed, and each page that is touched is then
    copied from the zygote's; done here, the first cell of the session need not wait for it (2 ms)."""
    from .wire import wire

    stdout, stderr, sys.stdout, sys.stderr = sys.stdout, sys.stderr, _Nowhere(), _Nowhere()
    kernel.number = -1  # so it is "<cell 0>"
    wire.speak_to_nobody(run=1)
    try:
        kernel.answer(CELLS[0], is_first=False)
    finally:
        wire.speak_to_nobody(run=0)
        sys.stdout, sys.stderr = stdout, stderr
        _forget_session(kernel.shell)


def _close_files() -> None:
    """Fonts are kept open by a cache."""
    manager = sys.modules.get("matplotlib.font_manager")
    if manager is not None:
        for name in ("_get_font", "get_font"):
            clear = getattr(getattr(manager, name, None), "cache_clear", None)
            if clear is not None:
                clear()
    import linecache
    linecache.clearcache()
    gc.collect()


def _join_threads() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)


def open_descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # the listing's own
    return found


def warm(preload) -> None:
    """Import and use once what is named, and build the shell."""
    os.environ.update(SINGLE_THREAD)
    from . import loops, runner, surroundings
    for name in ALWAYS:
        importlib.import_module(name)
    if any(name.startswith("matplotlib") for name in preload):
        _import_matplotlib()
    import _ssl
    _ssl.RAND_add(b"", 0.0)  # sets the generator up, which takes 5 ms; each kernel renews it
    shell = runner.prepare()
    for name in preload:
        importlib.import_module(name)
    stdout, stderr, sys.stdout, sys.stderr = sys.stdout, sys.stderr, _Nowhere(), _Nowhere()
    on_error, shell.on_error = shell.on_error, lambda error: None
    try:
        failures = _run_cells(shell, preload)
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        shell.on_error = on_error
    if failures:
        print("warming is incomplete: " + "; ".join(failures), file=sys.__stderr__)  # slower sessions, no wrong ones
    _forget_session(shell)
    loops.forget_warming()
    surroundings.prepare()
    _join_threads()
    _close_files()


def check(allowed) -> None:
    """Refuse to be a zygote that cannot be forked safely."""
    surprises = {fd: what for fd, what in open_descriptors().items() if fd not in allowed}
    if surprises:
        raise SystemExit(f"warming left descriptors open: {surprises}")
    tasks = os.listdir("/proc/self/task")
    if len(tasks) != 1:
        raise SystemExit(f"warming left {len(tasks)} threads running")
    import locale
    if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8"):
        raise SystemExit("the interpreter does not use UTF-8")
