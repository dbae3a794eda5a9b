"""The builder's decisions: no network, no root, no image."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import build
from builder import BuildError, cache, checks, debian, fetch, inputs, running, tree

HASH = "0" * 64
TOML = """
description = "for a test"
suite = "bookworm"
aliases = ["other"]
languages = ["python"]
preload = []
[debian]
packages = ["bash"]
[wheels]
wanted = ["pip"]
[prune]
folders = []
suffixes = []
paths = []
[check]
imports = []
commands = []
"""


@pytest.fixture
def templates(tmp_path):
    """A folder like templates/, with one template and a skeleton of one file."""
    folder = tmp_path / "templates"
    (folder / "small").mkdir(parents=True)
    (folder / "skeleton/etc").mkdir(parents=True)
    (folder / "skeleton/etc/hostname").write_text("sandglass\n")
    (folder / "small/template.toml").write_text(TOML)
    (folder / "small/wheels.cp311-amd64.txt").write_text(f"# by hand\npip==1.0 --hash=sha256:{HASH}\n")
    return folder


def load(templates, name="small"):
    return inputs.Template(name, templates, machine="x86_64")


def refusal(templates, toml):
    (templates / "small/template.toml").write_text(toml)
    with pytest.raises(BuildError) as caught:
        load(templates)
    return str(caught.value), caught.value.hint


def finished_entry(cache, name, **changes):
    entry = cache / name
    entry.mkdir(parents=True)
    (entry / "image.erofs").write_bytes(b"12345")
    (entry / "manifest.json").write_text("{}")
    description = {"format": 1, "key": name, "image": "image.erofs", "size_bytes": 5} | changes
    (entry / "template.json").write_text(json.dumps(description))
    return entry


# ---- The key ----


def test_key_is_the_same_for_the_same_inputs(templates):
    assert load(templates).key() == load(templates).key()
    assert len(load(templates).key()) == 24


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "small/template.toml").write_text(TOML.replace('"bash"', '"bash", "git"')),
        lambda folder: (folder / "small/wheels.cp311-amd64.txt").write_text(f"pip==1.1 --hash=sha256:{HASH}\n"),
        lambda folder: (folder / "small/more").write_text("a file that the build may read"),
        lambda folder: (folder / "skeleton/etc/hostname").write_text("other\n"),
        lambda folder: (folder / "skeleton/etc/hostname").rename(folder / "skeleton/etc/name"),
    ],
    ids=["toml", "lock", "new file", "skeleton", "name in the skeleton"],
)
def test_key_changes_with_each_input(templates, change):
    before = load(templates).key()
    change(templates)
    assert load(templates).key() != before


def test_key_changes_with_builder_and_machine(templates, monkeypatch):
    amd64 = load(templates).key()
    assert inputs.Template("small", templates, machine="aarch64").key() != amd64
    monkeypatch.setattr(inputs, "BUILDER", inputs.BUILDER + 1)
    assert load(templates).key() != amd64


def test_key_ignores_the_lock_of_another_machine(templates):
    before = load(templates).key()
    (templates / "small/wheels.cp311-arm64.txt").write_text("")
    assert load(templates).key() == before


# ---- Errors ----


def test_unknown_template_says_which_exist(templates):
    with pytest.raises(BuildError) as caught:
        load(templates, "large")
    assert str(caught.value) == "there is no template 'large'"
    assert caught.value.hint == "templates that exist: small"


@pytest.mark.parametrize(
    ("toml", "message", "hint"),
    [
        (TOML + "[", "template.toml: ", "TOML"),
        (TOML.replace("preload", "preloaded"), "field 'preloaded' is not known", "preload"),
        (TOML.replace("preload = []", ""), "field 'preload' is missing", "a list of texts"),
        (TOML.replace('["bash"]', '"bash"'), "field 'debian.packages' is not a list of texts", "'bash'"),
        (TOML.replace('["bash"]', "[1]"), "field 'debian.packages' is not a list of texts", "[1]"),
        (TOML.replace("[debian]", "[debian]\nrelease = 12"), "field 'debian.release' is not known", "debian.packages"),
        (TOML.replace("bookworm", "sarge"), "suite 'sarge' is not known", "bookworm"),
        (TOML + "[[edit]]\npath = 'a'", "field 'edit.find' is missing", "a text"),
    ],
)
def test_what_is_wrong_in_the_toml_is_named(templates, toml, message, hint):
    said = refusal(templates, toml)
    assert message in said[0] and hint in said[1]


def test_lock_lines_without_a_hash_are_refused(templates):
    (templates / "small/wheels.cp311-amd64.txt").write_text("# one\npip==1.0\n")
    with pytest.raises(BuildError, match="line 2: 'pip==1.0'"):
        load(templates).pinned()


def test_missing_lock_says_how_to_make_it(templates):
    with pytest.raises(BuildError) as caught:
        inputs.Template("small", templates, machine="aarch64").pinned()
    assert "wheels.cp311-arm64.txt" in str(caught.value) and "--lock" in caught.value.hint


def test_an_edit_that_finds_nothing_is_an_error(tmp_path):
    (tmp_path / "a").write_text("old text")
    tree.edit_files(tmp_path, "?", "old", "new")
    assert (tmp_path / "a").read_text() == "new text"
    with pytest.raises(BuildError, match="contains 'old'"):
        tree.edit_files(tmp_path, "?", "old", "new")


# ---- The cache ----


def test_a_finished_entry_is_complete_and_anything_less_is_not(tmp_path):
    entry = finished_entry(tmp_path, "k1")
    assert cache.is_complete(entry)
    (entry / "image.erofs").write_bytes(b"1234")
    assert not cache.is_complete(entry)
    assert not cache.is_complete(finished_entry(tmp_path, "k2", key="k1"))
    assert not cache.is_complete(tmp_path / "k3")
    (tmp_path / "k2/template.json").write_text("{")
    assert not cache.is_complete(tmp_path / "k2")


@pytest.mark.parametrize("name", ["code-interpreter", "base"])
def test_nothing_is_done_when_the_image_is_there(tmp_path, name):
    key = inputs.Template(name, machine="x86_64").key()
    entry = finished_entry(tmp_path, key)
    command = [sys.executable, build.__file__, name]
    environment = os.environ | {"SANDGLASS_CACHE": str(tmp_path)}
    if os.uname().machine != "x86_64":
        pytest.skip("the shipped locks are for x86_64")
    start = time.monotonic()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert time.monotonic() - start < 1  # 0.1 s on a quiet machine
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{entry}\n", "")
    assert os.readlink(tmp_path / name) == key
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([key, name])


def test_the_name_moves_to_the_new_key(tmp_path):
    cache.point(tmp_path, "small", "k1")
    cache.point(tmp_path, "small", "k2")
    assert os.readlink(tmp_path / "small") == "k2"
    assert len(list(tmp_path.iterdir())) == 1


def test_publishing_replaces_an_entry_as_a_whole(tmp_path):
    old = finished_entry(tmp_path, "k1")
    new = finished_entry(tmp_path / "work", "entry", key="k1")
    (new / "image.erofs").write_bytes(b"newer")
    with open(old / "image.erofs", "rb") as mounted:
        cache.publish(new, old)
        assert mounted.read() == b"12345"
    assert (tmp_path / "k1/image.erofs").read_bytes() == b"newer"


def test_a_failed_build_leaves_only_its_log(tmp_path):
    with pytest.raises(BuildError) as caught, cache.work_folder(tmp_path, print) as work:
        (work / "root/usr").mkdir(parents=True)
        runner = running.Runner(tmp_path / "small.log", quiet=True)
        runner.run(["sh", "-c", "echo no such mirror; exit 3"], "mmdebstrap", "look at the network")
    assert "mmdebstrap failed (exit 3)" in str(caught.value) and "no such mirror" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "small.log"]


def test_what_a_killed_build_left_is_removed(tmp_path):
    (tmp_path / ".build-dead/root").mkdir(parents=True)
    with cache.work_folder(tmp_path, print):
        assert not (tmp_path / ".build-dead").exists()


# ---- The host's package sources ----


def test_the_hosts_own_mirror_is_used(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    ours = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main"
    others = "Types: deb\nURIs: http://tools.example\nSuites: bookworm\nComponents: stable"
    (tmp_path / "sources.list.d/debian.sources").write_text(f"# ours\n{ours}\n\n{others}\n")
    text, suffix = debian.host_sources("bookworm", tmp_path)
    assert suffix == ".sources" and ours in text and "tools.example" not in text
    assert debian.host_sources("trixie", tmp_path) is None


def test_an_old_sources_list_is_read_too(tmp_path):
    ours = "deb http://mirror.example/debian bookworm main contrib\n"
    others = "deb http://tools.example/x nodistro main\n# deb x y\n"
    (tmp_path / "sources.list").write_text(ours + others)
    assert debian.host_sources("bookworm", tmp_path) == (ours, ".list")


# ---- What is promised about the tree ----


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o777])
def test_a_program_that_gives_power_is_found_and_tamed(tmp_path, mode):
    for name, folder_mode in tree.MOUNT_POINTS.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name).chmod(folder_mode)
    program = tmp_path / "usr/su"
    program.write_text("")
    program.chmod(mode)
    with pytest.raises(BuildError, match="/usr/su is"):
        checks.check_tree(tmp_path)
    tree.take_powers_away(tmp_path)
    checks.check_tree(tmp_path)


def test_stale_bytecode_is_found(tmp_path):
    tree.make_mount_points(tmp_path)
    (tmp_path / "module.pyc").write_bytes(b"\xa7\r\r\n" + bytes(12))
    with pytest.raises(BuildError, match="module.pyc is not an unchecked-hash pyc"):
        checks.check_tree(tmp_path)


# ---- What a wheel or a placed file could do ----

HOSTILE = "#!/bin/sh\nid >/ran\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def tree_of_the_host(tmp_path):
    """A root that runs this host's programs, with traps wherever wheels and placed files may lie."""
    root = tmp_path / "root"
    for name in ("proc", "dev", "tmp", "run", "usr/local/bin", "usr/local/lib/python3.11/dist-packages"):
        (root / name).mkdir(parents=True)
    for name in ("env", "python3", "setpriv", "sh", "cat"):
        (root / "usr/local/bin" / name).write_text(HOSTILE)
        (root / "usr/local/bin" / name).chmod(0o755)
    return root


