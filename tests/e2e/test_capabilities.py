"""GET /v1/capabilities and sandglass doctor: what is active here, and for each missing thing the command that mends it."""

from __future__ import annotations

import json
import subprocess

from daemon import build_folder

LAYERS = {"user_namespace", "seccomp", "landlock", "cgroup"}


def test_capabilities_tell_templates_languages_limits_and_layers(api):
    told = api.get("/capabilities").json()
    assert told["name"] == "sandglass" and told["version"]
    names = {template["name"] for template in told["templates"]}
    assert "code-interpreter" in names
    assert told["languages"] == ["python", "bash", "node"]
    assert {template["name"]: template["languages"] for template in told["templates"]}["code-interpreter"] == told["languages"]
    assert told["network_default"] == "none" and told["ttl_seconds"] == 300
    for limits in (told["limits"], told["caps"]):
        assert set(limits) >= {"memory_mb", "cpus", "processes", "files_mb", "inodes", "cell_seconds"}
    assert told["limits"]["memory_mb"] == 1024 and told["limits"]["processes"] == 256 and told["limits"]["files_mb"] == 512
    assert all(told["caps"][name] >= told["limits"][name] for name in told["limits"])


def test_every_layer_is_named_with_what_it_is_here(api):
    layers = api.get("/capabilities").json()["layers"]
    text = json.dumps(layers).lower()
    for layer in ("namespace", "seccomp", "landlock", "cgroup"):
        assert layer in text, text
    assert "degraded" not in text or '"degraded": []' in text or '"degraded":[]' in text


def test_what_capabilities_say_is_what_a_sandbox_gets(api):
    told = api.get("/capabilities").json()
    made = api.post("/sandboxes", json={"ttl_seconds": 60}).json()
    answer = api.post(f"/sandboxes/{made['id']}/exec", json={"cmd": "df -m / | tail -1 | awk '{print $2}'"}).json()
    assert int(answer["stdout"]) == told["limits"]["files_mb"]
    api.delete(f"/sandboxes/{made['id']}")


def doctor() -> tuple[int, str]:
    done = subprocess.run([build_folder() / "sandglass", "doctor"], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_doctor_finds_this_host_fit():
    code, text = doctor()
    assert code == 0, text
    for word in ("seccomp", "landlock", "cgroup"):
        assert word in text.lower()


def test_the_doctor_names_a_command_for_what_is_missing(tmp_path):
    """A host without EROFS or with a taken id range would be told how to mend it; here: a missing template."""
    done = subprocess.run(
        [build_folder() / "sandglass", "doctor"], capture_output=True, text=True, timeout=60,
        env={"PATH": "/nonexistent", "HOME": str(tmp_path), "SANDGLASS_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert "template build" in text or "make setup" in text, text
