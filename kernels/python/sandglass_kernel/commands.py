"""Programs started from a cell: !cmd, %%bash and its like, %pip.

They get /dev/null to read and, unless user code has replaced sys.stdout, write to the same pipes as everybody.
No thread, no terminal. Each is a process group of its own, so that an interrupt of the cell can end all of it.
"""
from __future__ import annotations

import glob
import importlib
import importlib.util
import os
import re
import shlex
import signal
import site
import socket
import subprocess
import sys
import time

from .interrupts import gate
from .streams import order, streams

SHELL = "/bin/bash"
GRACE_SECONDS = 0.2  # between asking and killing; the limit's own escalation leaves half a second
SHELL_SIGNS = set(";|&<>`$()")
NETWORK_VERBS = {"download", "wheel", "index", "search"}
NO_NETWORK = "pip: this sandbox has no network, so {} cannot be fetched. Use what is installed (%pip list)."


def _stop(child: subprocess.Popen) -> None:
    """Ask the group to end, then make it: a shell's background jobs do not listen to SIGINT."""
    _kill_group(child, signal.SIGINT)
    end = time.monotonic() + GRACE_SECONDS
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and time.monotonic() < end:
        time.sleep(0.002)
    _kill_group(child, signal.SIGKILL)  # the leader is not reaped yet, so its number still means this group
    child.wait()