def all_of_it(root, command):
    """The command with the host's /usr below the traps."""
    binds = "".join(f'mkdir -p "{root}/{name}" && mount --rbind /{name} "{root}/{name}"; ' for name in ("usr/bin", "usr/lib", "lib", "lib64", "bin"))
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{binds}exec "$@"', "sh", *map(str, command)]


@needs_root
@pytest.mark.parametrize("is_user", [False, True])
def test_what_runs_in_the_tree_has_no_rights_and_is_found_by_its_full_path(tmp_path, monkeypatch, is_user):
    root = tree_of_the_host(tmp_path)
    monkeypatch.setattr(running, "IN_ROOT", running.IN_ROOT.replace('mount --bind "$root"', 'mount --rbind "$root"'))
    attempts = """
        cat /proc/self/status
        ( : >/proc/sys/kernel/core_pattern ) 2>/dev/null && echo WROTE a setting of the host
        chmod 666 /dev/null 2>/dev/null && echo CHANGED a device of the host
        mknod /tmp/x b 8 0 2>/dev/null && echo MADE a device
        chroot / /usr/bin/true 2>/dev/null && echo LEFT the root
        ( : >/written ) 2>/dev/null && echo WROTE to the tree
        exit 0
    """.replace("cat", "/usr/bin/cat")
    command = running.in_root(root, ["/usr/bin/env", "PATH=/usr/bin:/usr/sbin", "/bin/sh", "-c", attempts], is_user=is_user)
    done = subprocess.run(all_of_it(root, command), capture_output=True, text=True)
    said = dict(line.partition(":\t")[::2] for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    assert said["CapBnd"] == said["CapEff"] == said["CapPrm"] == "0000000000000000" and said["NoNewPrivs"] == "1"
    assert said["Uid"].split() == (["1000"] * 4 if is_user else ["0"] * 4)
    done_to_it = [line for line in done.stdout.splitlines() if line.split(" ")[0] in ("WROTE", "CHANGED", "MADE", "LEFT")]
    assert done_to_it == ([] if is_user else ["WROTE to the tree"]), done_to_it
    assert not (root / "ran").exists()


class Recorder:
    """In the place of a runner: what would have been run, and as whom."""

    def __init__(self):
        self.ran = []

    def as_owner(self, root, command, what, **options):
        self.ran.append(("owner", command))

    def as_user(self, root, command, what, **options):
        self.ran.append(("user", command))
        return b"fontlist-v1.json\n{}"


def test_no_code_of_wheels_or_placed_files_runs_as_the_trees_owner(templates, tmp_path):
    root, recorder, template = tmp_path / "root", Recorder(), load(templates)
    (root / "usr/local/lib/python3.11/dist-packages/matplotlib").mkdir(parents=True)
    (root / "etc").mkdir(), (root / "usr/bin").mkdir()
    tree.configure(recorder, template, root)
    tree.compile_python(recorder, template, root)
    (fonts_by, _fonts), (compiled_by, compiler) = recorder.ran
    assert fonts_by == "user" and (root / "usr/share/sandglass/matplotlib/fontlist-v1.json").read_text() == "{}"
    # Without site neither sitecustomize nor a .pth file is read; -P leaves the working folder out.
    assert compiled_by == "owner" and compiler[:5] == ["/usr/bin/python3", "-S", "-P", "-m", "compileall"]


@pytest.mark.parametrize("said", [b"", b"fontlist-v1.json", b"../x.json\n{}", b"fontlist-v1.json/../x\n{}", b"warning\nfontlist-v1.json\n{}"])
def test_a_list_of_fonts_has_one_place(tmp_path, said):
    if said == b"fontlist-v1.json":
        tree.keep_fonts(tmp_path, said)
    else:
        with pytest.raises(BuildError, match="no list of fonts"):
            tree.keep_fonts(tmp_path, said)
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert kept == (["fontlist-v1.json"] if said == b"fontlist-v1.json" else [])


def test_what_the_check_says_is_looked_at():
    good = {"python_version": "3.11.2", "import_seconds": {"IPython": 0.5}}
    assert checks.read_measured(json.dumps(good | {"more": 1}).encode()) == good
    for said in (
        b"", b"{", b"[]", b"[" * 100000, b"\xff", json.dumps(good | {"python_version": "x" * 9}).encode(),
        json.dumps(good | {"python_version": {}}).encode(), json.dumps(good | {"import_seconds": {"a": "b"}}).encode(),
        json.dumps({"python_version": "3.11.2"}).encode(), json.dumps(good | {"import_seconds": []}).encode(),
    ):  # fmt: skip
        with pytest.raises(BuildError):
            checks.read_measured(said)


def test_what_the_check_prints_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "OUTPUT_LIMIT", 1000)
    monkeypatch.setattr(running, "in_root", lambda root, command, **options: command)
    runner = running.Runner(tmp_path / "log", quiet=True)
    assert runner.as_user(tmp_path, ["printf", "12"], "it") == b"12"
    with pytest.raises(BuildError, match="printed more than"):
        runner.as_user(tmp_path, ["head", "-c", "1001", "/dev/zero"], "it")


