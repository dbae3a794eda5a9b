"""Cases C: /proc, /sys, /dev."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import expected
import pytest
from inside import differences

SENSITIVE = (
    "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/proc/slabinfo", "/proc/kmsg",
    "/proc/vmallocinfo", "/proc/iomem", "/proc/ioports", "/proc/config.gz", "/proc/sched_debug", "/proc/modules",
    "/proc/kpageflags", "/proc/kpagecount", "/proc/latency_stats", "/sys/kernel/notes", "/sys/kernel/debug", "/sys",
)  # fmt: skip


def test_28_sensitive_files_of_proc_are_empty_or_denied(look):
    seen = look.python(f"""
import json, os
answers = {{}}
for path in {SENSITIVE!r}:
    try:
        if os.path.isdir(path):
            answers[path] = str(sorted(os.listdir(path)))
        else:
            with open(path, 'rb') as file:
                answers[path] = file.read(4096).hex()
    except OSError as problem:
        answers[path] = ''
try:
    with open('/proc/sysrq-trigger', 'w') as file:
        file.write('h')
    answers['sysrq'] = 'written' if os.stat('/proc/sysrq-trigger').st_rdev != os.stat('/dev/null').st_rdev else ''
except OSError:
    answers['sysrq'] = ''
print(json.dumps(answers))
""")
    assert {path: answer for path, answer in seen.items() if answer not in ("", "[]")} == {}


def test_28_no_kernel_address_is_shown(look):
    seen = look.python("""
import glob, json, re
found = []
for path in ['/proc/self/stack', '/proc/self/wchan', '/proc/self/syscall', '/proc/net/unix', '/proc/net/tcp', '/proc/net/netlink', '/proc/self/stat',
             '/proc/net/ptype', '/proc/net/packet', '/proc/locks', '/proc/misc', '/proc/devices', '/proc/crypto', '/proc/interrupts']:
    try:
        text = open(path).read()
    except OSError:
        continue
    found += [path for word in re.findall(r'\\bffff[0-9a-f]{12}\\b', text) if word != 'f' * 16]
print(json.dumps(found))
""")
    assert seen == []


@pytest.mark.parametrize(
    "path",
    ["kernel/core_pattern", "kernel/modprobe", "vm/overcommit_memory", "kernel/panic", "user/max_user_namespaces", "kernel/hostname",
     "net/ipv4/ip_forward", "net/ipv6/conf/all/disable_ipv6", "fs/binfmt_misc/register", "kernel/yama/ptrace_scope", "kernel/sysrq",
     "fs/mqueue/queues_max", "kernel/shmmax", "kernel/ns_last_pid"],
)  # fmt: skip
def test_29_sysctls_cannot_be_written(boxes, path):
    answer = boxes().probe("open", "write", f"/proc/sys/{path}")
    assert answer[f"/proc/sys/{path}"] in {"EROFS", "EACCES", "ENOENT", "EPERM"}


def test_29_no_sysctl_at_all_can_be_written(look):
    seen = look.python("""
import json, os
opened, tried = [], 0
for folder, _, names in os.walk('/proc/sys'):
    for name in names:
        tried += 1
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
            opened.append(name)
        except OSError:
            pass
print(json.dumps([opened, tried]))
""")
    assert seen[0] == [] and seen[1] > 100


def test_30_init_is_closed_to_user_code(look):
    assert differences(look.probe("pid1"), expected.PID1) == []
    assert look.box.shell("echo alive") == "alive\n"


def test_31_only_own_processes_and_sockets_are_visible(look):
    seen = look.python("""
import json, os
pids = sorted(int(n) for n in os.listdir('/proc') if n.isdigit())
lines = {}
for name in ('unix', 'tcp', 'udp', 'route', 'arp', 'dev', 'if_inet6', 'fib_trie'):
    try:
        lines[name] = open('/proc/net/' + name).read().splitlines()[1:]
    except OSError:
        lines[name] = []
print(json.dumps([pids, lines]))
""")
    pids, lines = seen
    assert pids[0] == 1 and len(pids) < 20 and max(pids) < 2000
    assert lines["route"] == lines["arp"] == lines["tcp"] == lines["udp"] == []
    assert [line.split(":")[0].strip() for line in lines["dev"] if ":" in line] == ["lo"]
    assert not any("/" in line.split()[-1] or "@" in line.split()[-1] for line in lines["unix"]), "no socket of the host by name"


def test_32_the_own_oom_score_cannot_go_below_zero(look):
    seen = look.python("""
import json
def write(value):
    try:
        with open('/proc/self/oom_score_adj', 'w') as file:
            file.write(value)
    except OSError as problem:
        return problem.strerror
    return int(open('/proc/self/oom_score_adj').read())
