#!/usr/bin/env python3
"""Init's serve loop, from outside: commands, files, sweeps, malformed packets.

    serve_test.py PATH_OF_SERVE_BOX [-k WORD] [--measure N]

Needs root (serve_box makes namespaces). Each test has a sandbox of its own and leaves nothing behind.
"""

import os
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND, READ, WRITE, LIST, STAT, DELETE, SWEEP, TERMINAL, CONNECT, PORTS, FED_COMMAND = range(1, 12)
(OK, NOT_FOUND, IS_DIRECTORY, NOT_DIRECTORY, FORBIDDEN, SPECIAL, LOOP, BAD_PATH, NO_SPACE, ABORTED,
 BUSY, FAILED) = range(12)
CLOCK_STOPS, CLOCK_GOES_ON = 1, 2
UNKNOWN = 2**64 - 1
LIST_LIMIT = 100000
MORE = 1
REQUEST = struct.Struct("<HHIQII4096s")
COMMAND_ANSWER = struct.Struct("<iiII")
FILE_ANSWER = struct.Struct("<IiQqII")
ENTRY = struct.Struct("<QqIHBB")
STALL_MS = 1500
INIT, USER = 61999, 61000  # as in serve_box.c
BOX = None  # set by main


def receive_exactly(sock, size):
    data = b""
    while len(data) < size:
        part = sock.recv(min(size - len(data), 1 << 20))
        if not part:
            break
        data += part
    return data


def receive_all(sock):
    parts = []
    while part := sock.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


class FileAnswer:
    def __init__(self, data):
        (self.error, self.os_error, self.size, self.mtime, self.mode, self.flags) = (
            FILE_ANSWER.unpack(data))


class Command:
    """A command under way: its answer socket and what it prints."""

    def __init__(self, box, text, timeout_ms=20000, size=None, stdin=None):
        self.answer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        text = text if isinstance(text, bytes) else text.encode()
        memfd = os.memfd_create("text", os.MFD_ALLOW_SEALING)
        os.write(memfd, text)
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        size = len(text) if size is None else size
        fds = [theirs.fileno(), memfd, out, err]
        op, fds = (COMMAND, fds) if stdin is None else (FED_COMMAND, [*fds, stdin])
        box.send(op, fds, size=size, timeout_ms=timeout_ms)
        theirs.close()
        for fd in (memfd, out, err):
            os.close(fd)
        self.stdout = self.stderr = b""

    def clock(self, order):
        self.answer.send(struct.pack("<I", order))

    def wait(self, limit=30):
        """The answer, or None when the socket hangs up without. Reads the pipes meanwhile."""
        fds = {self.out: "stdout", self.err: "stderr"}
        until = time.monotonic() + limit
        answer = None
        while time.monotonic() < until:
            ready, _, _ = select.select([*fds, self.answer], [], [], 0.5)
            if self.answer in ready:
                data = self.answer.recv(100)
                if data:
                    answer = COMMAND_ANSWER.unpack(data)
                break
            for fd in ready:
                self.read(fds, fd)
        while ready := select.select(list(fds), [], [], 0.05)[0]:
            for fd in ready:
                self.read(fds, fd)
        self.close()
        if answer is None:
            return None
        self.status, self.start_error, self.timed_out, self.cpu_ms = answer
        return self

    def read(self, fds, fd):
        data = os.read(fd, 65536)
        setattr(self, fds[fd], getattr(self, fds[fd]) + data)
        if not data:
            del fds[fd]

    def close(self):
        self.answer.close()
        for fd in (self.out, self.err):
            os.close(fd)

    @property
    def exit(self):
        return os.waitstatus_to_exitcode(self.status)


