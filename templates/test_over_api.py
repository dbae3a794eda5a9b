"""What the builder takes of the API's requests: no network, no root, no image."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import over_api
from builder import BuildError
from builder.inputs import Template

GOOD = {
    "format": 1, "name": "mine", "size_mb": 100, "base": "base", "from": "base",
    "debian": ["tree", "g++"], "wheels": ["six==1.16.0", "pandas[excel]>=2,<3", "rich"],
    "copy": [{"file": 1, "to": "/opt/app/run.sh"}, {"file": 0, "to": "/workspace/note.txt"}],
    "env": {"GREETING": "good day"}, "labels": {"description": "for a test"}, "files": [5, 9],
}  # fmt: skip
CONTENT = b"hello#!/bin/sh"


def stream(content=CONTENT, **changes):
    return io.BytesIO(json.dumps(GOOD | changes).encode() + b"\n" + content)


def test_a_good_request_is_read_with_its_files():
    request, contents = over_api.read_request(stream())
    assert request == GOOD and contents == [b"hello", b"#!/bin/sh"]


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2}, {"more": 1}, {"name": "../x"}, {"name": ".x"}, {"name": "x" * 64}, {"name": 1}, {"base": "mine"},
        {"from": "x" * 61}, {"size_mb": True}, {"size_mb": -1}, {"debian": "tree"}, {"debian": ["tree-"]}, {"debian": ["--x"]},
        {"debian": ["a,b"]}, {"debian": ["tree\n"]}, {"debian": ["aa"] * 257}, {"wheels": ["-e"]}, {"wheels": ["six @ file:///x"]},
        {"wheels": ["./x"]}, {"wheels": ["--index-url=x"]}, {"wheels": ["six==1 --hash"]}, {"wheels": [["six"]]},
        {"copy": [{"file": 2, "to": "/opt/x"}]}, {"copy": [{"file": True, "to": "/opt/x"}]}, {"copy": [{"file": 0, "to": "/etc/x"}]},
        {"copy": [{"file": 0, "to": "/opt/../etc/x"}]}, {"copy": [{"file": 0, "to": "/opt//x"}]}, {"copy": [{"file": 0, "to": "/opt/"}]},
        {"copy": [{"file": 0, "to": "/opt/x\0"}]}, {"copy": [{"file": 0, "to": "/opt/x", "mode": 4095}]}, {"copy": [7]},
        {"env": {"A=B": "x"}}, {"env": {"A": "x\ny"}}, {"env": {"A": 1}}, {"env": []}, {"labels": {"a b": "x"}},
        {"files": [5, -9]}, {"files": [5, 10]}, {"files": [5, 8]}, {"files": [1 << 40, 9]}, {"files": [0] * 2049},
    ],
)  # fmt: skip
def test_a_request_that_is_not_as_the_api_makes_it_is_refused(changes):
    with pytest.raises(BuildError, match="not well formed"):
        over_api.read_request(stream(**changes))


@pytest.mark.parametrize("head", [b"", b"{", b"[]\n", b"\xff\n", b"[" * 100000 + b"\n", b"1" * 10 + b"\n"])
def test_what_is_no_request_is_refused(head):
    with pytest.raises(BuildError, match="not well formed"):
        over_api.read_request(io.BytesIO(head))


def derived(**changes):
    request, contents = over_api.read_request(stream(**changes))
    return over_api.Derived(request, contents)


def test_a_derived_template_adds_to_its_base():
    base = Template("base")
    template = derived(debian=["tree", "bash"])
    assert template.spec["debian"]["packages"] == [*base.spec["debian"]["packages"], "tree"]
    assert template.spec["check"] == base.spec["check"] and template.pinned() == base.pinned()
    described = template.described()
    assert described["aliases"] == [] and described["base"] == "base" and described["description"] == "for a test"


def test_each_input_changes_its_key():
    keys = {derived().key(), base_key := Template("base").key()}
    for changes in ({"name": "x"}, {"debian": []}, {"wheels": []}, {"env": {}}, {"labels": {}}, {"copy": []}, {"content": b"hullo#!/bin/sh"}):
        keys.add(derived(**changes).key())
    assert len(keys) == 9 and derived().key() == derived().key() != base_key


def test_files_are_placed_below_the_root(tmp_path):
    (tmp_path / "workspace").mkdir()
    derived().place_files(tmp_path)
    assert (tmp_path / "workspace/note.txt").read_bytes() == b"hello"
    assert (tmp_path / "workspace/note.txt").stat().st_mode & 0o7777 == 0o644
    assert (tmp_path / "opt/app/run.sh").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "usr/share/sandglass/environment").read_text() == "GREETING=good day\n"


def test_no_link_of_the_tree_leads_a_file_out_of_it(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir(), outside.mkdir()
    (outside / "kept").write_text("as it was")
    (root / "opt").symlink_to(outside)
    with pytest.raises(BuildError, match="'/opt/x'"):
        over_api.put(root, "/opt/x", b"1")
    (root / "srv").mkdir()
    (root / "srv/x").symlink_to(outside / "kept")
    over_api.put(root, "/srv/x", b"1")  # the link itself gives way
    (root / "srv/d").mkdir()
    with pytest.raises(BuildError, match="'/srv/d'"):
        over_api.put(root, "/srv/d", b"1")
    assert os.listdir(outside) == ["kept"] and (outside / "kept").read_text() == "as it was"


def test_former_images_of_the_name_go_and_no_other(tmp_path):
    for key, name in (("a" * 24, "mine"), ("b" * 24, "mine"), ("c" * 24, "other")):
        (tmp_path / key).mkdir()
        (tmp_path / key / "template.json").write_text(json.dumps({"name": name}))
    (tmp_path / "mine").symlink_to("b" * 24)
    over_api.remove_former(tmp_path, "mine", "b" * 24)
    assert sorted(os.listdir(tmp_path)) == ["b" * 24, "c" * 24, "mine"]


def test_an_image_beyond_its_size_is_refused(tmp_path):
    with open(tmp_path / "image.erofs", "wb") as image:
        image.truncate((1 << 20) + 1)
    over_api.check_size(tmp_path, 2)
    with pytest.raises(BuildError, match="2 MB, more than the 1"):
        over_api.check_size(tmp_path, 1)


def test_the_reason_is_one_line_at_the_end(capsys):
    assert over_api.fail(BuildError("pip failed (exit 1)\n  | no such thing", "look again")) == 1
    assert capsys.readouterr().out == "  | no such thing\nerror: pip failed (exit 1) (look again)\n"


def test_there_is_room_for_some_templates(tmp_path):
    for number in range(over_api.TEMPLATES_LIMIT):
        (tmp_path / f"t{number}").symlink_to("a" * 24)
    over_api.check_room(tmp_path, "t0")  # in its own place
    with pytest.raises(BuildError, match="16 templates"):
        over_api.check_room(tmp_path, "one-more")
    (tmp_path / "t0").unlink()
    over_api.check_room(tmp_path, "one-more")
