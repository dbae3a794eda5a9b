"""Keys and owners: what a token may do and until when, that owners are apart, and what each of them may have."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest
import requests
from boxes import Box
from daemon import PATIENCE, build_folder, wait_until


@pytest.fixture
def lean(own_daemon):
    """A daemon of the test's own, with the one template that is warm soon."""
    return lambda **config: own_daemon(config={"templates": ["base"], **config})


def ask(daemon, method: str, path: str, key: str | None = None, **options) -> requests.Response:
    headers = {"Authorization": f"Bearer {key or daemon.key}"}
    return requests.request(method, f"{daemon.url}/v1{path}", headers=headers, timeout=60 * PATIENCE, **options)


def make_token(daemon, key: str | None = None, **body) -> dict:
    answer = ask(daemon, "POST", "/me/tokens", key, json={"label": "a test's", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


def items(daemon, key: str | None = None) -> list[dict]:
    return ask(daemon, "GET", "/me/tokens", key).json()["items"]


def sandglass(*words) -> subprocess.CompletedProcess:
    return subprocess.run([build_folder() / "sandglass", *words], capture_output=True, text=True, timeout=60 * PATIENCE)


def owner_key(daemon, name: str, *words) -> str:
    made = sandglass("key", "create", "--state", daemon.state, "--owner", name, *words)
    assert made.returncode == 0 and made.stderr == "", made
    return made.stdout.strip()


# ---- tokens ----


def test_a_token_is_shown_once_and_works_until_it_is_revoked(daemon):
    made = make_token(daemon)
    assert re.fullmatch(r"pds_[0-9a-f]{40}", made["token"]) and made["prefix"] == made["token"][:12]
    assert made["label"] == "a test's" and made["expires_at"] is None and made["created_at"]
    assert ask(daemon, "GET", "/sandboxes", made["token"]).status_code == 200
    assert made["token"] not in ask(daemon, "GET", "/me/tokens").text
    mine = next(i for i in items(daemon) if i["prefix"] == made["prefix"])
    assert mine["last_used_at"] and "token" not in mine
    assert ask(daemon, "DELETE", f"/me/tokens/{made['prefix']}").status_code == 204
    refused = ask(daemon, "GET", "/sandboxes", made["token"])
    assert refused.status_code == 401 and refused.json()["code"] == "auth.unauthorized"
    again = ask(daemon, "DELETE", f"/me/tokens/{made['prefix']}")
    assert again.status_code == 404 and again.json()["code"] == "token.not_found"


def test_a_token_may_revoke_itself_and_any_prefix_of_letters_fits_the_digits(daemon):
    made = make_token(daemon)
    digits = made["token"].removeprefix("pds_")
    assert ask(daemon, "GET", "/me", f"e2b_{digits}").status_code == 200
    assert ask(daemon, "DELETE", f"/me/tokens/{made['prefix']}", made["token"]).status_code == 204
    assert ask(daemon, "GET", "/me", f"e2b_{digits}").status_code == 401


@pytest.mark.parametrize(
    "body, field",
    [
        ({"label": ""}, "label"),
        ({"label": "x" * 101}, "label"),
        ({"label": "a\0b"}, "label"),
        ({"label": 5}, "label"),
        ({"expires_in_days": 0}, "expires_in_days"),
        ({"expires_in_days": 1.5}, "expires_in_days"),
        ({"expires_in_days": 100000}, "expires_in_days"),
        ({"owner": "root"}, "owner"),
    ],
)
def test_a_token_with_a_wrong_field_is_refused_naming_it(daemon, body, field):
    answer = ask(daemon, "POST", "/me/tokens", json=body)
    assert answer.status_code == 400 and f"'{field}'" in answer.json()["error"]


def test_there_are_at_most_a_hundred_keys_of_an_owner(lean):
    daemon = lean()
    while (answer := ask(daemon, "POST", "/me/tokens")).status_code == 201:
        pass
    assert answer.status_code == 409 and answer.json()["code"] == "token.too_many" and len(items(daemon)) == 100


def test_an_expired_key_is_refused_and_says_so(lean):
    daemon = lean()
    made = make_token(daemon, expires_in_days=1)
    assert made["expires_at"] > made["created_at"]
    key = owner_key(daemon, "guest", "--days", "1")
    path = next((daemon.state / "keys").glob("*.json"))
    about = json.loads(path.read_text())
    assert ask(daemon, "GET", "/me", key).status_code == 200
    path.write_text(json.dumps({**about, "expires_ms": int(time.time() * 1000) - 1000}))
    wait_until(lambda: ask(daemon, "GET", "/me", key).status_code == 401, 10, "it has expired")
    assert "expired" in ask(daemon, "GET", "/me", key).json()["error"]


@pytest.mark.slow
def test_keys_outlive_restarts_and_so_does_their_end(lean):
    daemon = lean()
    kept, gone = make_token(daemon), make_token(daemon)
    first = next(i for i in items(daemon) if i["label"] == "first key")["prefix"]
    assert daemon.key.startswith(first)
    ask(daemon, "DELETE", f"/me/tokens/{gone['prefix']}")
    # The first key can be revoked too, by another one, and stays so.
    assert ask(daemon, "DELETE", f"/me/tokens/{first}", kept["token"]).status_code == 204
    assert ask(daemon, "GET", "/me").status_code == 401
    last = ask(daemon, "DELETE", f"/me/tokens/{kept['prefix']}", kept["token"])
    assert last.status_code == 409 and last.json()["code"] == "token.last" and last.json()["hint"]
    daemon.restart()
    assert ask(daemon, "GET", "/me", kept["token"]).json()["user_id"] == "owner-1"
    assert ask(daemon, "GET", "/me").status_code == 401
    assert ask(daemon, "GET", "/me", gone["token"]).status_code == 401
    # A new file is a new key, and the old one stays where it is.
    (daemon.state / "key").write_text("sg_" + "ab" * 20 + "\n")
    daemon.restart()
    assert ask(daemon, "GET", "/me").status_code == 200
    assert [i["prefix"] for i in items(daemon) if i["label"] == "first key"] == ["sg_abababab"]
    assert b"ab" * 20 not in (daemon.state / "api/state.db").read_bytes()


# ---- owners ----


def test_me_says_who_what_and_how_much(lean):
    daemon = lean(owners={"default": {"memory_mb": 4096}, "small": {"sandboxes": 2, "creates_a_second": 0.5}})
    key = owner_key(daemon, "small")
    me = ask(daemon, "GET", "/me").json()
    assert me["user_id"] == me["current_org"] == "owner-1" and me["auth_method"] == "api_key"
    assert me["orgs"] == [{"id": "owner-1", "name": "owner-1", "role": "owner"}] and me["email"] is None
    assert me["limits"] == {"sandboxes": 4096, "memory_mb": 4096, "creates_a_second": None}
    box = Box(daemon, template="base", limits={"memory_mb": 64})
    assert ask(daemon, "GET", "/me").json()["use"] == {"sandboxes": 1, "memory_mb": 64}
    small = ask(daemon, "GET", "/me", key).json()
    assert small["limits"] == {"sandboxes": 2, "memory_mb": 4096, "creates_a_second": 0.5}
    assert small["use"] == {"sandboxes": 0, "memory_mb": 0}
    box.kill()


def test_an_owner_sees_and_revokes_its_own_only(lean):
    daemon = lean()
    other = owner_key(daemon, "tenant.b", "--label", "for b")
    box = Box(daemon, template="base")
    assert ask(daemon, "GET", "/me", other).json()["user_id"] == "tenant.b"
    assert ask(daemon, "GET", "/sandboxes", other).json() == []
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("GET", "/lifecycle")):
        answer = ask(daemon, method, f"/sandboxes/{box.id}{path}", other)
        assert answer.status_code == 404 and answer.json()["code"] == "sandbox.not_found"
    assert [i["label"] for i in items(daemon, other)] == ["for b"]
    mine = make_token(daemon)
    assert ask(daemon, "DELETE", f"/me/tokens/{mine['prefix']}", other).status_code == 404
    assert ask(daemon, "GET", "/me", mine["token"]).status_code == 200
    last = ask(daemon, "DELETE", f"/me/tokens/{other[:11]}", other)
    assert last.status_code == 409 and last.json()["code"] == "token.last"
    own = make_token(daemon, other)
    assert ask(daemon, "GET", "/me", own["token"]).json()["user_id"] == "tenant.b"
    box.kill()


def test_the_operator_makes_lists_and_removes_keys_while_the_daemon_runs(lean):
    daemon = lean()
    key = owner_key(daemon, "tenant-c", "--label", "a note")
    files = list((daemon.state / "keys").iterdir())
    assert [f.name for f in files] == [f"{key[:11]}.json"]
    assert files[0].stat().st_mode & 0o777 == 0o600 and key[3:] not in files[0].read_text()
    assert (daemon.state / "keys").stat().st_mode & 0o777 == 0o700
    listed = sandglass("key", "list", "--state", daemon.state).stdout
    assert key[:11] in listed and "tenant-c" in listed and "a note" in listed and key not in listed
    assert ask(daemon, "GET", "/me", key).status_code == 200  # the command waited for that
    assert sandglass("key", "remove", "--state", daemon.state, key[:11]).returncode == 0
    wait_until(lambda: ask(daemon, "GET", "/me", key).status_code == 401, 10, "it is refused")
    assert sandglass("key", "remove", "--state", daemon.state, key[:11]).returncode == 1


def test_a_broken_key_file_is_left_out_and_named(lean):
    daemon = lean()
    good = owner_key(daemon, "fine")
    for name, text in {"sg_1.json": "{", "sg_2.json": "{}", "sg_3.json": json.dumps({"owner": "../x", "hash": "0" * 64, "label": "l", "created_ms": 1})}.items():
        (daemon.state / "keys" / name).write_text(text)
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: {"sg_1.json", "sg_2.json", "sg_3.json"} <= {e["message"].split("/")[1].split(" ")[0] for e in daemon.events("key.unusable")}, 10, "all are named")
    assert ask(daemon, "GET", "/me", good).status_code == 200