def test_a_tool_that_fills_the_disk_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "SPACE_KEPT", 1 << 62)
    runner = running.Runner(tmp_path / "log", quiet=True)
    process = runner.start(["sleep", "60"])
    with pytest.raises(BuildError, match="pip was ended: the disk is nearly full"):
        runner.finish(process, "pip")
    assert process.returncode is not None


@pytest.fixture
def download(tmp_path, monkeypatch):
    """As after pip has run; the test puts into it what pip has left."""
    monkeypatch.setattr(os, "chown", lambda *_: None)
    (tmp_path / "wheels").mkdir()
    return fetch.Download(tmp_path / "download")


def test_what_pip_has_fetched_is_taken_out_of_its_hands(download, tmp_path):
    (download.folder / "wheels/some_thing-1.0+x-py3-none-any.whl").write_bytes(b"wheel")
    download.collect(tmp_path / "wheels")
    assert [path.name for path in (tmp_path / "wheels").iterdir()] == ["some_thing-1.0+x-py3-none-any.whl"]
    assert not download.folder.exists()


def test_a_file_of_holes_does_not_fill_the_disk(download, tmp_path):
    (download.folder / "wheels/x-1-py3-none-any.whl").touch()
    os.truncate(download.folder / "wheels/x-1-py3-none-any.whl", shutil.disk_usage(tmp_path).free)
    with pytest.raises(BuildError, match="no room"):
        download.collect(tmp_path / "wheels")
    assert list((tmp_path / "wheels").iterdir()) == []


