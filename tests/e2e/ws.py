"""A WebSocket client of the tests' own, on the standard library: it can also do what no real one does."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
import time
from urllib.parse import urlsplit

from daemon import PATIENCE

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = base64.b64encode(b"sixteen bytes !!").decode()
ACCEPT = base64.b64encode(hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


class Refused(Exception):
    """The server did not answer 101."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(f"{status} {body!r}")
        self.status, self.headers, self.body = status, headers, body


def frame(opcode: int, payload: bytes = b"", *, final=True, masked=True, reserved=0) -> bytes:
    size = len(payload)
    short = size if size < 126 else 126 if size < 65536 else 127
    head = bytes([(0x80 if final else 0) | reserved << 4 | opcode, (0x80 if masked else 0) | short])
    head += struct.pack(">H", size) if short == 126 else struct.pack(">Q", size) if short == 127 else b""
    if not masked:
        return head + payload
    mask = os.urandom(4)
    long_mask = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return head + mask + (int.from_bytes(payload, "big") ^ long_mask).to_bytes(size, "big")


class WebSocket:
    """Connected when made. `url` is http://…; `together` is sent in one piece with the handshake."""

    def __init__(self, url: str, *, key=None, headers=(), together=b"", receive_buffer=None, send=True) -> None:
        parts = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(20 * PATIENCE)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((parts.hostname, parts.port))
        given = {
            "Host": parts.netloc, "Upgrade": "websocket", "Connection": "Upgrade",
            "Sec-WebSocket-Key": KEY, "Sec-WebSocket-Version": "13", **dict(headers),
        }
        if key:
            given.setdefault("Authorization", f"Bearer {key}")
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value is not None)]
        self.data = b""
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + together)
        self._read_head()

    def _read_head(self) -> None:
        while b"\r\n\r\n" not in self.data:
            self._more()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split()[1])
        if status != 101:
            while len(self.data) < int(self.headers.get("content-length", 0)):
                self._more()
            self.socket.close()
            raise Refused(status, self.headers, self.data)
        self.arrived_with_head = bool(self.data)

    def _more(self) -> None:
        part = self.socket.recv(65536)
        if not part:
            raise EOFError("the server hung up")
        self.data += part

    def _take(self, size: int) -> bytes:
        while len(self.data) < size:
            self._more()
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def receive_frame(self) -> tuple[int, bytes]:
        first, second = self._take(2)
        assert not second & 0x80, "servers do not mask"
        assert not first & 0x70, "no extension was agreed on"
        size = second & 0x7F
        if size == 126:
            size = struct.unpack(">H", self._take(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self._take(8))[0]
        return first & 0x0F, self._take(size)

    def receive(self):
        """The next message: str, bytes, or the code of a closing frame. Pings are answered."""
        while True:
            opcode, payload = self.receive_frame()
            if opcode == PING:
                self.socket.sendall(frame(PONG, payload))
            elif opcode == CLOSE:
                return struct.unpack(">H", payload[:2])[0] if payload else 1005
            elif opcode in (TEXT, BINARY):
                return payload.decode() if opcode == TEXT else payload

    def receive_json(self):
        return json.loads(self.receive())

    def receive_until(self, wanted: bytes, seconds: float = 20) -> bytes:
        """Binary messages, until what came holds `wanted`."""
        got, end = b"", time.monotonic() + seconds * PATIENCE
        while wanted not in got:
            assert time.monotonic() < end, f"{wanted!r} is not in {got!r}"
            message = self.receive()
            assert isinstance(message, bytes), f"{message!r} came, after {got!r}"
            got += message
        return got

    def send(self, message) -> None:
        if isinstance(message, bytes):
            self.socket.sendall(frame(BINARY, message))
        else:
            text = message if isinstance(message, str) else json.dumps(message)
            self.socket.sendall(frame(TEXT, text.encode()))

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "WebSocket":
        return self

    def __exit__(self, *_) -> None:
        self.close()