@pytest.mark.parametrize("words", [["create", "--owner", "a/b"], ["create", "--owner", "default"], ["create"], ["create", "--owner", "a", "--label", ""]])
def test_the_operator_is_told_of_a_wrong_name(daemon, words):
    before = list((daemon.state / "keys").iterdir())
    answer = sandglass("key", words[0], "--state", daemon.state, *words[1:])
    assert answer.returncode == 1 and answer.stdout == "" and answer.stderr.startswith("sandglass key:")
    assert list((daemon.state / "keys").iterdir()) == before


# ---- caps ----


def create(daemon, key: str | None = None, **body) -> requests.Response:
    return ask(daemon, "POST", "/sandboxes", key, json={"template": "base", "limits": {"memory_mb": 64}, **body})


def test_an_owner_has_as_many_sandboxes_and_as_much_memory_as_it_may(lean):
    daemon = lean(owners={"default": {"sandboxes": 2}, "thin": {"sandboxes": 9, "memory_mb": 200}})
    thin = owner_key(daemon, "thin")
    made = [create(daemon).json()["id"] for _ in range(2)]
    full = create(daemon)
    assert full.status_code == 429 and full.json()["code"] == "sandbox.too_many" and int(full.headers["Retry-After"]) >= 1
    # Others are not affected, and ending one makes room.
    assert create(daemon, thin).status_code == 201
    assert ask(daemon, "DELETE", f"/sandboxes/{made[0]}").status_code == 204
    assert create(daemon).status_code == 201
    heavy = create(daemon, thin, limits={"memory_mb": 150})
    assert heavy.status_code == 429 and heavy.json()["code"] == "owner.memory" and "200" in heavy.json()["error"]
    assert heavy.headers["Retry-After"]
    assert create(daemon, thin, limits={"memory_mb": 128}).status_code == 201