@pytest.mark.parametrize("name, kind", [("lock.txt", "file"), (".whl", "file"), ("-x-1.whl", "file"), ("x-1-py3-none-any.whl", "link"), ("x-1-py3-none-any.whl", "pipe"), ("x-1-py3-none-any.whl", "folder")])
def test_what_is_no_wheel_is_not_taken(download, tmp_path, name, kind):
    path = download.folder / "wheels" / name
    (tmp_path / "secret").write_text("secret")
    {"link": lambda: path.symlink_to(tmp_path / "secret"), "pipe": lambda: os.mkfifo(path), "file": path.touch, "folder": path.mkdir}[kind]()
    with pytest.raises((BuildError, OSError)):
        download.collect(tmp_path / "wheels")
    assert list((tmp_path / "wheels").iterdir()) == []


def test_pip_of_the_host_runs_as_nobody_in_a_folder_of_its_own(download, templates, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "find_pip", lambda version=None: ["python3", "-m", "pip"])
    (tmp_path / "pip.conf").write_text("[global]\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    words = [str(word) for word in download.command(load(templates), "six")]
    before, _, pip = " ".join(words).partition(" python3 -m pip download ")
    assert "--net" not in words and f"--reuid={running.DOWNLOADER}" in words and "--bounding-set=-all" in words and "--no-new-privs" in words
    assert "PIP_CONFIG_FILE=/media/download/pip.conf" in before and (download.folder / "pip.conf").read_text() == "[global]\n"
    assert "--dest /media/download/wheels" in pip and pip.endswith(" six")


@needs_root
def test_a_python_that_only_root_can_reach_does_not_run_pip(tmp_path, monkeypatch):
    python = tmp_path / "closed/python3"
    python.parent.mkdir(0o700)
    shutil.copy("/bin/echo", python)  # says something and ends well, for whoever can run it
    monkeypatch.setattr(sys, "executable", str(python))
    with contextlib.suppress(BuildError):  # where no other Python has a pip
        assert str(python) not in fetch.find_pip()


def test_an_archive_that_unpacks_to_any_size_ends_pip(templates):
    command = fetch.download_command(load(templates), "wheels")
    limited = command[: command.index("--core=0") + 1]
    done = subprocess.run([*limited, sys.executable, "-c", "bytearray(5 << 30)"], capture_output=True, text=True)
    assert done.returncode != 0 and "MemoryError" in done.stderr
