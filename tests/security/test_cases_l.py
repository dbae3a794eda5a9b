"""Cases L: the zygote, the process all kernels come from."""

from __future__ import annotations

import json

import host
import pytest

STREAMS = """
import json, os, random, secrets, tempfile, uuid, ssl, hashlib
import numpy as np
told = {
    'random': random.random(), 'random module': random.Random().random(), 'numpy': float(np.random.random()), 'numpy new': float(np.random.default_rng().random()),
    'numpy normal': float(np.random.randn()), 'uuid4': str(uuid.uuid4()), 'uuid1': str(uuid.uuid1()), 'secrets': secrets.token_hex(8),
    'tempfile': tempfile.mktemp(), 'ssl': ssl.RAND_bytes(8).hex(), 'urandom': os.urandom(8).hex(), 'shuffle': random.sample(range(10 ** 6), 3),
    'system': random.SystemRandom().random(), 'choice': np.random.randint(0, 1 << 60).item() if hasattr(np.random.randint(0, 2), 'item') else int(np.random.randint(0, 1 << 60)),
}
print(json.dumps(told))
"""


def test_130_no_two_kernels_share_a_random_stream(boxes):
    first = boxes()
    seen = [first.kernel().value(STREAMS), first.kernel().value(STREAMS), boxes().kernel().value(STREAMS), boxes().kernel().value(STREAMS)]
    for name in seen[0]:
        values = [json.dumps(one[name]) for one in seen]
        assert len(set(values)) == len(values), f"{name}: {values}"


def test_130_a_restarted_kernel_has_a_new_stream(boxes):
    kernel = boxes().kernel()
    before = kernel.value(STREAMS)
    kernel.run("import os; os._exit(1)")
    after = kernel.value(STREAMS)
    assert {name for name in before if before[name] == after[name]} == set()


def test_130_node_starts_fresh_each_time(boxes):
    box = boxes()
    values = [box.shell("node -p 'Math.random()'") for _ in range(2)]
    assert values[0] != values[1]


def test_132_the_zygote_cannot_be_seen_or_reached(look, daemon):
    zygotes = [p for p in daemon.processes() if p.role not in ("keeper", "warden", "api", "init") and "/box/" not in open(f"/proc/{p.pid}/cgroup").read()]
    assert zygotes, "the daemon has a zygote"
    seen = look.python("""
import json, os
visible = {}
for name in os.listdir('/proc'):
    if name.isdigit():
        try:
            visible[name] = open(f'/proc/{name}/cmdline').read().replace('\\0', ' ')
        except OSError:
            pass
reached = []
for pid in %r:
    try:
        os.kill(pid, 0)
        if str(pid) not in visible:
            reached.append(pid)
    except OSError:
        pass
print(json.dumps([visible, reached, os.getppid()]))
""" % [p.pid for p in zygotes])
    visible, reached, parent = seen
    assert reached == []
    if look.way in ("first cell", "later cell"):
        assert parent == 0, "the kernel's parent lies outside"
    for zygote in zygotes:
        assert zygote.is_alive()


POISON = """
import atexit, builtins, ctypes, gc, os, signal, sys, json as j
builtins.print = lambda *a, **k: os.write(1, b'poisoned')
builtins.len = lambda x: 42
sys.modules['math'] = None
j.dumps = lambda *a, **k: '"poisoned"'
os.register_at_fork(before=lambda: os.write(2, b'forked'))
atexit.register(lambda: os.write(2, b'ended'))
gc.callbacks.append(lambda *a: None)
signal.signal(signal.SIGINT, signal.SIG_IGN)
import numpy as np
np.random.seed(1)
np.ones = lambda *a: 'poisoned'
ctypes.memset(id(7) + 24, 9, 1) if sys.implementation.name == 'cpython' else None
os.environ['PYTHONSTARTUP'] = '/tmp/x.py'
"""


def test_133_poison_stays_in_its_kernel(boxes):
    box = boxes()
    box.kernel().run(POISON)
    for kernel in (box.kernel(), boxes().kernel()):
        assert kernel.said("import math, json, numpy as np; print(len([1]), math.pi > 3, json.dumps([7]), np.ones(1), 3 + 4)") == "1 True [7] [1.] 7\n"


@pytest.mark.parametrize("where", ["/workspace", "/home/user"])
def test_133_files_named_like_modules_do_not_run_in_the_next_kernel(boxes, where):
    """Traps a4: sitecustomize, usercustomize, .pth, and modules of the standard library's names."""
    box = boxes()
    site = "/home/user/.local/lib/python3.11/site-packages"
    evil = "open('/tmp/ran', 'a').write(__name__ + ' ')\n"
    box.shell(f"mkdir -p {site}")
    for name in ("sitecustomize.py", "usercustomize.py", "_sandglass.py", "sandglass_kernel.py"):
        box.write(f"{where}/{name}", evil)
        box.write(f"{site}/{name}", evil)
    for name in ("signal.py", "selectors.py", "struct.py", "IPython.py"):
        box.write(f"{where}/{name}", evil)
    kernel = box.kernel()
    assert kernel.said("import os; print(os.path.exists('/tmp/ran') and open('/tmp/ran').read())") == "False\n"


