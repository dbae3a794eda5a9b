"""Idempotency-Key on create: sent twice, made once."""

from __future__ import annotations

import os
import secrets
import signal
import threading

import pytest
import requests
from daemon import wait_until


def create(api, key: str, **body) -> requests.Response:
    return api.post("/sandboxes", json=body, headers={"Idempotency-Key": key})


@pytest.fixture
def key() -> str:
    return secrets.token_hex(8)


def test_the_same_key_and_body_give_the_same_sandbox(api, key):
    answers = [create(api, key, ttl_seconds=60) for _ in range(3)]
    assert [a.status_code for a in answers] == [201] * 3
    assert len({a.json()["id"] for a in answers}) == 1
    api.delete(f"/sandboxes/{answers[0].json()['id']}")


def test_at_once_they_are_made_once(api, daemon, key):
    before = len(api.get("/sandboxes").json())
    answers: list = []

    def one() -> None:
        answers.append(requests.post(f"{daemon.url}/v1/sandboxes", json={"ttl_seconds": 60}, headers={**api.headers, "Idempotency-Key": key}, timeout=60))

    crowd = [threading.Thread(target=one) for _ in range(10)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert {a.status_code for a in answers} == {201}
    assert len({a.json()["id"] for a in answers}) == 1
    assert len(api.get("/sandboxes").json()) == before + 1
    api.delete(f"/sandboxes/{answers[0].json()['id']}")


def test_another_body_is_a_conflict(api, key):
    made = create(api, key, ttl_seconds=60).json()
    answer = create(api, key, ttl_seconds=61)
    assert answer.status_code == 409 and answer.json()["code"] == "idempotency.conflict"
    api.delete(f"/sandboxes/{made['id']}")


def test_without_a_key_each_is_new(api):
    made = [api.post("/sandboxes", json={"ttl_seconds": 60}).json()["id"] for _ in range(2)]
    assert len(set(made)) == 2
    for sandbox in made:
        api.delete(f"/sandboxes/{sandbox}")


def test_a_failed_create_may_be_tried_again(api, key):
    assert create(api, key, template="no-such").status_code == 400
    answer = create(api, key, ttl_seconds=60)
    assert answer.status_code == 201
    api.delete(f"/sandboxes/{answer.json()['id']}")


def test_after_the_sandbox_has_ended_the_key_still_makes_no_second_one(api, key):
    made = create(api, key, ttl_seconds=60).json()["id"]
    api.delete(f"/sandboxes/{made}")
    before = len(api.get("/sandboxes").json())
    answer = create(api, key, ttl_seconds=60)
    assert answer.status_code in (201, 404, 409, 410)
    assert len(api.get("/sandboxes").json()) == before
    if answer.status_code == 201:
        assert answer.json()["id"] == made and answer.json()["status"] == "deleted"


def test_a_key_outlives_the_api(own_daemon, key):
    daemon = own_daemon()
    with requests.Session() as session:
        session.headers.update({"Authorization": f"Bearer {daemon.key}", "Idempotency-Key": key})

        def post() -> requests.Response | None:
            try:
                return session.post(daemon.url + "/v1/sandboxes", json={"ttl_seconds": 60}, timeout=30)
            except requests.RequestException:
                return None

        first = post().json()["id"]
        old = daemon.process("api")
        os.kill(old.pid, signal.SIGKILL)
        wait_until(lambda: not old.is_alive() and post() is not None, 15, "a new api serves")
        assert post().json()["id"] == first


@pytest.mark.parametrize("bad", ["", "x" * 10000])
def test_a_senseless_key_is_refused(api, bad):
    answer = create(api, bad, ttl_seconds=60)
    if answer.status_code == 201:
        api.delete(f"/sandboxes/{answer.json()['id']}")
    assert answer.status_code == 400
