"""Code of a template that takes the place of our loop and speaks to the warden as it likes. See test_zygote.py,
which puts what it answers a request in the place of LIE.
"""
import os, socket, struct, sys, types


def answer(control, serial, pid, error=0):
    control.send(struct.pack("<IiiI", serial, pid, error, 0))


def park(fd):
    control = socket.socket(fileno=fd)
    answer(control, 0, 0)
    while True:
        for _ in range(2):
            data, ancillary, _, _ = socket.recv_fds(control, 4096, 16)
            for one in ancillary:
                os.close(one)
        serial = struct.unpack("<I", data[:4])[0]
        LIE


module = sys.modules["_sandglass"] = types.ModuleType("_sandglass")
module.park, module.flush_stdio = park, lambda: None