def _kill_group(child: subprocess.Popen, number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def run(command, *, input_fd=subprocess.DEVNULL, keep_out=False, keep_err=False, pass_fds=(), merge=False):
    """Run to the end. Returns exit code and the bytes that were kept of stdout and stderr."""
    caught = not streams.are_ours()
    out = subprocess.PIPE if keep_out or caught else None
    err = subprocess.STDOUT if merge else subprocess.PIPE if keep_err or caught else None
    streams.flush()
    by_shell = isinstance(command, str)
    started = []  # filled while interrupts are held back, so that no child is ever lost

    def start():
        started.append(subprocess.Popen(
            command, shell=by_shell, executable=SHELL if by_shell else None, stdin=input_fd, stdout=out, stderr=err,
            process_group=0, pass_fds=pass_fds))

    try:
        gate.hold(start)
        gate.raise_missed()
        if out is None and err is None:
            started[0].wait()
            kept_out = kept_err = b""
        else:
            kept_out, kept_err = started[0].communicate()
    except BaseException:
        for child in started:
            if child.returncode is None:
                gate.hold(_stop, child)
        raise
    kept_out, kept_err = kept_out or b"", kept_err or b""
    if caught and not keep_out:
        sys.stdout.write(kept_out.decode("utf-8", "replace"))
    if caught and not keep_err and not merge:
        sys.stderr.write(kept_err.decode("utf-8", "replace"))
    return started[0].returncode, kept_out, kept_err


def system(shell, command: str) -> None:
    """`!command`"""
    words = command.split()
    if words and words[0] in ("pip", "pip3") and not set(command) & SHELL_SIGNS:
        return pip(shell, command.split(None, 1)[1] if len(words) > 1 else "")
    code, _, _ = run(command)
    shell.user_ns["_exit_code"] = code
    importlib.invalidate_caches()


def output_of(shell, command: str) -> str:
    """`x = !command`"""
    code, text, _ = run(command, keep_out=True, merge=True)
    shell.user_ns["_exit_code"] = code
    return text.decode("utf-8", "replace")


# ------------------------------------------------------------ %%bash and the like

def _parse_options(words: list[str]) -> tuple[dict, list[str]]:
    options = {"out": None, "err": None, "proc": None, "bg": False, "no-raise-error": False}
    words = list(words)
    while words and words[0].startswith("--"):
        name, _, value = words.pop(0)[2:].partition("=")
        if name not in options:
            raise ValueError(f"unknown option --{name}: known are " + ", ".join(f"--{o}" for o in options))
        options[name] = True if isinstance(options[name], bool) else value or words.pop(0)
    return options, words


def script(shell, line: str, text: str) -> None:
    """`%%script program arguments`: the program reads the cell."""
    options, argv = _parse_options(shlex.split(line))
    if not argv:
        raise ValueError("name a program: %%script program")
    if not text.endswith("\n"):
        text += "\n"
    fd = os.memfd_create("cell")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        os.lseek(fd, 0, os.SEEK_SET)
        is_shell = os.path.basename(argv[0]) in ("bash", "sh") and len(argv) == 1
        if is_shell:  # as a file, so that programs in the script that read find an end instead of the script
            how = {"command": [argv[0], f"/proc/self/fd/{fd}"], "input_fd": subprocess.DEVNULL, "pass_fds": (fd,)}
        else:
            how = {"command": argv, "input_fd": fd, "pass_fds": ()}
        if options["bg"]:
            return _in_background(shell, options, **how)
        code, out, err = run(**how, keep_out=options["out"] is not None, keep_err=options["err"] is not None)
    finally:
        os.close(fd)
    for name, kept in ((options["out"], out), (options["err"], err)):
        if name is not None:
            shell.user_ns[name] = kept.decode("utf-8", "replace")
    shell.user_ns["_exit_code"] = code
    if code != 0 and not options["no-raise-error"]:
        raise subprocess.CalledProcessError(code, " ".join(argv))


def _in_background(shell, options, command, input_fd, pass_fds) -> None:
    child = subprocess.Popen(command, stdin=input_fd, pass_fds=pass_fds, process_group=0,
                             stdout=subprocess.PIPE if options["out"] else None,
                             stderr=subprocess.PIPE if options["err"] else None)
    for option, value in (("out", child.stdout), ("err", child.stderr), ("proc", child)):
        if options[option]:
            shell.user_ns[options[option]] = value


# ------------------------------------------------------------ %pip

def _has_network() -> bool:
    """Is there a route to anywhere? Connecting a datagram socket asks the kernel and sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 443))
            return True
        except OSError:
            return False


def _pip_command() -> list[str] | None:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    wheels = sorted(glob.glob("/usr/share/python-wheels/pip-*.whl"))
    return [sys.executable, os.path.join(wheels[-1], "pip")] if wheels else None


def pip(shell, line: str) -> None:
    words = shlex.split(line)
    verb = next((w for w in words if not w.startswith("-")), "")
    asks_index = verb in {"install", *NETWORK_VERBS} and not {"--no-index", "-h", "--help"} & set(words)
    is_cut_off = asks_index and not _has_network()
    command = _pip_command()
    if command is None:
        print("pip: not part of this image", file=sys.stderr)
        code = 127
    elif is_cut_off and verb in NETWORK_VERBS:
        print(NO_NETWORK.format("packages"), file=sys.stderr)
        code = 1
    else:
        code = _run_pip(command, line, words, verb, is_cut_off)
    shell.user_ns["_exit_code"] = code


def _run_pip(command: list[str], line: str, words: list[str], verb: str, is_cut_off: bool) -> int:
    """Also without a network what is there already, or lies in a file, can be asked for."""
    text, changes = command + words, verb in ("install", "uninstall")
    if changes:
        at = len(command) + words.index(verb) + 1
        text[at:at] = _options(verb, is_cut_off)
    elif set(line) & SHELL_SIGNS:
        text = f"{shlex.join(command)} {line}"  # `%pip list | head`
    code, _, errors = run(text, keep_err=is_cut_off)
    if is_cut_off:
        _tell_errors(errors.decode("utf-8", "replace"))
    if code == 0 and verb == "install" and os.path.isdir(site.USER_SITE):
        site.addsitedir(site.USER_SITE)  # reads new .pth files
    importlib.invalidate_caches()
    return code


def _options(verb: str, is_cut_off: bool) -> list[str]:
    """pip asks before it uninstalls; Debian's refuses to install at all."""
    own = ["--yes"] if verb == "uninstall" else ["--no-index"] * is_cut_off
    return ["--break-system-packages", *own]


def _tell_errors(errors: str) -> None:
    """pip says of a package only that there is none; say why."""
    missing = re.search(r"No matching distribution found for (.+)", errors)
    print(NO_NETWORK.format(repr(missing[1])) if missing else errors.rstrip("\n"), end="\n" if errors else "", file=sys.stderr)


def missing(name: str):
    def magic(line: str, cell: str | None = None) -> None:
        print(f"{name}: not part of this image; there is %pip", file=sys.stderr)
    return magic


# ------------------------------------------------------------ order towards children

def watch_children() -> None:
    """Whoever starts a process: let the reader first catch up with what we wrote, and forget who wrote last."""
    start, os_system = subprocess.Popen._execute_child, os.system

    def _execute_child(self, *args, **kwargs):
        order.before_others()
        return start(self, *args, **kwargs)

    def system(command):
        order.before_others()
        return os_system(command)

    system.__doc__ = os_system.__doc__
    subprocess.Popen._execute_child, os.system = _execute_child, system