def test_creates_a_second_are_capped_and_the_wait_is_told(lean):
    daemon = lean(owners={"slow": {"creates_a_second": 0.2}})
    slow = owner_key(daemon, "slow")
    assert create(daemon, slow).status_code == 201
    answer = create(daemon, slow)
    assert answer.status_code == 429 and answer.json()["code"] == "owner.too_fast"
    assert 1 <= int(answer.headers["Retry-After"]) <= 5
    assert create(daemon).status_code == 201
    # What is refused for another reason, or repeated, is none.
    assert create(daemon, slow, template="no-such").status_code == 400


def test_a_repeated_create_is_not_counted_towards_the_rate(lean):
    daemon = lean(owners={"default": {"creates_a_second": 0.1}})
    headers = {"Authorization": f"Bearer {daemon.key}", "Idempotency-Key": "once"}
    answers = [requests.post(f"{daemon.url}/v1/sandboxes", json={"template": "base"}, headers=headers, timeout=60) for _ in range(3)]
    assert [a.status_code for a in answers] == [201] * 3 and len({a.json()["id"] for a in answers}) == 1


# ---- the machine is full ----


def test_memory_that_is_promised_already_is_refused_before_anything_exists(lean):
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    daemon = lean(admission={"memory_overcommit": 256 / total})
    first = create(daemon, limits={"memory_mb": 128})
    assert first.status_code == 201 and create(daemon, limits={"memory_mb": 100}).status_code == 201
    full = create(daemon)
    body = full.json()
    assert full.status_code == 507 and body["code"] == "host.memory" and isinstance(body["error"], str)
    assert full.headers["Retry-After"] == "1" and len(ask(daemon, "GET", "/sandboxes").json()) == 2
    assert ask(daemon, "DELETE", f"/sandboxes/{first.json()['id']}").status_code == 204
    assert create(daemon).status_code == 201