start = int(open('/proc/self/oom_score_adj').read())
print(json.dumps([start, write('-1000'), write('-1'), int(open('/proc/self/oom_score_adj').read())]))
""")
    start, lowest, below, now = seen
    assert start > 0, "user code goes before init when memory is short"
    assert lowest == below == "Permission denied" and now >= 0


def test_33_dev_has_exactly_the_documented_names(look):
    seen = look.python("import json, os; print(json.dumps([sorted(os.listdir('/dev')), sorted(os.listdir('/dev/pts')), os.listdir('/dev/shm')]))")
    names, terminals, shared = seen
    assert set(names) == expected.DEV_NAMES
    assert terminals == ["ptmx"] and shared == []


@pytest.mark.parametrize("name", ["mem", "kmsg", "fuse", "kvm", "net/tun", "loop-control", "loop0", "vhost-net", "vsock", "input/event0", "sda", "vda", "port", "hpet", "rtc0"])
def test_33_other_devices_do_not_exist(boxes, name):
    assert boxes().probe("open", "read", f"/dev/{name}") == {f"/dev/{name}": "ENOENT"}


def test_33_documented_nodes_work(boxes):
    said = boxes().kernel().said(
        "import os\n"
        "print(open('/dev/zero', 'rb').read(3) == bytes(3), len(os.urandom(8)), len(open('/dev/urandom', 'rb').read(8)), open('/dev/null').read() == '')\n"
        "try:\n    open('/dev/full', 'wb', 0).write(b'x')\nexcept OSError as e:\n    print(e.strerror)\n"
        "a, b = os.openpty(); print(os.isatty(a), os.ttyname(b))"
    )
    assert said == "True 8 8 True\nNo space left on device\nTrue /dev/pts/0\n"


def test_34_terminals_take_no_injected_bytes(look):
    assert differences(look.probe("ioctl"), expected.IOCTL) == []


def test_36_the_kernels_log_is_denied(look):
    assert look.probe("doors")["syslog"] == "EPERM"
    assert look.box.command("dmesg 2>&1")["exit_code"] != 0
    assert look.probe("open", "read", "/dev/kmsg")["/dev/kmsg"] == "ENOENT"


def test_37_a_crash_leaves_no_core_anywhere(look, tmp_path):
    def cores() -> set[str]:
        return {str(p) for folder in ("/", "/tmp", "/var/crash", "/var/lib/systemd/coredump", os.getcwd()) for p in Path(folder).glob("core*")}

    before = cores()
    look.box.with_probe()
    seen = look.python("""
import json, os, subprocess
answer = subprocess.run('cd /workspace && ulimit -c unlimited 2>/dev/null; ulimit -c 0; /tmp/probe/sandglass-probe crash; echo $?', shell=True, capture_output=True, text=True)
found = subprocess.run('find / -xdev -name "core*" -newer /tmp/probe/sandglass-probe -type f 2>/dev/null', shell=True, capture_output=True, text=True)
print(json.dumps([answer.stdout.split()[-1], found.stdout.split()]))
""")
    assert seen == ["139", []]
    assert cores() == before


def test_37_init_dumps_no_core_either(boxes):
    """Init is not dumpable: even a piped core handler of the host is never started for it."""
    import host

    box = boxes()
    box.shell("true")
    assert host.limits(host.process_of(box.id, 1))["Max core file size"] == ("0", "0")


def test_58_no_module_is_loaded_on_the_host_by_what_user_code_asks_for(boxes):
    def modules() -> set[str]:
        return {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()} if os.path.exists("/proc/modules") else set()

    before = modules()
    box = boxes()
    for what in ("sockets", "mount", "setsockopt", "netlink", "doors"):
        box.probe(what)
    box.command("printf '\\377\\377\\377\\377probe' > /tmp/odd && chmod +x /tmp/odd && /tmp/odd")
    assert modules() == before


def test_the_file_calls_do_not_show_inits_world(boxes):
    """Trap a4: the child that serves files is a fork of init; /proc/self there would be init's."""
    box = boxes()
    for path in ("/proc/self/maps", "/proc/self/status", "/proc/self/exe", "/proc/self/environ", "/proc/1/maps", "/proc/version", "/sys/kernel", "/proc"):
        answer = box.read(path)
        assert answer.status_code in (400, 403, 404), (path, answer.status_code, answer.content[:200])
        assert b"sandglass-init" not in answer.content
    for path in ("/proc", "/proc/self/fd", "/proc/1"):
        assert box.send("GET", "/fs/dir", params={"path": path}).status_code in (400, 403, 404)
    box.shell("ln -s /proc/self/maps /tmp/link && ln -s /proc /tmp/folder")
    assert box.read("/tmp/link").status_code in (400, 403, 404)
    assert box.read("/tmp/folder/self/maps").status_code in (400, 403, 404)
    assert box.read("/dev/fd/3").status_code in (400, 403, 404)
