"""Code of a hostile template: runs in its zygote as Python starts, before any of our code. See test_zygote.py.

Everything is by number, as native code would: nothing of Python's stands between.
"""
import ctypes, errno, os, signal, sys

libc = ctypes.CDLL(None, use_errno=True)
told = {}


def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    return result if result >= 0 else errno.errorcode.get(ctypes.get_errno(), "?")


def note(name, result):
    told[name] = result


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        return errno.errorcode[error.errno]


def attempts():
    none = ctypes.c_char_p(None)
    note("status", read("/proc/self/status"))
    note("mount", call(165, b"x", b"/tmp", b"tmpfs", 0, none))
    note("umount", call(166, b"/tmp", 2))
    note("pivot_root", call(155, b"/tmp", b"/tmp"))
    note("chroot", call(161, b"/tmp"))
    note("open_tree", call(428, -100, b"/", 1))
    note("fsopen", call(430, b"tmpfs", 0))
    note("mount_setattr", call(442, -100, b"/", 0, none, 0))
    note("unshare user", call(272, 0x10000000))
    note("unshare mount", call(272, 0x20000))
    note("clone user", call(56, 0x10000000 | 17, 0, 0, 0, 0))
    note("clone3", call(435, none, 0))
    note("setns of one", setns_of_one())
    note("ptrace", call(101, 16, os.getppid(), 0, 0))
    note("process_vm_readv", call(310, 1, none, 0, none, 0, 0))
    note("bpf", call(321, 0, none, 0))
    note("perf_event_open", call(298, none, 0, -1, -1, 0))
    note("userfaultfd", call(323, 0))
    note("io_uring_setup", call(425, 1, none))
    note("keyctl", call(250, 0, -3, 0))
    note("named keyring", call(250, 1, b"mine"))
    note("add_key", call(248, b"user", b"x", b"y", 1, -3))
    note("init_module", call(175, none, 0, b""))
    note("sethostname", call(170, b"x", 1))
    note("reboot", call(169, 0, 0, 0, 0))
    note("capset", capset())
    note("securebits", call(157, 28, 0))
    note("ambient", call(157, 47, 2, 21, 0, 0))
    note("setuid 0", call(105, 0))
    note("setresuid 1", call(117, 1, 1, 1))
    note("raw socket", call(41, 2, 3, 1))
    note("packet socket", call(41, 17, 3, 0))
    note("policy of the warden", call(144, 1, -1, none))
    note("parameters of the warden", call(142, 1, none))
    note("attributes of the warden", call(314, 1, none, 0))
    note("affinity of the warden", call(203, 1, 8, none))
    note("priority of the warden", call(141, 0, 1, 19))
    note("io priority of the warden", call(251, 1, 1, 0xFFFF))
    note("set-id exec", [n for n in ("su", "mount", "ping") if os.path.exists("/usr/bin/" + n) and os.stat("/usr/bin/" + n).st_mode & 0o6000])
    note("write core_pattern", write("/proc/sys/kernel/core_pattern"))
    note("write max_user_namespaces", write("/proc/sys/user/max_user_namespaces"))
    note("write image", write("/usr/bin/evil"))
    others()


def setns_of_one():
    try:
        fd = os.open("/proc/self/ns/uts", os.O_RDONLY)
    except OSError as error:
        return errno.errorcode[error.errno]
    result = call(308, fd, 0x4000000)
    os.close(fd)
    return result


def capset():
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0, 0, 0, 0)
    return call(126, header, sets)


def write(path):
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.close(fd)
        return "opened"
    except OSError as error:
        return errno.errorcode[error.errno]


JOIN = 0x10000000 | 0x20000000 | 0x20000 | 0x40000000 | 0x8000000 | 0x4000000 | 0x2000000


def others():
    """Everybody whom the pid namespace of the nursery holds."""
    seen = [int(n) for n in os.listdir("/proc") if n.isdigit()]
    mine = {os.getpid(), os.getppid()}  # itself, and whom it is a copy of
    note("seen in /proc", set(seen) == mine)
    signalled, joined, read_of = [], [], []
    for pid in range(1, 3000):
        if pid in mine:
            continue
        fd = call(434, pid, 0)  # pidfd_open
        if isinstance(fd, str):
            continue
        if call(62, pid, 0) == 0:
            signalled.append(pid)
        if call(62, pid, 9) == 0 and pid != 1:
            signalled.append(-pid)
        if not isinstance(call(308, fd, JOIN), str):
            joined.append(pid)
        for name in ("mem", "environ", "cmdline", "root", "fd", "status"):
            try:
                os.stat(f"/proc/{pid}/{name}")
                read_of.append((pid, name))
            except OSError:
                pass
        os.close(fd)
    note("signalled", signalled)
    note("joined", joined)
    note("read of others", read_of)


def in_a_copy():
    """What succeeds would change the process, so it is tried in another, with the same rights."""
    out, inp = os.pipe()
    if os.fork() == 0:
        try:
            attempts()
        except BaseException as error:
            told["broke"] = repr(error)
        os.write(inp, repr(told).encode())
        os._exit(0)
    os.close(inp)
    said = b""
    while piece := os.read(out, 65536):
        said += piece
    os.close(out)
    os.wait()
    told.update(eval(said))


in_a_copy()
