"""What is really there while operations are tried: sandboxes, a session, a run, keys, a server inside.

`aim` puts it into a generated request: where an id is well formed, it becomes the id of something that exists. What an
operation would end or stop is made for it alone, so that none has to be left out.
"""

from __future__ import annotations

import threading

import requests
from daemon import PATIENCE, Daemon

PORT = 8000
SERVER = f"""
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "6")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"inside")

    do_GET = do_PUT = do_POST = do_DELETE = do_OPTIONS = do_HEAD = do_PATCH = do_TRACE = answer

ThreadingHTTPServer(("127.0.0.1", {PORT}), Echo).serve_forever()
"""
# Operations that would spoil a sandbox for the others, and the one they get.
OWN_BOX = {
    "pause_sandbox": "paused", "resume_sandbox": "paused", "change_lifecycle": "changed", "get_logs": "watched",
    "get_events": "watched", "delete_file": "emptied", "write_file": "emptied", "exec": "used", "exec_stream": "used",
    "run_once": "used", "delete_sandbox": "ended", "create_session": "filled", "declare_port": "filled", "remove_port": "filled",
}  # fmt: skip


class World:
    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.http = requests.Session()
        self.http.headers["Authorization"] = f"Bearer {daemon.key}"
        self.boxes: dict[str, str] = {}
        self.sessions: dict[str, str] = {}
        self.timers: list[threading.Timer] = []
        self.caps = self.send("GET", "/v1/capabilities")["caps"]

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_) -> None:
        for timer in self.timers:
            timer.join()
        for box in self.boxes.values():
            self.end(f"/v1/sandboxes/{box}")

    # ---- making ----

    def send(self, method: str, path: str, body=None, **options) -> dict:
        answer = self.http.request(method, self.daemon.url + path, json=body, timeout=60 * PATIENCE, **options)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else {}

    def is_there(self, path: str) -> bool:
        return self.http.get(self.daemon.url + path, timeout=60 * PATIENCE).ok

    def end(self, path: str) -> None:
        self.http.delete(self.daemon.url + path, timeout=60 * PATIENCE)

    def box(self, role: str) -> str:
        """The sandbox for that role; a new one where the last has ended."""
        known = self.boxes.get(role)
        if not known or not self.is_there(f"/v1/sandboxes/{known}"):
            limits = {"memory_mb": 512, "files_mb": 256}
            self.boxes[role] = self.send("POST", "/v1/sandboxes", {"ttl_seconds": 3600, "limits": limits})["id"]
            if role == "common":
                self.furnish(self.boxes[role])
        return self.boxes[role]

    def furnish(self, box: str) -> None:
        path = f"/v1/sandboxes/{box}"
        self.send("POST", path + "/exec", {"cmd": f"cat >/tmp/server.py <<'E'\n{SERVER}\nE\npython3 /tmp/server.py >/dev/null 2>&1 &"})
        self.send("POST", path + "/exec", {"cmd": f"until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {PORT}))'; do :; done 2>/dev/null"})
        self.session(box)

    def session(self, box: str) -> str:
        path = f"/v1/sandboxes/{box}/repl/sessions"
        known = self.sessions.get(box)
        if known not in [one["id"] for one in self.send("GET", path)]:
            known = self.sessions[box] = self.send("POST", path, {})["id"]
        return known

    def run(self) -> str:
        """A run that is kept."""
        box = self.box("common")
        kept = [one["id"] for one in self.send("GET", f"/v1/sandboxes/{box}/runs")["runs"]]
        return kept[0] if kept else self.send("POST", f"/v1/sandboxes/{box}/repl/sessions/{self.session(box)}/run", {"code": "print(6 * 7)"})["run_id"]

    def preview_token(self) -> str:
        return self.send("POST", f"/v1/sandboxes/{self.box('common')}/preview-token", {"port": PORT})["token"]

    def key_prefix(self) -> str:
        return self.send("POST", "/v1/me/tokens", {"label": "to be revoked"})["prefix"]

    # ---- a request ----

    def aim(self, case) -> None:
        name = case.operation.definition.raw["operationId"]
        if case.path_parameters and not is_negative(case, "path"):
            box = self.box(OWN_BOX.get(name, "common")) if "id" in case.path_parameters else ""
            for parameter in case.path_parameters:
                case.path_parameters[parameter] = self.existing(parameter, name, box, case.path_parameters[parameter])
        if isinstance(case.body, dict) and not is_negative(case, "body"):
            self.fit_body(case.body)
        if name == "get_all_events" and str((case.query or {}).get("follow")) in ("true", "1"):
            case.query["follow"] = "false"  # it would end with the daemon only: tests/e2e/test_observe.py follows it
        if name in ("get_logs", "get_events") and str((case.query or {}).get("follow")) in ("true", "1"):
            self.end_soon(case.path_parameters.get("id", ""))

    def existing(self, parameter: str, name: str, box: str, made_up):
        if parameter == "port" and name == "remove_port":
            self.send("POST", f"/v1/sandboxes/{box}/ports", {"port": PORT})
        makers = {
            "id": lambda: box, "sid": lambda: self.session(box), "run_id": self.run, "port": lambda: PORT,
            "token": self.preview_token, "prefix": self.key_prefix, "template": lambda: "base",
        }  # fmt: skip
        return makers.get(parameter, lambda: made_up)()

    def fit_body(self, body: dict) -> None:
        """What JSON Schema cannot say: names that exist, caps of this machine, sums and bytes."""
        if isinstance(body.get("template"), str):
            body["template"] = "base"
        if body.get("limits"):
            self.fit_limits(body["limits"])
        if body.get("language") in ("node", "js", "javascript", "nodejs") and body.get("stream"):
            body["language"] = "node"
        if isinstance(body.get("label"), str):
            room = 64 if "port" in body else 100
            body["label"] = body["label"].encode()[:room].decode(errors="ignore")
        if isinstance(body.get("paths"), list):
            body["paths"] = [path for path in body["paths"] if len(path.encode()) <= 60]

    def fit_limits(self, limits: dict) -> None:
        for name in limits:
            limits[name] = min(limits[name], self.caps[name])
        if "memory_mb" in limits:
            limits["memory_mb"] = max(limits["memory_mb"], 64)
        if "files_mb" in limits:
            limits["files_mb"] = min(limits["files_mb"], limits.get("memory_mb", 1024) // 2)
        if "processes" in limits:
            limits["processes"] = min(limits["processes"], 1024)

    def end_soon(self, box: str) -> None:
        """A stream that follows ends with its sandbox."""
        timer = threading.Timer(0.2, requests.delete, (f"{self.daemon.url}/v1/sandboxes/{box}",), {"headers": dict(self.http.headers)})
        self.timers = [one for one in self.timers if one.is_alive()] + [timer]
        timer.start()

    def tidy(self, case, answer) -> None:
        """Ends what the request has made."""
        name = case.operation.definition.raw["operationId"]
        made = answer.json() if answer.status_code == 201 else {}
        paths = {
            "create_sandbox": f"/v1/sandboxes/{made.get('id')}",
            "create_session": f"/v1/sandboxes/{made.get('sandbox_id')}/repl/sessions/{made.get('id')}",
            "create_token": f"/v1/me/tokens/{made.get('prefix')}",
            "declare_port": f"/v1/sandboxes/{self.boxes.get('filled')}/ports/{made.get('port')}",
        }
        if made and name in paths:
            self.end(paths[name])
        for timer in self.timers:
            timer.join()


def is_negative(case, location: str) -> bool:
    """Whether that part of the request was made to be wrong."""
    components = case.meta.components if case.meta else {}
    return any(place.value in (location, f"{location}_parameters") and part.mode.is_negative for place, part in components.items())
