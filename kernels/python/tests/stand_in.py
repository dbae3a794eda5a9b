"""Starts the real zygote.py with a stand-in for the C extension, as root or not, on this machine or in an image.

    stand_in.py KERNELS_FOLDER CONTROL_FD MODULE...

The stand-in's park() waits at the control socket for requests: three descriptors (stdout, stderr, frames) and a line
of JSON with the workspace, the home, the processors, and whether the kernel is made ahead of time. It forks as the real one does and answers the pid.
"""
import ast
import functools
import os
import runpy
import signal
import socket
import sys
import types

KERNELS, MODULES = sys.argv[1], sys.argv[2:]


def park(fd):
    control = socket.socket(fileno=os.dup(fd))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        line, fds, _, _ = socket.recv_fds(control, 4096, 3)
        if not line:
            os._exit(0)
        pid = os.fork()
        if pid:
            for got in fds:
                os.close(got)
            control.send(str(pid).encode())
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        how = ast.literal_eval(line.decode())
        for folder in (how["home"], how["workspace"]):
            os.makedirs(folder, exist_ok=True)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        for got, place in zip(fds, (1, 2, 3)):
            os.dup2(got, place)
            os.close(got)
        os.closerange(4, 64)
        from sandglass_kernel import runner
        runner.main = functools.partial(runner.main, home=how["home"], workspace=how["workspace"])
        return how["cpus"], how["is_early"]


os.closerange(4, 1024)
extension = types.ModuleType("_sandglass")
extension.park = park
sys.modules["_sandglass"] = extension
sys.argv = ["zygote.py", *MODULES]
runpy.run_path(os.path.join(KERNELS, "zygote.py"), run_name="__main__")