@pytest.mark.parametrize("line", ["import os; os._exit(3)", "import time; time.sleep(1000)", "import sys; sys.exit()", "import os; os.close(3)", "import signal; signal.pause()"])
def test_133_a_path_file_of_the_user_does_not_keep_kernels_from_starting(boxes, line):
    box = boxes()
    box.write("/home/user/.local/lib/python3.11/site-packages/evil.pth", line + "\n")
    kernel = box.kernel()
    answer = kernel.send("print('fine')", seconds=5)
    assert answer.status_code in (200, 504)
    box.shell("rm -r /home/user/.local")
    assert box.kernel().said("print('fine')") == "fine\n"


HYGIENE = """
import asyncio, json, logging, multiprocessing, ssl, subprocess, sys, threading
import numpy as np
told = []
told.append(len(__import__('os').listdir('/proc/self/task')))
def work(out):
    out.append(float((np.ones((400, 400)) @ np.ones((400, 400))).sum()))
out = []
threads = [threading.Thread(target=work, args=(out,)) for _ in range(4)]
[t.start() for t in threads]; [t.join(20) for t in threads]
told.append(out)
logging.getLogger('x').error('logged')
told.append(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout)
ssl.create_default_context()
import decimal, sqlite3, zoneinfo, xml.etree.ElementTree
told.append(sqlite3.connect(':memory:').execute('select 1').fetchone()[0])
with multiprocessing.get_context('fork').Pool(2) as pool:
    told.append(pool.map(abs, [-1, -2]))
print(json.dumps(told))
"""


def test_134_everything_works_at_the_first_cell(boxes):
    answer = boxes().kernel().run(HYGIENE)
    assert answer["exit"] == 0, answer
    threads, sums, child, one, mapped = json.loads(answer["stdout"].splitlines()[-1])
    assert threads == 1 and sums == [400.0**3] * 4 and child == "child\n" and one == 1 and mapped == [1, 2]
    assert "logged" in answer["stderr"]


def test_134_the_c_library_knows_its_processor(boxes):
    """It reads that from a place that is registered with the system, for each process by itself."""
    where = "import ctypes, os\ntold = []\nfor cpu in sorted(os.sched_getaffinity(0)) + [0, 1, 0]:\n    try:\n        os.sched_setaffinity(0, {cpu})\n    except OSError:\n        continue\n    told.append(cpu == ctypes.CDLL(None).sched_getcpu())\nprint(told)"
    kernel = boxes().kernel()
    assert set(eval(kernel.said(where))) == {True}


@pytest.mark.slow
@pytest.mark.limit(300)
def test_134_two_hundred_kernels_in_a_row_all_work(boxes):
    box = boxes()
    for _ in range(200):
        kernel = box.kernel()
        assert kernel.said("import threading, numpy as np; t = threading.Thread(target=np.ones, args=(9,)); t.start(); t.join(); print('fine')") == "fine\n"
        kernel.close()


def test_135_a_dead_zygote_is_replaced(boxes, own_daemon):
    import os
    import signal

    from daemon import wait_until

    daemon = own_daemon()
    box = boxes(daemon=daemon)
    kernel = box.kernel()
    kernel.said("kept = 1")
    zygotes = [p for p in daemon.processes() if p.role not in ("keeper", "warden", "api", "init") and "/box/" not in open(f"/proc/{p.pid}/cgroup").read()]
    for zygote in zygotes:
        os.kill(zygote.pid, signal.SIGKILL)

    def works() -> bool:
        answer = box.send("POST", "/repl/sessions", json={"language": "python"})
        return answer.status_code == 201

    wait_until(works, 30, "a new zygote makes kernels")
    assert kernel.said("print(kept)") == "1\n", "kernels outlive their zygote"


def test_the_zygote_is_as_poor_as_promised(daemon, boxes):
    boxes()
    zygotes = [p for p in daemon.processes() if p.role not in ("keeper", "warden", "api", "init") and "/box/" not in open(f"/proc/{p.pid}/cgroup").read()]
    for zygote in zygotes:
        status = host.status(zygote.pid)
        assert status["Threads"] == "1"
        assert open(f"/proc/{zygote.pid}/environ", "rb").read() in (b"",)
        assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and status["Groups"] == ""
        kinds = host.descriptors(zygote.pid)
        assert kinds.pop(2) == host.descriptors(daemon.pid)[2], "what it says while it warms goes where the daemon's words go"
        assert sorted(kinds.values()) == ["/dev/null", "/dev/null", "socket"], "the socket is its control socket"
    warden = host.status(daemon.process("warden").pid)["Uid"].split()[0]
    uids = [host.status(zygote.pid)["Uid"].split() for zygote in zygotes]
    assert all(len(set(four)) == 1 for four in uids) and len({four[0] for four in uids} | {warden}) == len(zygotes) + 1, "a uid of its own each"
