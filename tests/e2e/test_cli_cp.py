"""sandglass cp: both ways, files, folders and streams; what it must not do with what a sandbox names."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys

import pytest
from cli import PROGRAM, sandglass, start, surroundings  # noqa: F401
from daemon import PATIENCE, wait_until


PEAK = """if True:
    import resource, subprocess, sys
    code = subprocess.call(sys.argv[1:])
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    sys.exit(code)"""


@pytest.fixture
def cp(sandglass):
    def copy(*arguments, code=0, **options):
        done = sandglass("cp", *arguments, **options)
        assert done.returncode == code, done
        return done

    return copy


def test_a_file_goes_in_and_comes_out(cp, box, tmp_path):
    (tmp_path / "a b.bin").write_bytes(bytes(range(256)) * 1000)
    assert cp(tmp_path / "a b.bin", f"{box.id[:10]}:in.bin").stderr == ""
    assert box.exec("stat -c '%U %a %s' /workspace/in.bin").stdout == "user 644 256000\n"
    cp(f"{box.id}:/workspace/in.bin", tmp_path / "out.bin")
    assert (tmp_path / "out.bin").read_bytes() == (tmp_path / "a b.bin").read_bytes()
    assert stat.S_IMODE((tmp_path / "out.bin").stat().st_mode) == 0o644


def test_where_a_copy_goes(cp, box, tmp_path):
    (tmp_path / "f").write_text("x")
    cp(tmp_path / "f", f"{box.id}:")  # into the working folder
    cp(tmp_path / "f", f"{box.id}:/tmp")
    cp(tmp_path / "f", f"{box.id}:deep/down/")
    cp(tmp_path / "f", f"{box.id}:deep/other name")
    assert box.exec("ls /workspace/f /tmp/f deep/down/f 'deep/other name'").exit_code == 0
    (tmp_path / "into").mkdir()
    cp(f"{box.id}:deep/down/f", tmp_path / "into")
    cp(f"{box.id}:f", ".", cwd=tmp_path / "into")
    cp(f"{box.id}:f", "g", cwd=tmp_path / "into")
    assert sorted(os.listdir(tmp_path / "into")) == ["f", "g"]
    assert "there is no folder" in cp(f"{box.id}:f", f"{tmp_path}/nowhere/", code=1).stderr


def test_streams_go_both_ways(sandglass, cp, box):
    content = os.urandom(300_000)
    cp("-", f"{box.id}:streamed", input=content, text=False)
    assert cp(f"{box.id}:streamed", "-", text=False).stdout == content
    assert "is a folder" in cp("-", f"{box.id}:/tmp", input="", code=1).stderr
    assert cp(f"{box.id}:streamed", "/dev/null").stdout == ""


def test_what_may_be_run_may_be_run_inside(cp, box, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho it runs\n")
    (tmp_path / "tool").chmod(0o755)
    cp(tmp_path / "tool", f"{box.id}:it's a tool")
    assert box.exec("\"./it's a tool\"").stdout == "it runs\n"


def test_a_folder_goes_in_and_comes_out_whole(cp, box, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub/deeper").mkdir(parents=True)
    (tree / "empty").mkdir()
    (tree / "sub/deeper/ü ' \n").write_text("odd name")
    (tree / "sub/run").write_text("#!/bin/sh\n")
    (tree / "sub/run").chmod(0o700)
    (tree / "link").symlink_to("/etc/passwd")
    done = cp(tree, f"{box.id}:copy")
    assert "2 files in 4 folders copied, 1 left out" in done.stderr and "link: a link" in done.stderr
    assert box.exec("test -d copy/empty && test -x copy/sub/run && test ! -e copy/link").exit_code == 0
    cp(tree, f"{box.id}:copy")  # into what is there now
    assert box.exec("test -d copy/tree/sub").exit_code == 0
    cp(f"{box.id}:copy", tmp_path / "back")
    assert (tmp_path / "back/tree/sub/deeper/ü ' \n").read_text() == "odd name" and (tmp_path / "back/empty").is_dir()
    (tmp_path / "there").mkdir()
    cp(f"{box.id}:copy/sub", tmp_path / "there")
    assert (tmp_path / "there/sub/run").exists()


def test_links_inside_are_not_followed_out(cp, box, tmp_path):
    box.exec("mkdir d && cd d && ln -s / root && ln -s /etc/passwd p && mkfifo pipe && echo 1 >f && ln -s . loop")
    done = cp(f"{box.id}:d", tmp_path / "d")
    assert os.listdir(tmp_path / "d") == ["f"] and "4 left out" in done.stderr


def test_links_here_lead_nothing_out_of_the_target(cp, box, tmp_path):
    box.exec("mkdir -p d/sub && echo evil >d/sub/f && echo evil >d/g")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/g").write_text("mine")
    (tmp_path / "into/d").mkdir(parents=True)
    (tmp_path / "into/d/sub").symlink_to(tmp_path / "outside")
    (tmp_path / "into/d/g").symlink_to(tmp_path / "outside/g")
    done = cp(f"{box.id}:d", tmp_path / "into", code=1)
    assert "'sub'" in done.stderr
    assert os.listdir(tmp_path / "outside") == ["g"] and (tmp_path / "outside/g").read_text() == "mine"


def test_names_that_cannot_be_used_here_are_left_out(cp, box, tmp_path):
    box.exec(r"""mkdir d; touch "$(printf 'd/a\377')" "$(printf 'd/\033[2J')" d/good""")
    done = cp(f"{box.id}:d", tmp_path / "d")
    assert "1 left out" in done.stderr and "\x1b" not in done.stderr
    assert sorted(os.listdir(tmp_path / "d")) == ["\x1b[2J", "good"]


def test_a_target_is_whole_or_as_it_was(start, cp, box, tmp_path):
    target = tmp_path / "target"
    target.write_text("as it was")
    target.chmod(0o640)
    box.exec("head -c 1000 /dev/zero >small; truncate -s 400M big")
    process = start("cp", f"{box.id}:big", target)
    wait_until(lambda: any(name.startswith(".sandglass-cp-") for name in os.listdir(tmp_path)) or process.poll() is not None, 10, "it has begun")
    process.send_signal(signal.SIGINT)
    code = process.wait(20 * PATIENCE)
    assert code == 130, (code, process.stderr.read())
    assert target.read_text() == "as it was" and os.listdir(tmp_path) == ["target"]
    cp(f"{box.id}:small", target)
    assert target.read_bytes() == bytes(1000) and stat.S_IMODE(target.stat().st_mode) == 0o640


def test_an_upload_that_is_broken_off_changes_nothing(start, box):
    box.exec("echo as it was >kept")
    process = start("cp", "-", f"{box.id}:kept", stdin=subprocess.PIPE)
    process.stdin.write("x" * 200_000)
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10 * PATIENCE) == -signal.SIGTERM
    process.stdin.close()
    process.stdin = None
    assert box.exec("cat kept; ls -A").stdout == "as it was\nkept\n"


def test_what_does_not_fit_is_told_in_the_daemons_words(sandglass, cp, api, tmp_path):
    box = api.post("/sandboxes", json={"template": "code-interpreter", "limits": {"files_mb": 4}}).json()["id"]
    with open(tmp_path / "large", "wb") as large:
        large.truncate(64 << 20)
    done = cp(tmp_path / "large", f"{box}:large", code=1)
    assert "4 MiB" in done.stderr or "space" in done.stderr or "limit" in done.stderr, done.stderr
    assert sandglass("exec", box, "ls", "-A").stdout == ""
    sandglass("rm", box)


def test_contents_pass_through_in_pieces(daemon, box, tmp_path):
    size = 200 << 20
    with open(tmp_path / "large", "wb") as large:
        for block in range(size >> 20):
            large.write(hashlib.sha256(bytes([block])).digest() * (1 << 15))
    for arguments in ((tmp_path / "large", f"{box.id}:large"), (f"{box.id}:large", tmp_path / "back")):
        # Measured by a small process: a child begins with the peak of the one that forked it.
        measured = [sys.executable, "-c", PEAK, *PROGRAM, "cp", *map(str, arguments)]
        done = subprocess.run(measured, env=surroundings(daemon), stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0 and int(done.stdout) << 10 < size / 2
    assert subprocess.run(["cmp", tmp_path / "large", tmp_path / "back"]).returncode == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("{id}:nothing", "x"), "there is no '/workspace/nothing'"),
        (("{id}:/etc/shadow", "x"), "/etc/shadow"),
        (("nothing here", "{id}:x"), "nothing here"),
        (("/etc/hostname", "{id}:/etc/hostname"), "/etc/hostname"),
        (("/etc", "{id}:/etc/hostname"), "is a file"),
        (("{id}:/proc/1/environ", "x"), "/proc"),
        (("/etc/hostname", "0123456789abcdef:x"), "begins with"),
        (("{id}:/tmp", "/etc/hostname"), "cannot use the folder"),
    ],
)
def test_why_a_copy_cannot_be_made(cp, box, tmp_path, arguments, words):
    done = cp(*(argument.replace("{id}", box.id) for argument in arguments), code=1, cwd=tmp_path)
    assert words in done.stderr and os.listdir(tmp_path) == []