class Box:
    def __init__(self, *cgroup_files):
        self.folder = tempfile.mkdtemp(prefix="serve-test-")
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.set_inheritable(theirs.fileno(), True)
        environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:abort_on_error=0")
        null = subprocess.DEVNULL
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BOX, self.folder, str(theirs.fileno()), str(STALL_MS), *cgroup_files], stdin=null,
            stdout=null, stderr=self.errors, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()

    def close(self):
        try:
            os.kill(self.pid(), signal.SIGKILL)  # and so all in it, before its parent returns
        except (IndexError, OSError):
            self.process.kill()
        self.process.wait()
        self.control.close()
        os.rmdir(self.folder)
        self.errors.seek(0)
        errors = self.errors.read().decode(errors="replace")
        self.errors.close()
        return errors

    def pid(self):
        """Init's pid as seen here."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return int(file.read().split()[0])

    def send(self, op, fds, size=0, timeout_ms=0, session=0, path="", version=1):
        path = path if isinstance(path, bytes) else path.encode()
        packet = REQUEST.pack(op, version, 7, size, timeout_ms, session, path)
        socket.send_fds(self.control, [packet], fds)

    def run(self, text, timeout_ms=20000, **more):
        return Command(self, text, timeout_ms, **more).wait()

    def ask(self, op, number=0, path=b""):
        """The answer socket of a request whose arguments are a number and a text."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(20)
        self.send(op, [theirs.fileno()], session=number, path=path)
        theirs.close()
        return ours

    def open(self, op, path, size=0):
        ours, theirs = socket.socketpair()
        ours.settimeout(20)
        self.send(op, [theirs.fileno()], size=size, path=path)
        theirs.close()
        return ours

    def call(self, op, path):
        with self.open(op, path) as sock:
            return FileAnswer(receive_all(sock))

    def stat(self, path):
        return self.call(STAT, path)

    def delete(self, path):
        return self.call(DELETE, path)

    def read(self, path):
        with self.open(READ, path) as sock:
            answer = FileAnswer(receive_exactly(sock, FILE_ANSWER.size))
            answer.content = receive_all(sock)
            return answer

    def write(self, path, content, size=None):
        with self.open(WRITE, path, len(content) if size is None else size) as sock:
            try:
                sock.sendall(content)
                sock.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused meanwhile; the answer says why
            return FileAnswer(receive_exactly(sock, FILE_ANSWER.size))

    def list(self, path):
        with self.open(LIST, path) as sock:
            answer = FileAnswer(receive_exactly(sock, FILE_ANSWER.size))
            rest = receive_all(sock)
        answer.entries = {}
        at = answer.more = 0
        while at < len(rest):
            size, mtime, mode, name_size, is_directory, flags = ENTRY.unpack_from(rest, at)
            at += ENTRY.size
            answer.entries[rest[at:at + name_size]] = (size, mode, is_directory)
            at += name_size
            answer.more |= flags & MORE
        return answer

    def processes(self):
        """Command lines of the user's processes inside, seen from inside."""
        found = self.run("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
        return found.stdout.decode()


class Case(unittest.TestCase):
    def setUp(self):
        self.box = Box()
        self.addCleanup(self.close)

    def close(self):
        self.assertEqual(self.box.close(), "")

    def assert_alone(self):
        """Only init and the two processes of this very question are there."""
        found = self.box.run("set -- /proc/[0-9]*; echo $#")
        self.assertEqual(found.stdout, b"3\n", self.box.processes())

    def wait_for(self, question, limit=10):
        until = time.monotonic() + limit
        while not question():
            self.assertLess(time.monotonic(), until, "waited for too long")
            time.sleep(0.02)


class Commands(Case):
    def test_exit_codes_and_both_streams(self):
        for text, code in (("true", 0), ("exit 3", 3), ("nosuchprogram", 127), ("", 0),
                           ("/etc/passwd", 126), ("kill -9 $$", -9), ("kill -TERM $$", -15)):
            done = self.box.run(text)
            self.assertEqual((done.exit, done.start_error, done.timed_out), (code, 0, 0), text)
        done = self.box.run("echo out; echo err >&2; printf 'no newline'")
        self.assertEqual((done.stdout, done.stderr), (b"out\nno newline", b"err\n"))

    def test_runs_as_the_user_with_nothing_inherited(self):
        done = self.box.run("id -u; id -g; pwd; umask; ls /proc/self/fd | wc -l; cat | wc -c;"
                            "grep -E '^(Cap(Prm|Eff)|SigBlk|SigIgn|NoNewPrivs)' /proc/self/status;"
                            "echo $0; ps -o sid= -p $$ | tr -d ' '; echo $$")
        lines = done.stdout.decode().split("\n")
        self.assertEqual(lines[:6], [str(USER), str(USER), "/workspace", "0022", "4", "0"], lines)
        zero = "0" * 16
        self.assertEqual([line.split()[1] for line in lines[6:11]], [zero] * 4 + ["1"])
        self.assertEqual(lines[11], "/bin/sh")
        self.assertEqual(lines[12], lines[13])

    def test_a_fed_command_reads_its_pipe_to_the_end_and_keeps_no_other(self):
        reading, writing = os.pipe()
        command = Command(self.box, "cat; ls /proc/self/fd | wc -l", stdin=reading)
        os.close(reading)
        os.write(writing, b"first, ")
        os.write(writing, b"second\n")
        os.close(writing)
        self.assertEqual(command.wait().stdout, b"first, second\n4\n")

    def test_environment_is_exact(self):
        done = self.box.run("env")
        names = {line.split("=")[0] for line in done.stdout.decode().splitlines()}
        self.assertEqual(names, {
            "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TERM", "PAGER", "GIT_PAGER",
            "MANPAGER", "SYSTEMD_PAGER", "LESS", "EDITOR", "VISUAL", "GIT_EDITOR",
            "GIT_TERMINAL_PROMPT", "PYTHONUNBUFFERED", "PIP_NO_INPUT", "PIP_RETRIES",
            "PIP_DISABLE_PIP_VERSION_CHECK",
            "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
            "PYTHONUNBUFFERED", "PWD"})
        self.assertIn(b"HOME=/home/user\n", done.stdout)

    def test_long_texts(self):
        for size in (120000, 131071, 131072, 1000000, 1048576):
            head = "echo $0 $#; ls /proc/self/fd | wc -l; cat | wc -c; echo $(("
            text = head + "1+" * ((size - len(head) - 40) // 2) + "0)); exit 5 #"
            text += "x" * (size - len(text))
            done = self.box.run(text)
            ones = text.count("1+")
            self.assertEqual(done.exit, 5, (size, done.stderr[:200]))
            self.assertEqual(done.stdout.decode().split(), ["/bin/sh", "0", "4", "0", str(ones)])

    def test_texts_that_are_refused(self):
        self.assertEqual(self.box.run(b"echo a\0b").start_error, 22)
        self.assertEqual(self.box.run("x" * 1048577).start_error, 7)
        self.assertEqual(self.box.run("true", size=5).start_error, 22)
        self.assert_alone()

    def test_limit_ends_all_of_it(self):
        begin = time.monotonic()
        done = self.box.run("echo early; sleep 301 & setsid sleep 302 & wait", timeout_ms=300)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual((done.timed_out, done.exit, done.stdout), (1, -15, b"early\n"))
        self.assert_alone()

    def test_limit_ends_what_ignores_signals_and_hides(self):
        hide = ("import os,signal,time\n"
                "for n in (1,2,15): signal.signal(n, signal.SIG_IGN)\n"
                "for i in range(6):\n"
                "  if os.fork(): time.sleep(300)\n"
                "  os.setsid()\n"
                "  if os.fork(): os._exit(0)\n"
                "time.sleep(300)\n")
        done = self.box.run(f"trap '' TERM; python3 -c '{hide}' & python3 -c '{hide}'; true", 700)
        self.assertEqual((done.timed_out, done.exit), (1, -9))
        self.assert_alone()

    def test_limit_meets_a_process_whose_first_thread_ended(self):
        code = ("import ctypes,threading,time\n"
                "threading.Thread(target=lambda: time.sleep(300)).start()\n"
                "ctypes.CDLL(None).syscall(60, 0)\n")
        done = self.box.run(f"python3 -c '{code}' & sleep 300", timeout_ms=700)
        self.assertEqual(done.timed_out, 1)
        self.assert_alone()

    def test_limit_meets_stopped_processes(self):
        done = self.box.run("sleep 300 & kill -STOP $!; kill -STOP $$", timeout_ms=300)
        self.assertEqual((done.timed_out, done.exit), (1, -9))
        self.assert_alone()

    def test_fork_bombs_end(self):
        bombs = ("bomb() { bomb | bomb & }; bomb; sleep 300",
                 "python3 -c 'import os\nwhile 1:\n try: os.fork(); os.setsid()\n except OSError: 0'")
        for bomb in bombs:
            begin = time.monotonic()
            done = self.box.run(bomb, timeout_ms=600)
            self.assertEqual(done.timed_out, 1)
            self.assertLess(time.monotonic() - begin, 8)
            self.assert_alone()

    def test_an_accomplice_outside_of_the_tree_does_not_help(self):
        accomplice = Command(self.box, "while :; do kill -CONT -1; done 2>/dev/null")
        bomb = "python3 -c 'import os\nwhile 1:\n try: os.fork(); os.setsid()\n except OSError: 0'"
        begin = time.monotonic()
        done = self.box.run(bomb, timeout_ms=300)
        self.assertEqual(done.timed_out, 1)
        self.assertLess(time.monotonic() - begin, 12)
        accomplice.close()
        self.wait_for(lambda: self.box.run("set -- /proc/[0-9]*; echo $#").stdout == b"3\n")

    def test_grace_lets_a_program_clean_up(self):
        done = self.box.run("trap 'echo cleaned; exit 4' TERM; sleep 300 & wait", timeout_ms=200)
        self.assertEqual((done.timed_out, done.exit, done.stdout), (1, 4, b"cleaned\n"))

    def test_hang_up_ends_all_of_it(self):
        command = Command(self.box, "sleep 303 & setsid sleep 304 & sleep 305")
        self.wait_for(lambda: "sleep 304" in self.box.processes())
        command.close()
        self.wait_for(lambda: "sleep 30" not in self.box.processes().replace("sleep 30]", ""))
        self.assert_alone()

    def test_the_clock_stops_and_goes_on_as_told(self):
        command = Command(self.box, "sleep 1; echo whole", timeout_ms=700)
        command.clock(CLOCK_STOPS)
        command.clock(CLOCK_STOPS)  # the same again changes nothing
        done = command.wait()
        self.assertEqual((done.timed_out, done.exit, done.stdout), (0, 0, b"whole\n"))

    def test_what_was_left_of_the_limit_is_still_a_limit(self):
        command = Command(self.box, "sleep 308", timeout_ms=700)
        command.clock(CLOCK_STOPS)
        time.sleep(1)
        command.clock(CLOCK_GOES_ON)
        begin = time.monotonic()
        done = command.wait()
        self.assertEqual(done.timed_out, 1)
        self.assertLess(time.monotonic() - begin, 5)
        self.assert_alone()

    def test_what_is_no_order_ends_the_command(self):
        for order in (b"", b"x", struct.pack("<I", 7), struct.pack("<II", 1, 1)):
            command = Command(self.box, "sleep 309")
            command.answer.send(order)
            done = command.wait()
            self.assertEqual(done.timed_out, 0)
            self.assertIn(done.exit, (-signal.SIGTERM, -signal.SIGKILL))
        self.assert_alone()

    def test_background_lives_on_and_the_answer_is_prompt(self):
        begin = time.monotonic()
        done = self.box.run("sleep 306 & (setsid sleep 307 &) ; echo done")
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual((done.exit, done.stdout), (0, b"done\n"))
        found = self.box.processes()
        self.assertIn("sleep 306", found)
        self.assertIn("sleep 307", found)
        self.assertEqual(self.box.run("pkill sleep").exit, 0)
        self.wait_for(lambda: self.box.run("set -- /proc/[0-9]*; echo $#").stdout == b"3\n")

    def test_orphans_are_reaped(self):
        self.box.run("for i in 1 2 3 4 5 6 7 8 9; do (setsid sh -c 'sleep 0.1' &); done")
        time.sleep(0.3)
        self.assertNotIn(b"Z", self.box.run("ps -e -o stat=").stdout)

    def test_user_code_can_touch_neither_init_nor_supervisor(self):
        done = self.box.run("kill -9 1; kill -9 $PPID; kill -STOP $PPID; cat /proc/$PPID/environ;"
                            "ls /proc/$PPID/fd; ls /proc/1/root; kill -9 -1; echo alive")
        self.assertEqual(done.exit, -9 if done.stdout == b"" else 0)
        self.assertEqual(done.timed_out, 0)
        self.assertEqual(self.box.run("echo yes").stdout, b"yes\n")

    def test_cpu_time_is_told(self):
        done = self.box.run("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
        self.assertGreater(done.cpu_ms, 20)
        self.assertLess(self.box.run("sleep 0.2").cpu_ms, 100)

    def test_many_at_once(self):
        commands = [Command(self.box, f"sleep 0.2; echo {i}") for i in range(40)]
        for i, command in enumerate(commands):
            self.assertEqual(command.wait().stdout, f"{i}\n".encode())

    def test_too_many_are_refused_at_once(self):
        slow = [Command(self.box, "exec sleep 60") for _ in range(128)]
        self.assertEqual(self.box.run("true").start_error, 11)
        for command in slow:
            command.close()
        self.wait_for(lambda: self.box.run("true").start_error == 0)
        self.wait_for(lambda: self.box.run("set -- /proc/[0-9]*; echo $#").stdout == b"3\n")

    def test_sweep_ends_a_session_only(self):
        self.box.run("setsid sh -c 'echo $$ > /tmp/session; sleep 308 & sleep 309 & wait' &"
                     "sleep 310 & while ! [ -s /tmp/session ]; do :; done")
        session = int(self.box.read("/tmp/session").content)
        self.wait_for(lambda: "sleep 309" in self.box.processes())
        for spared in (0, 1, 2**31 + 5):
            self.box.send(SWEEP, [], session=spared)
        self.box.send(SWEEP, [], session=session)
        self.wait_for(lambda: "sleep 309" not in self.box.processes())
        found = self.box.processes()
        self.assertNotIn("sleep 308", found)
        self.assertIn("sleep 310", found)


class WorkGroup(unittest.TestCase):
    ROOT = "/sys/fs/cgroup/pids"

    def test_commands_enter_the_work_group(self):
        if os.stat(self.ROOT).st_uid or not os.path.exists(f"{self.ROOT}/cgroup.procs"):
            self.skipTest("no pids controller of cgroup v1")
        name = f"{self.ROOT}/serve-test-{os.getpid()}"
        os.mkdir(name)
        self.addCleanup(os.rmdir, name)
        os.chown(f"{name}/cgroup.procs", INIT, INIT)
        box = Box(f"{name}/cgroup.procs")
        try:
            done = box.run("grep pids: /proc/self/cgroup")
            self.assertIn(f"/serve-test-{os.getpid()}\n".encode(), done.stdout)
            self.assertEqual(open(f"{name}/cgroup.procs").read(), "")
        finally:
            self.assertEqual(box.close(), "")


def receive_gift(answer):
    """errno and the descriptor, of a handover."""
    data, fds, _, _ = socket.recv_fds(answer, 100, 4)
    os_error, unused = struct.unpack("<iI", data)
    assert unused == 0 and len(fds) == (os_error == 0), (data, fds)
    return os_error, fds[0] if fds else -1


class Terminals(Case):
    def open(self, rows=24, columns=80, command=b""):
        answer = self.box.ask(TERMINAL, rows | columns << 16, command)
        os_error, master = receive_gift(answer)
        self.assertEqual(os_error, 0)
        self.addCleanup(answer.close)
        return answer, master

    def read_until(self, master, wanted):
        shown = b""
        while wanted not in shown:
            self.assertTrue(select.select([master], [], [], 20)[0], shown)
            shown += os.read(master, 4096)
        return shown

    def read_to_the_end(self, master):
        shown = b""
        try:
            while select.select([master], [], [], 20)[0]:
                shown += os.read(master, 4096)
        except OSError as error:
            self.assertEqual(error.errno, 5)  # nobody holds the other end
        return shown

    def test_a_shell_on_a_terminal_of_the_users_own(self):
        answer, master = self.open(rows=33, columns=101)
        os.write(master, b"stty size; stat -c %u:%a $(tty); env; exit 3\n")
        shown = self.read_to_the_end(master)
        self.assertEqual(os.waitstatus_to_exitcode(COMMAND_ANSWER.unpack(answer.recv(100))[0]), 3)
        self.assertIn(b"33 101", shown)
        self.assertIn(f"{USER}:6".encode(), shown)
        self.assertIn(b"TERM=xterm-256color", shown)
        self.assertNotIn(b"PAGER=", shown)
        os.close(master)

    def test_a_command_in_place_of_the_shell(self):
        answer, master = self.open(rows=33, columns=101, command=b"stty size; echo $TERM; exit 3")
        self.assertEqual(self.read_to_the_end(master), b"33 101\r\nxterm-256color\r\n")
        self.assertEqual(os.waitstatus_to_exitcode(COMMAND_ANSWER.unpack(answer.recv(100))[0]), 3)
        os.close(master)

    def test_the_shell_holds_no_descriptor_but_its_terminal(self):
        answer, master = self.open()
        os.write(master, b"ls -l /proc/$$/fd; exit\n")
        shown = self.read_to_the_end(master)
        self.assertEqual(shown.count(b"-> /dev/pts/"), 4)  # bash's own copy is 255
        self.assertNotIn(b"socket:", shown)
        self.assertNotIn(b"ptmx", shown)
        os.close(master)

    def test_a_hang_up_ends_all_of_it(self):
        answer, master = self.open()
        os.write(master, b"trap '' HUP TERM; setsid sleep 4321 & echo rea''dy\n")
        self.read_until(master, b"ready")
        os.close(master)
        answer.close()
        until = time.monotonic() + 10
        while b"4321" in self.box.run("cat /proc/[0-9]*/cmdline").stdout.replace(b"cat", b""):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)


class Ports(Case):
    LISTEN = ("python3 -c 'import socket,time; s=socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen();"
              "print(s.getsockname()[1], flush=True); c=s.accept()[0]; c.sendall(b\"hello \"+c.recv(9)); time.sleep(9)'")

    def setUp(self):
        super().setUp()
        self.command = Command(self.box, self.LISTEN)
        self.port = int(os.read(self.command.out, 20))
        self.addCleanup(self.command.close)

    def test_what_listens_is_listed(self):
        error, count = struct.unpack("<II", (data := self.box.ask(PORTS).recv(4096))[:8])
        ports = struct.unpack("<1024H", data[8:])
        self.assertEqual(error, OK)
        self.assertIn(self.port, ports[:count])  # this box has the host's network
        self.assertEqual(sorted(set(ports[:count])), list(ports[:count]))

    def test_a_connection_is_handed_out(self):
        os_error, fd = receive_gift(self.box.ask(CONNECT, self.port))
        self.assertEqual(os_error, 0)
        with socket.socket(fileno=fd) as inside:
            self.assertFalse(os.get_blocking(fd))
            inside.settimeout(20)
            inside.sendall(b"there")
            self.assertEqual(inside.recv(20), b"hello there")

    def test_nothing_listens_is_said(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            os_error, fd = receive_gift(self.box.ask(CONNECT, free.getsockname()[1]))
            self.assertEqual(os_error, 0)  # not known yet
        with socket.socket(fileno=fd) as refused:
            select.select([], [refused], [], 20)
            self.assertEqual(refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 111)
        for number in (0, 65536, 2**32 - 1):
            self.assertEqual(receive_gift(self.box.ask(CONNECT, number)), (22, -1))


class Packets(Case):
    def test_malformed_ones_are_dropped_with_their_descriptors(self):
        count = lambda: len(os.listdir(f"/proc/{self.box.pid()}/fd"))
        self.box.run("true")
        before = count()
        ours, theirs = socket.socketpair()
        fd = theirs.fileno()
        good = REQUEST.pack(STAT, 1, 0, 0, 0, 0, b"/")
        for packet, fds in (
                (good[:-1], [fd]), (good + b"x", [fd]), (good[:4], [fd]), (b"x" * 9000, [fd]),
                (good, []), (good, [fd] * 2), (good, [fd] * 8), (good, [fd] * 9),
                (REQUEST.pack(STAT, 2, 0, 0, 0, 0, b"/"), [fd]),
                (REQUEST.pack(0, 1, 0, 0, 0, 0, b"/"), [fd]),
                (REQUEST.pack(FED_COMMAND + 1, 1, 0, 0, 0, 0, b"/"), [fd]),
                (REQUEST.pack(CONNECT, 1, 0, 0, 0, 80, b""), []),
                (REQUEST.pack(TERMINAL, 1, 0, 0, 0, 0, b""), [fd] * 4),
                (REQUEST.pack(65535, 1, 0, 0, 0, 0, b"/"), [fd]),
                (REQUEST.pack(COMMAND, 1, 0, 0, 0, 0, b"/"), [fd]),
                (REQUEST.pack(SWEEP, 1, 0, 0, 0, 5, b"/"), [fd])):
            socket.send_fds(self.box.control, [packet], fds)
        self.box.control.send(b"")
        self.assertEqual(self.box.run("echo yes").stdout, b"yes\n")
        theirs.close()
        self.assertEqual(ours.recv(1), b"")  # all copies are closed, and nothing was answered
        ours.close()
        self.assertEqual(count(), before)

    def test_end_of_control_is_not_the_end(self):
        self.box.run("(sleep 1; touch /workspace/later) &")
        self.box.control.shutdown(socket.SHUT_RDWR)
        time.sleep(1.2)
        with open(f"/proc/{self.box.pid()}/stat") as file:
            self.assertIn(file.read().rpartition(")")[2].split()[0], "S")
        self.assertIsNone(self.box.process.poll())


class Files(Case):
    def make(self, text):
        done = self.box.run("cd /workspace; " + text)
        self.assertEqual(done.exit, 0, done.stderr)

    def assert_no_leftovers(self):
        found = self.box.run("find / -xdev -name '.sandglass-*'")
        self.assertEqual(found.stdout, b"")

    def test_write_then_read_then_stat(self):
        content = os.urandom(3_000_001)
        answer = self.box.write("/workspace/a/b/c.bin", content)
        self.assertEqual((answer.error, answer.size), (OK, len(content)))
        answer = self.box.read("/workspace/a/b/c.bin")
        self.assertEqual((answer.error, answer.size, answer.content), (OK, len(content), content))
        answer = self.box.stat("/workspace/a/b/c.bin")
        self.assertEqual((answer.error, answer.mode), (OK, stat.S_IFREG | 0o644))
        self.assertAlmostEqual(answer.mtime, time.time(), delta=60)
        done = self.box.run("stat -c '%u %g %a' a a/b a/b/c.bin; cat a/b/c.bin | md5sum | wc -l")
        self.assertEqual(done.stdout, f"{USER} {USER} 755\n{USER} {USER} 755\n{USER} {USER} 644\n1\n".encode())
        self.assert_no_leftovers()

    def test_empty_file_and_unknown_size(self):
        self.assertEqual(self.box.write("/workspace/empty", b"").error, OK)
        self.assertEqual(self.box.read("/workspace/empty").content, b"")
        answer = self.box.write("/workspace/open", b"y" * 70000, size=UNKNOWN)
        self.assertEqual((answer.error, answer.size), (OK, 70000))
        self.assertEqual(self.box.stat("/workspace/open").size, 70000)

    def test_paths(self):
        self.make("mkdir d; echo x > d/f; ln -s d l; ln -s loop2 loop1; ln -s loop1 loop2")
        for path, error in (
                ("workspace/d/f", BAD_PATH), ("", BAD_PATH), ("/" + "n" * 256, BAD_PATH),
                (b"/" + b"x" * 4095, BAD_PATH),
                ("/workspace/../workspace/./d//f", OK), ("/workspace/l/f", OK),
                ("/../../../workspace/d/f", OK), ("/workspace/none", NOT_FOUND),
                ("/workspace/d/f/x", NOT_DIRECTORY), ("/workspace/d/f/", NOT_DIRECTORY),
                ("/workspace/loop1", LOOP), ("/workspace/loop1/x", LOOP),
                ("/root_only/x", FORBIDDEN), ("/etc/shadow", FORBIDDEN),
                ("/workspace/d", IS_DIRECTORY), ("/", IS_DIRECTORY), ("/dev/null", SPECIAL)):
            self.assertEqual(self.box.read(path).error, error, path)

    def test_proc_and_sys_are_refused(self):
        self.make("ln -s /proc/self/maps maps; ln -s /proc/self/fd fd")
        for path in ("/proc/self/maps", "/proc/version", "/proc", "/sys/kernel/notes", "/proc/self/fd",
                     "/proc/self/fd/0", "/proc/self/root/etc/passwd", "/proc/self/exe",
                     "/proc/1/status", "/workspace/maps", "/workspace/fd/3", "/dev/fd/0", "/dev/ptmx"):
            self.assertIn(self.box.read(path).error, (SPECIAL, FORBIDDEN, NOT_FOUND), path)
            self.assertIn(self.box.list(path).error,
                          (SPECIAL, FORBIDDEN, NOT_FOUND, NOT_DIRECTORY), path)
            self.assertNotEqual(self.box.write(path, b"x").error, OK, path)
        for path in ("/proc/self/maps", "/proc/self/exe", "/workspace/maps"):
            self.assertEqual(self.box.stat(path).error, SPECIAL, path)
        self.assertEqual(self.box.read("/proc/../etc/hostname").error, OK)

    def test_special_files_take_no_time(self):
        self.make("mkfifo p; python3 -c 'import socket; socket.socket(1).bind(\"s\")'; ln -s p lp")
        begin = time.monotonic()
        for path in ("p", "s", "lp", "../dev/tty", "../dev/random"):
            path = "/workspace/" + path
            self.assertEqual(self.box.read(path).error, SPECIAL, path)
            self.assertEqual(self.box.write(path, b"x").error, SPECIAL, path)
            self.assertEqual(self.box.list(path).error, SPECIAL, path)
        self.assertEqual(self.box.stat("/workspace/p").mode & 0o170000, stat.S_IFIFO)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(self.box.delete("/workspace/p").error, OK)

    def test_size_is_a_promise(self):
        self.make("head -c 30000000 /dev/zero > f")
        with self.box.open(READ, "/workspace/f") as sock:
            size = FileAnswer(receive_exactly(sock, FILE_ANSWER.size)).size
            self.box.run("head -c 40000000 /dev/zero > f2; cat f2 >> f")
            self.assertEqual(len(receive_all(sock)), size)
        with self.box.open(READ, "/workspace/f") as sock:
            receive_exactly(sock, FILE_ANSWER.size)
            self.box.run("truncate -s 100 f")
            self.assertLess(len(receive_all(sock)), 70000000)

    def test_write_follows_links_to_the_end(self):
        self.make("echo old > t; ln -s t l1; ln -s /workspace/l1 l2; ln -s ../tmp/new/x dangling;"
                  "mkdir d; ln -s d dl; ln -s loop2 loop1; ln -s loop1 loop2")
        self.assertEqual(self.box.write("/workspace/l2", b"through").error, OK)
        self.assertEqual(self.box.read("/workspace/t").content, b"through")
        self.assertEqual(self.box.write("/workspace/dangling", b"made").error, OK)
        self.assertEqual(self.box.read("/tmp/new/x").content, b"made")
        self.assertEqual(self.box.write("/workspace/dl/y", b"in").error, OK)
        self.assertEqual(self.box.read("/workspace/d/y").content, b"in")
        self.assertEqual(self.box.write("/workspace/loop1", b"").error, LOOP)
        self.assertEqual(self.box.write("/workspace/loop1/x", b"").error, LOOP)
        self.assertEqual(self.box.run("readlink l2 dangling dl").stdout.count(b"\n"), 3)

    def test_write_refusals_change_nothing(self):
        self.make("mkdir d d555; touch keep d555/f; chmod 555 d555; echo ro > ro; chmod 444 ro")
        for path, error in (
                ("/workspace/d", IS_DIRECTORY), ("/workspace/d/", IS_DIRECTORY), ("/", IS_DIRECTORY),
                ("/workspace/new/", IS_DIRECTORY), ("/workspace/.", IS_DIRECTORY),
                ("/workspace/keep/x", NOT_DIRECTORY), ("/workspace/ro", FORBIDDEN),
                ("/workspace/d555/f", FORBIDDEN), ("/workspace/d555/a/b", FORBIDDEN),
                ("/image/file", FORBIDDEN), ("/image/new/file", FORBIDDEN), ("/etc/x", FORBIDDEN),
                ("/root_only/x", FORBIDDEN), ("/workspace/" + "n" * 256, BAD_PATH)):
            self.assertEqual(self.box.write(path, b"x").error, error, path)
        self.assertEqual(self.box.run("ls -A; ls -A d555").stdout, b"d\nd555\nkeep\nmounted\nro\nf\n")

    def test_mode_is_kept(self):
        self.make("echo old > f; chmod 4751 f; echo 'sleep 60' > s; cp /bin/sleep run; ./run 60 &")
        self.assertEqual(self.box.write("/workspace/f", b"new").error, OK)
        self.assertEqual(self.box.stat("/workspace/f").mode & 0o7777, 0o751)
        self.assertEqual(self.box.write("/workspace/run", b"busy").error, OK)
        self.assertEqual(self.box.stat("/workspace/run").mode & 0o7777, 0o755)

    def abort(self, path, sent, size, shut=False):
        sock = self.box.open(WRITE, path, size)
        sock.sendall(sent)
        if shut:
            sock.shutdown(socket.SHUT_WR)
            answer = FileAnswer(receive_exactly(sock, FILE_ANSWER.size))
            self.assertEqual(answer.error, ABORTED)
        sock.close()

    def test_what_is_not_committed_did_not_happen(self):
        self.make("echo old > f")
        for path in ("/workspace/f", "/workspace/n1/n2/n3/f"):
            for sent, size, shut in (
                    (b"half", UNKNOWN, False), (b"half", 100, False), (b"all of it", 9, False),
                    (b"half", 100, True), (b"more than said", 4, True)):
                self.abort(path, sent, size, shut)
                self.wait_for(lambda: self.box.run("ls -A").stdout == b"f\nmounted\n")
        self.assertEqual(self.box.read("/workspace/f").content, b"old\n")

    def test_a_stalled_writer_and_reader_are_given_up(self):
        self.make("head -c 30000000 /dev/zero > big")
        writer = self.box.open(WRITE, "/workspace/x/y", 100)
        writer.sendall(b"half")
        reader = self.box.open(READ, "/workspace/big")
        self.assertEqual(FileAnswer(receive_exactly(writer, FILE_ANSWER.size)).error, ABORTED)
        self.wait_for(lambda: self.box.run("set -- /proc/[0-9]*; echo $#").stdout == b"3\n")
        self.assertLess(len(receive_all(reader)), 30000000)
        writer.close()
        reader.close()
        self.assertEqual(self.box.stat("/workspace/x").error, NOT_FOUND)
        self.assert_alone()

    def test_no_space(self):
        self.make("head -c 60000000 /dev/zero > fill")
        begin = time.monotonic()
        self.assertEqual(self.box.write("/workspace/d/early", b"x", size=50_000_000).error, NO_SPACE)
        self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual(self.box.write("/workspace/d/f", bytes(60_000_000), UNKNOWN).error, NO_SPACE)
        self.assertEqual(self.box.run("ls -A").stdout, b"fill\nmounted\n")
        self.assertEqual(self.box.write("/workspace/small", b"fits").error, OK)

    def test_list(self):
        self.make("mkdir d; echo 12345 > f; ln -s d ld; ln -s f lf; ln -s none dangling; mkfifo p;"
                  "touch \"$(printf 'odd\\n\\377\\001 name')\"; rmdir mounted 2>/dev/null; true")
        answer = self.box.list("/workspace")
        self.assertEqual((answer.error, answer.more), (OK, 0))
        kinds = {name: (stat.S_IFMT(mode), is_directory)
                 for name, (size, mode, is_directory) in answer.entries.items()}
        self.assertEqual(kinds, {
            b"d": (stat.S_IFDIR, 1), b"f": (stat.S_IFREG, 0), b"ld": (stat.S_IFLNK, 1),
            b"lf": (stat.S_IFLNK, 0), b"dangling": (stat.S_IFLNK, 0), b"p": (stat.S_IFIFO, 0),
            b"odd\n\xff\x01 name": (stat.S_IFREG, 0), b"mounted": (stat.S_IFDIR, 1)})
        self.assertEqual(answer.entries[b"f"][0], 6)
        self.assertEqual(self.box.list("/workspace/f").error, NOT_DIRECTORY)
        self.assertEqual(self.box.list("/workspace/none").error, NOT_FOUND)
        self.assertEqual(self.box.list("/root_only").error, FORBIDDEN)
        self.assertEqual(self.box.list("/workspace/d").entries, {})
        self.make("mkdir r; touch r/x; chmod 444 r")
        self.assertEqual(self.box.list("/workspace/r").entries, {b"x": (0, stat.S_IFREG, 0)})

    def test_odd_names_everywhere(self):
        for name in (b"\xff\xfe", b"a\nb", b" ", b"-rf", "ünï".encode(), b"n" * 255):
            path = b"/workspace/" + name
            self.assertEqual(self.box.write(path, name).error, OK, name)
            self.assertEqual(self.box.read(path).content, name)
            self.assertIn(name, self.box.list("/workspace").entries)
            self.assertEqual(self.box.delete(path).error, OK)

    def test_list_of_a_huge_folder_is_cut_and_says_so(self):
        self.make("mkdir h; cd h; python3 -c 'for i in range(100001): open(str(i), \"w\").close()'")
        answer = self.box.list("/workspace/h")
        self.assertEqual((len(answer.entries), answer.more), (LIST_LIMIT, 1))
        self.make("rm h/0")
        answer = self.box.list("/workspace/h")
        self.assertEqual((len(answer.entries), answer.more), (LIST_LIMIT, 0))
        self.assertEqual(self.box.delete("/workspace/h").error, OK)

    def test_delete(self):
        self.make("mkdir -p t/a/b t/e; echo x > t/a/f; ln -s ../keep t/a/l; mkdir keep; echo k > keep/k;"
                  "ln -s keep lk; chmod 000 t/e; ln -s keep slash")
        self.assertEqual(self.box.delete("/workspace/t").error, OK)
        self.assertEqual(self.box.delete("/workspace/lk").error, OK)
        self.assertEqual(self.box.delete("/workspace/slash/").error, OK)
        self.assertEqual(self.box.read("/workspace/keep/k").content, b"k\n")
        self.assertEqual(self.box.run("ls -A").stdout, b"keep\nmounted\n")
        for path, error in (
                ("/", FORBIDDEN), ("//", FORBIDDEN), ("/workspace/..", FORBIDDEN),
                ("/workspace/.", FORBIDDEN), ("/workspace/none", NOT_FOUND), ("x", BAD_PATH),
                ("/workspace/keep/k/x", NOT_DIRECTORY), ("/etc/passwd", FORBIDDEN),
                ("/usr", FORBIDDEN), ("/image/file", FORBIDDEN), ("/image", FORBIDDEN),
                ("/home/user", FORBIDDEN), ("/proc/self/maps", SPECIAL), ("/root_only/x", FORBIDDEN)):
            self.assertEqual(self.box.delete(path).error, error, path)

    def test_delete_stays_out_of_mounts(self):
        self.make("echo in > mounted/in; mkdir mounted/d")
        self.assertEqual(self.box.delete("/workspace/mounted").error, FORBIDDEN)
        self.assertEqual(self.box.delete("/workspace").error, FORBIDDEN)
        self.assertEqual(self.box.read("/workspace/mounted/in").content, b"in\n")

    def test_delete_of_a_very_deep_tree(self):
        self.make("python3 -c 'import os\n"
                  "for i in range(4000):\n"
                  " os.mkdir(\"n\" * 200); open(\"f\", \"w\").close(); os.chdir(\"n\" * 200)'")
        self.assertEqual(self.box.delete("/workspace/" + "n" * 200).error, OK)
        self.assertEqual(self.box.run("ls -A").stdout, b"f\nmounted\n")

    def test_delete_of_a_wide_tree(self):
        self.make("python3 -c 'import os\nfor i in range(3000): os.makedirs(f\"w/{i}/{i}\")'")
        begin = time.monotonic()
        self.assertEqual(self.box.delete("/workspace/w").error, OK)
        self.assertLess(time.monotonic() - begin, 5)

    def test_a_tree_that_moves_while_it_is_deleted(self):
        self.make("mkdir -p stay/in; touch stay/in/file")
        mover = Command(self.box, "cd /workspace; python3 -c 'import os\n"
                        "while 1:\n"
                        " try: os.makedirs(\"t/a/b/c\")\n except OSError: 0\n"
                        " try: os.rename(\"t/a/b\", \"stay/b\"); os.rename(\"stay/b\", \"t/a/b\")\n"
                        " except OSError: 0'")
        for _ in range(200):
            self.assertIn(self.box.delete("/workspace/t").error, (OK, NOT_FOUND, BUSY, FAILED))
        mover.close()
        self.assertEqual(self.box.stat("/workspace/stay/in/file").error, OK)

    def test_a_reader_sees_the_old_or_the_new(self):
        self.box.write("/workspace/f", b"a" * 200000)
        watcher = Command(self.box, "python3 -c 'import time\nuntil = time.time() + 1\n"
                          "while time.time() < until:\n"
                          " text = open(\"/workspace/f\").read()\n"
                          " assert len(text) == 200000 and len(set(text)) == 1'")
        for letter in b"bcdefghijk" * 5:
            self.assertEqual(self.box.write("/workspace/f", bytes([letter]) * 200000).error, OK)
        self.assertEqual(watcher.wait().exit, 0)

    def test_too_many_are_refused_at_once(self):
        slow = [self.box.open(WRITE, f"/workspace/{i}", 10) for i in range(128)]
        answer = self.box.stat("/workspace")
        self.assertEqual((answer.error, answer.os_error), (BUSY, 11))
        for sock in slow:
            sock.close()
        self.wait_for(lambda: self.box.stat("/workspace").error == OK)

    def test_user_code_cannot_touch_who_serves_files(self):
        with self.box.open(WRITE, "/workspace/f", 4) as sock:
            sock.sendall(b"ab")
            self.box.run("kill -9 -1")
            self.box.run("for p in /proc/[0-9]*; do kill -9 ${p#/proc/} 2>/dev/null; done")
            sock.sendall(b"cd")
            sock.shutdown(socket.SHUT_WR)
            self.assertEqual(FileAnswer(receive_exactly(sock, FILE_ANSWER.size)).error, OK)


def measure(rounds):
    def percentiles(name, call):
        took = []
        for _ in range(rounds):
            begin = time.perf_counter()
            call()
            took.append((time.perf_counter() - begin) * 1e6)
        took.sort()
        print(f"{name:16} least {took[0]:6.0f}   p50 {took[rounds // 2]:6.0f}   "
              f"p99 {took[rounds * 99 // 100]:6.0f} us")

    def run_true():
        command = Command(box, "true")
        command.answer.recv(100)
        command.close()

    box = Box()
    run_true()
    percentiles("command `true`", run_true)
    percentiles("stat", lambda: box.stat("/workspace"))
    percentiles("write 1 kB", lambda: box.write("/workspace/f", b"x" * 1000))
    percentiles("read 1 kB", lambda: box.read("/workspace/f"))
    content = bytes(40_000_000)
    for name, call in (("write", lambda: box.write("/workspace/big", content)),
                       ("read", lambda: box.read("/workspace/big"))):
        begin = time.perf_counter()
        assert call().error == OK
        print(f"{name} 40 MB: {40 / (time.perf_counter() - begin):.0f} MB/s")
        if name == "read":
            box.delete("/workspace/big")
    print(box.close(), end="")


def main():
    global BOX
    arguments = sys.argv[1:]
    BOX = os.path.abspath(arguments.pop(0))
    if "--measure" in arguments:
        return measure(int(arguments[-1]))
    loader = unittest.TestLoader()
    if "-k" in arguments:
        loader.testNamePatterns = [f"*{arguments[arguments.index('-k') + 1]}*"]
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    if os.geteuid() != 0:
        print(f"needs root\n0 passed, 0 failed, {suite.countTestCases()} skipped")
        return 1 if os.environ.get("MUST_RUN") else 0
    result = unittest.TextTestRunner(verbosity=1 + ("-v" in arguments)).run(suite)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or (skipped and os.environ.get("MUST_RUN")) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.exit(main())
