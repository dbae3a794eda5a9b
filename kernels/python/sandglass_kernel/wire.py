"""Frames between the kernel and the api, over one SEQPACKET socket.

A packet is a frame: `u32 run, u16 kind, u16 flags`, little endian, then bytes. A value longer than a packet is
sent in several frames of the same run and kind, all but the last with the flag MORE.

A value must arrive whole whatever happens here meanwhile: a signal handler of the user may raise between any
two byte codes, and other threads may want to send as well. So the frames of one value are sent by a single call
into C with all signals held back, and a value offered while another is being sent (by a signal handler that
displays something) waits in a queue for it.
"""
from __future__ import annotations

import _socket  # socket.socket looks up names for its family and type, which a kernel has no use for
import json
import os
import select
import signal
import struct
import threading
from collections import deque

HEADER = struct.Struct("<IHH")
PACKET_MAX = 65536
PAYLOAD_MAX = PACKET_MAX - HEADER.size
MORE = 1

RUN = 1
READY, DISPLAY, RESULT, ERROR, DONE, UPDATE, CLEAR = range(16, 23)

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_ALL_SIGNALS = signal.valid_signals()


class _Nobody:
    def send(self, packet) -> int:
        return len(packet)


class Wire:
    """The kernel's end of the socket."""

    def __init__(self):
        self.run = 0          # the run that frames answer to; 0 between cells
        self._sock = self._kept_sock = None
        self._pid = 0
        self._lock = threading.RLock()
        self._waiting = deque()
        self._sending = False
        self._before_send = None

    def attach(self, fd: int, before_send) -> None:
        """Take over descriptor `fd`. `before_send()` is called ahead of each value."""
        os.set_inheritable(fd, False)
        os.set_blocking(fd, True)
        self._sock = self._kept_sock = _socket.socket(fileno=fd)
        self._pid = os.getpid()
        self._before_send = before_send
        self._packet = bytearray(PACKET_MAX)
        self._arrival = select.poll()
        self._arrival.register(fd, select.POLLIN)

    def speak_to_nobody(self, run: int) -> None:
        """For a rehearsal: frames of `run` are made as ever, and go nowhere. Run 0 ends it."""
        self._sock = _Nobody() if run else self._kept_sock
        self.run = run

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def takes_values(self) -> bool:
        """False between cells and in a process forked off by user code: nobody would read the frames."""
        return self.run != 0 and os.getpid() == self._pid

    def receive(self) -> tuple[int, str] | None:
        """Wait for the next RUN. None: the other side is gone.

        It waits in poll: the system lets a process that waits in recv and was killed meanwhile still take the
        packet along, and whoever sent it could not tell that its cell had not begun.
        """
        parts, packet, of = [], self._packet, None
        while True:
            self._arrival.poll()
            size = self._sock.recv_into(packet)
            if size == 0:
                return None
            if size < HEADER.size:
                continue
            run, kind, flags = HEADER.unpack_from(packet)
            if kind != RUN:
                continue
            if run != of:  # the rest of an earlier one never came: its sender is gone
                parts, of = [], run
            parts.append(packet[HEADER.size:size])
            if not flags & MORE:
                return run, b"".join(parts).decode("utf-8", "replace")

    def send(self, kind: int, value: dict) -> None:
        """Send one JSON value as answer to the current run."""
        self.send_bytes(kind, _encode(value).encode("ascii"))

    def send_bytes(self, kind: int, payload: bytes, order: bool = True) -> None:
        run = self.run
        if len(payload) <= PAYLOAD_MAX:
            packets = [HEADER.pack(run, kind, 0) + payload]
        else:
            packets = []
            for start in range(0, len(payload), PAYLOAD_MAX):
                part = payload[start:start + PAYLOAD_MAX]
                packets.append(HEADER.pack(run, kind, MORE if start + PAYLOAD_MAX < len(payload) else 0) + part)
        with self._lock:
            self._waiting.append((packets, order))
            if self._sending:
                return  # this very thread is sending further up the stack
            self._sending = True
            try:
                while self._waiting:
                    self._send_packets(*self._waiting.popleft())
            finally:
                self._sending = False

    def _send_packets(self, packets: list[bytes], order: bool) -> None:
        if order:
            self._before_send()
        try:
            if len(packets) == 1:
                self._sock.send(packets[0])  # a packet is sent whole or, if a handler raises, not at all
                return
            held = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
            try:
                deque(map(self._sock.send, packets), maxlen=0)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)  # nobody is there any more, as at the end of the socket


wire = Wire()