def test_the_client_waits_for_room_by_itself(lean):
    from pandastack import Client

    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    daemon = lean(admission={"memory_overcommit": 1100 / total})
    client = Client(api_url=daemon.url, api_key=daemon.key)
    first = client.sandboxes.create(template="base")
    end = time.monotonic() + 3
    threading.Timer(1.5, first.kill).start()
    second = client.sandboxes.create(template="base")
    assert second.status == "running" and time.monotonic() < end + 20 * PATIENCE
    second.kill()


def test_a_machine_without_the_reserve_takes_no_more(lean):
    daemon = lean(admission={"memory_reserve_mb": 10**9})
    answer = create(daemon)
    assert answer.status_code == 507 and "left" in answer.json()["error"]


def test_a_full_table_of_sandboxes_is_told_with_503(lean):
    daemon = lean(caps={"sandboxes": 1}, owners={"default": {"sandboxes": 5}})
    assert create(daemon).status_code == 201
    answer = create(daemon)
    assert answer.status_code == 503 and answer.json()["code"] == "host.full" and answer.headers["Retry-After"]
    assert isinstance(answer.json()["error"], str)


@pytest.mark.parametrize(
    "config, named",
    [
        ({"owners": {"a b": {}}}, "owners.a b"),
        ({"owners": {"a": {"sandboxs": 1}}}, "owners.a.sandboxs"),
        ({"owners": {"a": {"sandboxes": 0}}}, "owners.a.sandboxes"),
        ({"owners": []}, "'owners'"),
        ({"admission": {"memory_overcommit": 0}}, "admission.memory_overcommit"),
        ({"admission": {"memory": 1}}, "admission.memory"),
    ],
)
def test_a_wrong_configuration_stops_the_start_and_is_named(tmp_path, config, named):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    answer = subprocess.run([build_folder() / "sandglassd", "--state", tmp_path / "state", "--listen", "127.0.0.1:0", "--config", path], capture_output=True, text=True, timeout=30 * PATIENCE)
    assert answer.returncode == 1 and named in answer.stderr
