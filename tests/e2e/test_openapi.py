"""The description of the API, its page, and what comparing it with the server has put right."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
import requests
from boxes import boxes  # noqa: F401


def get(daemon, path: str, **headers) -> requests.Response:
    return requests.get(daemon.url + path, headers=headers, timeout=30)


# ---- the description ----


def test_the_description_is_served_without_a_key_and_names_every_error(daemon):
    answer = get(daemon, "/openapi.json")
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "application/json"
    told = answer.json()
    assert told["openapi"].startswith("3.1") and told["info"]["version"]
    codes = told["components"]["schemas"]["Error"]["properties"]["code"]["enum"]
    assert "sandbox.not_found" in codes and "none" not in codes and codes == sorted(codes)


def test_every_reference_of_the_description_leads_somewhere(daemon):
    document = get(daemon, "/openapi.json").json()
    for reference in set(re.findall(r"'\$ref': '([^']*)'", str(document))):
        at = document
        for part in reference.removeprefix("#/").split("/"):
            at = at[part]


def test_every_operation_says_how_it_is_answered(daemon):
    for path, item in get(daemon, "/openapi.json").json()["paths"].items():
        for method, operation in item.items():
            assert operation["summary"] and operation["responses"], f"{method} {path}"
            assert operation["security"] or path.startswith(("/healthz", "/version", "/openapi.json", "/docs", "/v1/p/")), path


def schemas_in(part, at: str):
    """Every schema below, with where it stands."""
    if isinstance(part, list):
        for index, item in enumerate(part):
            yield from schemas_in(item, f"{at}/{index}")
    elif isinstance(part, dict):
        yield at, part
        for name, item in part.items():
            yield from schemas_in(item, f"{at}/{name}")


def test_makers_of_clients_find_what_they_need(daemon):
    """They leave out what holds an array of nothing said, a body without a schema, or two types that would get one name."""
    document = get(daemon, "/openapi.json").json()
    named = document["components"]["schemas"]
    for at, schema in schemas_in(document, ""):
        assert schema.get("type") != "array" or "items" in schema or "prefixItems" in schema, at
        for media, about in schema.get("requestBody", {}).get("content", {}).items() if isinstance(schema.get("requestBody"), dict) else ():
            assert "schema" in about or media == "*/*", at
    for name, schema in named.items():
        for field, about in schema.get("properties", {}).items():
            made_up = name + "".join(word.capitalize() for word in field.split("_"))
            assert "$ref" in about or made_up not in named, f"{made_up} is a type, and what '{field}' of {name} would be called"


def examples(document: dict):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
                example = document["components"]["schemas"].get(name, {}).get("example")
                if example:
                    yield method, path, example


def test_the_examples_of_the_description_work(daemon, boxes):
    box = boxes()
    session = box.kernel().id
    tried = 0
    for method, path, example in examples(get(daemon, "/openapi.json").json()):
        url = daemon.url + path.replace("{id}", box.id).replace("{sid}", session)
        answer = box.session.request(method, url, json=example, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        if answer.status_code == 201 and path == "/v1/sandboxes":
            box.session.delete(f"{url}/{answer.json()['id']}", timeout=60)
        if answer.status_code == 201 and path == "/v1/me/tokens":
            box.session.delete(f"{url}/{answer.json()['prefix']}", timeout=60)
        tried += 1
    assert tried >= 8


# ---- the page ----


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inline = False
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        named = dict(attributes)
        self.found += [named[name] for name in ("src", "href") if named.get(name)]
        self.inline = self.inline or "style" in named or any(name.startswith("on") for name in named)
        self.inline = self.inline or (tag == "script" and "src" not in named) or tag == "style"


def test_the_page_takes_everything_from_this_daemon(daemon):
    page = get(daemon, "/docs")
    assert page.status_code == 200 and page.headers["Content-Type"].startswith("text/html")
    links = Links(page.text)
    assert links.found and not links.inline
    for link in links.found:
        assert link.startswith("/") or link == "data:,", link
        if link.startswith("/"):
            assert get(daemon, link).status_code == 200, link


def test_the_page_may_reach_nothing_else(daemon):
    page = get(daemon, "/docs")
    policy = dict(part.strip().partition(" ")[::2] for part in page.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    for name in ("script-src", "style-src", "connect-src"):
        assert policy[name] == "'self'"
    for path, kind in (("/docs/page.js", "text/javascript"), ("/docs/page.css", "text/css"), ("/openapi.json", "application/json")):
        answer = get(daemon, path)
        assert answer.headers["Content-Type"].startswith(kind) and answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "://" not in answer.text.replace("http://localhost", "") or path == "/openapi.json"


# As much of a browser as the page's script asks for. What is put in is kept as a tree; text stays text.
BROWSER = """
const everything = [];
class Element {
  constructor(name) { this.name = name; this.children = []; this.dataset = {}; this.listeners = {}; everything.push(this); }
  append(...items) { this.children.push(...items); }
  replaceChildren(...items) { this.children = items; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  set textContent(text) { this.children = [text]; }
  set innerHTML(text) { throw new Error("markup was put in"); }
  get text() { return this.children.map((child) => child instanceof Element ? child.text : String(child)).join(" "); }
}
const named = {};
const document = {
  createElement: (name) => new Element(name),
  getElementById: (id) => named[id] ??= new Element(id),
  querySelectorAll: () => everything.filter((one) => one.dataset.words !== undefined),
};
const location = { hash: "" };
const fs = require("fs");
const fetch = async () => ({ json: async () => JSON.parse(fs.readFileSync("/tmp/openapi.json", "utf8")) });
"""


def test_the_page_shows_every_operation_and_finds_what_is_typed(daemon, boxes):
    """Its script, run by the sandbox's own Node."""
    box = boxes()
    document = get(daemon, "/openapi.json").json()
    box.write("/tmp/openapi.json", get(daemon, "/openapi.json").content)
    told = """
setTimeout(() => {
  const sections = everything.filter((one) => one.name === "section");
  named.filter.listeners.input({ target: { value: " PAUSE_OR_NOT " } });
  const shown = sections.filter((one) => !one.hidden).length;
  named.filter.listeners.input({ target: { value: "lifecycle" } });
  const found = sections.filter((one) => !one.hidden).map((one) => one.id);
  console.log(JSON.stringify({ ids: sections.map((one) => one.id), shown, found, text: named.main.text, state: named.state?.text }));
}, 50);
"""
    box.write("/tmp/page.js", BROWSER + get(daemon, "/docs/page.js").text.replace('"use strict";', "") + told)
    page = json.loads(box.shell("node /tmp/page.js"))
    operations = [one["operationId"] for item in document["paths"].values() for one in item.values()]
    assert sorted(page["ids"]) == sorted(operations), page["state"]
    assert page["shown"] == 0 and sorted(page["found"]) == ["change_lifecycle", "get_lifecycle"]
    for word in ("ttl_seconds", "sandbox.too_many", "exec/stream", "Last-Event-ID", "undefined"):
        assert (word in page["text"]) == (word != "undefined"), word


# ---- what the comparison has found ----


@pytest.mark.parametrize("order", ["/repl/sessions/{sid}/restart", "/repl/sessions/{sid}/interrupt", "/pause", "/resume"])
def test_an_order_without_fields_refuses_any(boxes, order):
    box = boxes()
    path = order.replace("{sid}", box.kernel().id)
    answer = box.send("POST", path, json={"hard": True})
    assert answer.status_code == 400 and answer.json()["code"] == "request.unknown_field" and "'hard'" in answer.json()["error"]
    assert box.send("POST", path, json={}).ok and box.send("POST", path).ok


def test_cancelling_a_run_refuses_fields(daemon, boxes):
    box = boxes()
    run = box.kernel().run("1")["run_id"]
    url = f"{daemon.url}/v1/runs/{run}/cancel"
    assert box.session.post(url, json={"why": "x"}, timeout=30).json()["code"] == "request.unknown_field"
    assert box.session.post(url, timeout=30).status_code == 200


@pytest.mark.parametrize("query", ["rows=24%00x", "rows=+24", "rows=24.0", "cols=1001", "cols="])
def test_the_size_of_a_terminal_is_a_number_and_nothing_else(boxes, query):
    handshake = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    answer = boxes().send("GET", f"/ssh?{query}", headers=handshake)
    assert answer.status_code == 400 and answer.json()["code"] == "request.invalid"


@pytest.mark.parametrize("path, methods", [("/v1/templates/builds", {"GET", "HEAD"}), ("/v1/templates/base", {"GET", "HEAD", "DELETE"}), ("/v1/sandboxes", {"GET", "HEAD", "POST"}), ("/v1/sandboxes/{id}/pause", {"POST"})])
def test_allow_names_the_methods_of_that_very_path(api, daemon, path, methods):
    answer = api.request("OPTIONS", path.removeprefix("/v1"))
    assert answer.status_code == 405
    named = [word.strip() for word in answer.headers["Allow"].split(",")]
    assert set(named) == methods and len(named) == len(methods)


def test_a_written_file_is_told_with_its_name_and_when_the_sandbox_ends(boxes):
    told = boxes().request("PUT", "/fs", params={"path": "/tmp/a b.txt"}, data=b"x", headers={"Content-Type": "application/octet-stream"})
    assert told["path"] == "/tmp/a b.txt" and told["name"] == "a b.txt" and told["bytes"] == 1 and "expires_at" in told


def test_looking_at_ports_is_no_use(boxes):
    box = boxes()
    before = box.request("GET", "/lifecycle")["expires_at"]
    box.request("GET", "/ports")
    assert box.request("GET", "/lifecycle")["expires_at"] == before


def test_the_daemons_metrics_are_for_no_page_of_another_origin(daemon):
    key = {"Authorization": f"Bearer {daemon.key}"}
    assert get(daemon, "/metrics", **key).status_code == 200
    answer = get(daemon, "/metrics", **key, Origin="http://elsewhere.example")
    assert answer.status_code == 403 and answer.json()["code"] == "request.origin_refused"
