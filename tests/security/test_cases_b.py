"""Cases B: the file system. Judged by effects: a secret planted on the host stays unread, a marker unwritten, and a
sandbox made afterwards is as the first one was.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat

import expected
import pytest
from inside import differences

SOME_IMAGE_FILES = ("/usr/bin/env", "/etc/passwd", "/usr/lib/python3.11/os.py", "/usr/lib/sandglass/python/sandglass_kernel/runner.py")


@pytest.fixture
def planted(tmp_path_factory):
    """A file on the host that no sandbox may read, and the words in it."""
    words = "secret-" + secrets.token_hex(16)
    path = tmp_path_factory.mktemp("planted") / "SECRET"
    path.write_text(words)
    path.chmod(0o644)
    folder = path.parent
    while folder != folder.parent:  # permissions must not be what protects it
        if folder.stat().st_mode & 0o055 != 0o055 and folder.is_relative_to(tmp_path_factory.getbasetemp().parent.parent):
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o055)
        folder = folder.parent
    return path, words


def digests(box) -> dict[str, str]:
    lines = box.shell("sha256sum " + " ".join(SOME_IMAGE_FILES)).splitlines()
    return {line.split()[1]: line.split()[0] for line in lines}


@pytest.fixture
def pristine(boxes):
    """Digests and modes of some files in a sandbox nobody touched; call it again to compare with a new one."""

    def see() -> dict[str, str]:
        box = boxes()
        seen = digests(box)
        seen["modes"] = box.shell("stat -c '%n %a %u %g %s' / /usr /usr/bin /etc /tmp /home/user " + " ".join(SOME_IMAGE_FILES))
        seen["names"] = box.shell("ls -A / /usr/local /etc /tmp /home/user /workspace /dev/shm | grep -v '^total'")
        box.kill()
        return seen

    return see


def test_9_no_path_leads_out_of_the_root(look, planted):
    path, words = planted
    seen = look.python(f"""
import glob, json, os
tail = {str(path)!r}
mounts = [line.split()[4] for line in open('/proc/self/mountinfo')]
starts = [m.rstrip('/') for m in mounts] + ['/proc/self/cwd', '/proc/self/root', '/dev/fd', '/proc/thread-self/root', '']
ups = ['/..' * n for n in (1, 3, 20)] + ['/./..//..' * 5, '//' + '../' * 30]
paths = [s + u + tail for s in starts for u in ups + ['']] + [tail, '//' + tail, '/proc/1/root' + tail, '../' * 40 + tail]
found = []
for path in paths:
    try:
        found.append(open(path).read(200))
    except OSError as problem:
        pass
shadow = []
for up in ('/etc/shadow', '/../../../etc/shadow', '/proc/self/root/../../etc/shadow'):
    try:
        shadow.append(open(up).read(4000))
    except OSError as problem:
        shadow.append(problem.strerror)
print(json.dumps([found, shadow, len(paths)]))
""")
    assert seen[0] == []
    with open("/etc/shadow") as file:
        lines = [line for line in file if len(line) > 20]
    assert not any(line in text for line in lines for text in seen[1])


@pytest.mark.parametrize("mode", ["write", "both", "append", "truncate", "create"])
def test_10_the_image_cannot_be_opened_for_writing(look, mode):
    report = look.probe("open", mode, *SOME_IMAGE_FILES)
    assert report == dict.fromkeys(SOME_IMAGE_FILES, "EACCES")


def test_10_what_code_does_to_the_image_is_not_seen_by_the_next_sandbox(look, pristine):
    before = pristine()
    seen = look.python(f"""
import json, os, shutil
answers = {{}}
def attempt(name, function, *args):
    try:
        function(*args)
        answers[name] = 'OK'
    except OSError as problem:
        answers[name] = os.strerror(problem.errno) if problem.errno else 'error'
for path in {SOME_IMAGE_FILES!r} + ('/usr', '/usr/bin', '/etc'):
    attempt('unlink ' + path, os.unlink, path)
    attempt('rmdir ' + path, os.rmdir, path)
    attempt('chmod ' + path, os.chmod, path, 0o777)
    attempt('chown ' + path, os.chown, path, 1000, 1000)
    attempt('rename ' + path, os.rename, path, '/tmp/taken')
    attempt('replace ' + path, os.replace, '/proc/self/status', path)
    attempt('utime ' + path, os.utime, path)
    attempt('link ' + path, os.link, path, '/tmp/linked-' + path.replace('/', '-'))
    attempt('symlink ' + path, os.symlink, '/tmp', path + '/probe-link')
    attempt('mkdir ' + path, os.mkdir, path + '/probe-folder')
    attempt('truncate ' + path, os.truncate, path, 0)
    attempt('xattr ' + path, os.setxattr, path, 'user.probe', b'1')
print(json.dumps(answers))
""")
    # A hard link into one's own folder copies nothing up that others see; all else is refused.
    done = [name for name, answer in seen.items() if answer == "OK" and not name.startswith("link ")]
    assert done == []
    assert pristine() == before


def test_11_after_deleting_everything_the_next_sandbox_is_perfect(look, pristine, boxes):
    before = pristine()
    if look.way == "command":
        look.box.command("rm -rf --no-preserve-root / 2>/dev/null; true")
    else:
        look.kernel.run("import subprocess; subprocess.run('rm -rf --no-preserve-root / 2>/dev/null', shell=True)")
        look.kernel.run("import shutil; shutil.rmtree('/', ignore_errors=True)")
    assert pristine() == before
    assert boxes().kernel().said("import pandas; print(1 + 1)") == "2\n"


def test_12_no_mount_can_be_changed(look):
    report = look.probe("remount")
    assert len(report) >= len(expected.MOUNTS)
    assert differences(report, dict.fromkeys(report, expected.REMOUNT_OF_EACH)) == []


def test_12_nothing_can_be_mounted(look):
    assert differences(look.probe("mount"), expected.MOUNT) == []


def test_13_chroot_is_refused(look):
    others = look.probe("mount")["others"]
    assert others["chroot"] == others["chroot twice"] == others["pivot_root"] == "EPERM"


def test_14_walking_up_never_leaves_the_root(look):
    seen = look.python("""
import json, os
told = []
os.chdir('/')
for _ in range(64):
    os.chdir('..')
told.append(os.getcwd())
told.append(sorted(os.listdir('.')) == sorted(os.listdir('/')))
told.append([os.stat('/..').st_ino == os.stat('/').st_ino, os.stat('/../..').st_dev == os.stat('/').st_dev])
links = {}
for name in ['cwd', 'root', 'exe'] + ['fd/' + n for n in os.listdir('/proc/self/fd')]:
    try:
        links[name] = os.readlink('/proc/self/' + name)
    except OSError as problem:
        links[name] = problem.strerror
try:
    links['1'] = os.readlink('/proc/1/cwd')
except OSError as problem:
    links['1'] = problem.strerror
fd = os.open('/', os.O_RDONLY | os.O_DIRECTORY)
for _ in range(30):
    fd = os.open('..', os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
told.append(os.fstat(fd).st_ino == os.stat('/').st_ino)
print(json.dumps([told, links]))
""")
    told, links = seen
    assert told == ["/", True, [True, True], True]
    assert not any("unreachable" in target or "deleted" in target for target in links.values()), links
    assert links["root"] == "/"
    assert links["1"] == "Permission denied"


def test_16_magic_links_stay_inside(look, planted):
    path, words = planted
    seen = look.python(f"""
import glob, json, os
tail = {str(path)!r}
places = ['/proc/self/root/..', '/proc/self/cwd/../..', '/proc/thread-self/root/..']
places += [p + '/..' * 12 for p in glob.glob('/proc/self/task/*/root') + glob.glob('/proc/self/task/*/cwd') + glob.glob('/proc/[0-9]*/root') + glob.glob('/proc/[0-9]*/cwd')]
places += [f'/proc/self/fd/{{n}}/..' for n in os.listdir('/proc/self/fd')]
read = []
for place in places:
    try:
        read.append(open(place + tail).read(100))
    except OSError:
        pass
maps = []
try:
    for name in os.listdir('/proc/self/map_files')[:20]:
        try:
            os.close(os.open('/proc/self/map_files/' + name, os.O_RDONLY))
            maps.append('OK')
        except OSError as problem:
            maps.append(problem.strerror)
except OSError as problem:
    maps.append(problem.strerror)
print(json.dumps([read, sorted(set(maps)), len(places)]))
""")
    read, maps, tried = seen
    assert read == [] and tried > 5
    assert maps in (["Operation not permitted"], ["Permission denied"]), maps


def test_17_programs_and_libraries_in_use_cannot_be_overwritten(look, pristine):
    before = pristine()
    seen = look.python("""
import ctypes, json, os
paths = {line.split()[5] for line in open('/proc/self/maps') if len(line.split()) > 5 and line.split()[5].startswith('/usr')}
paths |= {'/proc/self/exe', os.path.realpath('/proc/self/exe'), '/usr/bin/python3', '/bin/sh'}
answers = {}
def attempt(name, function):
    try:
        function()
        answers[name] = 'OK'
    except OSError as problem:
        answers[name] = problem.strerror
for path in sorted(paths):
    attempt('write ' + path, lambda: os.open(path, os.O_WRONLY))
    attempt('both ' + path, lambda: os.open(path, os.O_RDWR))
    def reopened(flags):
        held = os.open(path, getattr(os, 'O_PATH'))
        os.open(f'/proc/self/fd/{held}', flags)
    attempt('path then write ' + path, lambda: reopened(os.O_WRONLY))
    attempt('path then truncate ' + path, lambda: reopened(os.O_WRONLY | os.O_TRUNC))
print(json.dumps(answers))
""")
    assert len(seen) > 8
    refusals = {"Permission denied", "Read-only file system", "Text file busy"}
    assert {name: answer for name, answer in seen.items() if answer not in refusals} == {}
    assert pristine() == before


def test_17_the_program_is_safe_after_exec_too(boxes, pristine):
    before = pristine()
    box = boxes()
    kernel = box.kernel()
    # The child holds its own /proc/self/exe, execs something else, and tries to write what it was.
    seen = kernel.said(
        "import subprocess\n"
        "script = 'exec 7</proc/self/exe; exec sh -c \"echo changed > /proc/self/fd/7; echo changed > /proc/$PPID/exe; echo tried\"'\n"
        "print(subprocess.run(['bash', '-c', script], capture_output=True, text=True))"
    )
    assert "tried" in seen and "denied" in seen.lower()
    assert pristine() == before


@pytest.mark.parametrize("folder", ["/tmp", "/home/user", "/workspace", "/mnt/data", "/dev/shm"])
def test_18_device_nodes_cannot_be_made(look, folder):
    assert differences(look.probe("mknod", folder)[folder], expected.MKNOD) == []


def test_18_nothing_can_be_made_in_dev(look):
    seen = look.probe("mknod", "/dev")["/dev"]
    assert differences(seen, expected.MKNOD_READ_ONLY) == []


def test_19_a_setuid_copy_changes_nobody(look):
    # -p: a shell would otherwise drop a foreign effective id by itself
    script = (
        "mkdir -p /tmp/copies && cd /tmp/copies && cp /tmp/probe/sandglass-probe suid && cp suid sgid && chmod 4755 suid && chmod 2755 sgid && "
        "./suid ids; ./sgid ids; cp /bin/bash b && chmod 6755 b && ./b -p -c 'id -u; id -g'"
    )
    look.box.with_probe()
    seen = look.python(f"""
import json, subprocess
answer = subprocess.run({script!r}, shell=True, capture_output=True, text=True)
print(json.dumps([line for line in answer.stdout.splitlines() if line]))
""")
    ids = '{"uid":"1000 1000 1000","gid":"1000 1000 1000","permitted":"0000000000000000","effective":"0000000000000000","groups":0}'
    assert seen == [ids, ids, "1000", "1000"]


def test_19_no_file_of_the_image_is_setuid_or_has_capabilities(boxes):
    box = boxes()
    assert box.shell("find / -xdev -perm /6000 -type f 2>/dev/null; true") == ""
    found = box.kernel().value(
        "import json, os\n"
        "found = []\n"
        "for folder, _, names in os.walk('/usr'):\n"
        "    for name in names:\n"
        "        path = os.path.join(folder, name)\n"
        "        try:\n"
        "            if not os.path.islink(path) and os.listxattr(path):\n"
        "                found.append(path)\n"
        "        except OSError:\n"
        "            pass\n"
        "print(json.dumps(found))"
    )
    assert found == []


@pytest.mark.parametrize("program", ["su -c id", "sudo id", "ping -c1 127.0.0.1", "mount -o remount,rw /", "newgrp root", "passwd"])
def test_19_programs_that_would_change_ids_do_not(boxes, program):
    box = boxes()
    answer = box.command(f"timeout 5 {program} </dev/null; echo; id -u")
    assert answer["stdout"].split()[-1] == "1000"
    assert "uid=0" not in answer["stdout"]


@pytest.mark.parametrize("folder", ["/tmp", "/home/user", "/workspace", "/mnt/data"])
def test_20_filling_the_files_ends_at_the_limit_and_hurts_nobody(boxes, folder):
    box, other = boxes(limits={"files_mb": 64}), boxes()
    free = os.statvfs("/").f_bavail
    seen = box.probe("tmpfs-fill", folder)
    assert seen["error"] == "ENOSPC"
    assert 55 << 20 < seen["count"] <= 64 << 20
    assert other.shell("echo fine > /tmp/x && cat /tmp/x") == "fine\n"
    assert abs(os.statvfs("/").f_bavail - free) * os.statvfs("/").f_frsize < 64 << 20
    assert box.shell("echo again > /tmp/x && cat /tmp/x") == "again\n"


def test_20_shared_memory_ends_at_its_own_limit(boxes):
    seen = boxes().probe("tmpfs-fill", "/dev/shm")
    assert seen == {"count": 64 << 20, "error": "ENOSPC"}


@pytest.mark.parametrize("folder", ["/dev", "/proc", "/dev/pts", "/usr", "/etc"])
def test_20_what_is_not_meant_for_files_takes_none(look, folder):
    assert look.probe("tmpfs-fill", folder)["error"] in {"EACCES", "EROFS", "ENOENT", "EPERM"}


def test_20_a_cell_that_fills_the_files_is_told(boxes):
    kernel = boxes(limits={"files_mb": 32}).kernel()
    answer = kernel.run("with open('/tmp/large', 'wb') as file:\n    while True:\n        file.write(bytes(1 << 20))")
    assert answer["exit"] == 1 and "No space left" in answer["error"]
    assert "files" in str(answer.get("limits_hit")), answer


def test_21_inodes_are_bounded_and_come_back(boxes):
    box, other = boxes(limits={"inodes": 3000}), boxes()
    seen = box.probe("inode-fill", "/tmp/probe")
    assert seen["error"] == "ENOSPC" and 2000 < seen["count"] <= 3000
    assert seen["after one deletion"] == "OK"
    assert other.shell("touch /tmp/x && echo fine") == "fine\n"


def test_22_huge_sparse_files_are_charged_here_only(boxes):
    box, other = boxes(), boxes()
    told = box.command("truncate -s 7E /tmp/sparse; truncate -s 63G /tmp/sparse2; ls -ls /tmp/sparse* 2>/dev/null; echo end")
    assert told["stdout"].endswith("end\n")
    with box.send("GET", "/fs", params={"path": "/tmp/sparse2"}, stream=True) as answer:  # and left in the middle
        assert answer.status_code == 200 and answer.headers["Content-Length"] == str(63 << 30)
        assert answer.raw.read(1 << 20) == bytes(1 << 20)
    assert other.shell("echo fine") == "fine\n"


def test_22_the_users_files_are_copied_up_within_the_limit(boxes):
    box = boxes(limits={"files_mb": 32})
    # link() copies the image's file up into the sandbox's own folder
    told = box.command("for i in $(seq 200); do ln /usr/bin/python3.11 /tmp/link$i 2>/dev/null || break; done; df -m / | tail -1 | awk '{print $3}'")
    assert int(told["stdout"].split()[-1]) <= 32


def test_23_deep_and_odd_names_are_listed_and_deleted(boxes):
    box = boxes()
    box.kernel().said(
        "import os\n"
        "os.mkdir('/tmp/odd')\n"
        "for name in [b'new\\nline', b'\\xff\\xfe', b'-rf', b' ', b'a' * 255, '\\u202e\\u2028'.encode()]:\n"
        "    open(b'/tmp/odd/' + name, 'wb').close()\n"
        "os.mkdir('/tmp/deep')\n"
        "os.chdir('/tmp/deep')\n"
        "for _ in range(200):\n"
        "    os.mkdir('d' * 100)\n"
        "    os.chdir('d' * 100)\n"
        "os.chdir('/workspace')\n"
        "print('made')"
    )
    listed = box.request("GET", "/fs/dir", params={"path": "/tmp/odd"})["entries"]
    assert len(listed) == 6
    assert {"new\nline", "-rf", " "} <= {entry["name"] for entry in listed}
    deep = box.send("GET", "/fs/dir", params={"path": "/tmp/deep/" + "/".join(["d" * 100] * 60)})
    assert deep.status_code == 400
    assert box.send("DELETE", "/fs", params={"path": "/tmp/deep"}).status_code == 204
    assert box.send("DELETE", "/fs", params={"path": "/tmp/odd/-rf"}).status_code == 204
    assert box.shell("ls /tmp").split() == ["odd"]


@pytest.mark.slow
def test_23_a_folder_of_a_hundred_thousand_entries_is_listed_with_a_bound(boxes):
    box = boxes(limits={"inodes": 120000})
    box.kernel().said("import os\nos.mkdir('/tmp/many')\nfor i in range(100100):\n    os.close(os.open(f'/tmp/many/{i}', os.O_CREAT | os.O_WRONLY))\nprint('made')")
    answer = box.send("GET", "/fs/dir", params={"path": "/tmp/many"})
    assert answer.status_code == 200
    assert len(answer.json()["entries"]) <= 100000
    assert box.send("DELETE", "").status_code == 204


def test_24_mount_points_cannot_be_renamed_or_exchanged(look):
    seen = look.python("""
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
answers = {}
def attempt(name, call, *args):
    ctypes.set_errno(0)
    answers[name] = 'OK' if call(*args) >= 0 else os.strerror(ctypes.get_errno())
for point in ('/dev/shm', '/dev', '/proc', '/dev/pts', '/dev/null', '/proc/sys'):
    attempt('rename ' + point, libc.rename, point.encode(), b'/workspace/moved')
    os.makedirs('/workspace/other', exist_ok=True)
    attempt('exchange ' + point, libc.renameat2, -100, point.encode(), -100, b'/workspace/other', 2)
    attempt('rmdir ' + point, libc.rmdir, point.encode())
    attempt('open_tree ' + point, libc.syscall, 428, -100, point.encode(), 1)
print(json.dumps(answers))
""")
    allowed = {"Device or resource busy", "Operation not permitted", "Invalid cross-device link", "Permission denied", "Read-only file system", "Not a directory"}
    assert {name: answer for name, answer in seen.items() if answer not in allowed} == {}


def test_25_overlay_attributes_uncover_nothing(look, pristine):
    before = pristine()
    seen = look.python("""
import ctypes, json, os
os.makedirs('/tmp/ovl/etc', exist_ok=True)
open('/tmp/ovl/file', 'w').close()
answers = {}
names = [(s, n) for s in ('trusted', 'user') for n in ('redirect', 'opaque', 'metacopy', 'origin', 'whiteout', 'upper', 'impure')]
for space, name in names:
    for path, value in (('/tmp/ovl', b'y'), ('/tmp/ovl/etc', b'/etc'), ('/tmp/ovl/file', b'/usr/bin/env')):
        try:
            os.setxattr(path, f'{space}.overlay.{name}', value)
            answers[f'{space} {name}'] = 'OK'
        except OSError as problem:
            answers[f'{space} {name}'] = problem.strerror
listing = {path: sorted(os.listdir(path)) for path in ('/tmp/ovl', '/tmp/ovl/etc', '/')}
size = os.stat('/tmp/ovl/file').st_size
def mknod():
    libc = ctypes.CDLL(None, use_errno=True)
    return os.strerror(ctypes.get_errno()) if libc.mknod(b'/tmp/ovl/white', 0o20000, 0) < 0 else 'OK'
print(json.dumps([answers, listing, size, mknod()]))
""")
    answers, listing, size, whiteout = seen
    assert all(answer != "OK" for name, answer in answers.items() if name.startswith("trusted"))
    assert listing["/tmp/ovl/etc"] == [] and size == 0
    assert {"etc", "file"} <= set(listing["/tmp/ovl"])
    assert {"usr", "etc", "home", "proc", "dev"} <= set(listing["/"])
    assert pristine() == before


def test_26_file_handles_are_refused(look):
    report = look.probe("handles")
    assert len(report) >= len(expected.MOUNTS)
    assert differences(report, dict.fromkeys(report, expected.HANDLES_OF_EACH)) == []


def test_27_a_read_only_descriptor_cannot_become_writable(look, pristine):
    before = pristine()
    seen = look.python(f"""
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
answers = []
for path in {SOME_IMAGE_FILES!r}:
    fd = os.open(path, os.O_RDONLY)
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_TRUNC):
        try:
            os.open(f'/proc/self/fd/{{fd}}', flags)
            answers.append('OK')
        except OSError as problem:
            answers.append(problem.strerror)
for folder in ('/usr/bin', '/usr/lib/sandglass', '/etc', '/'):
    try:
        fd = os.open(folder, os.O_TMPFILE | os.O_RDWR)
        os.write(fd, b'x')
        answers.append('OK' if libc.linkat(-100, f'/proc/self/fd/{{fd}}'.encode(), -100, b'/usr/bin/probe', 0x400) == 0 else os.strerror(ctypes.get_errno()))
    except OSError as problem:
        answers.append(problem.strerror)
print(json.dumps(answers))
""")
    assert set(seen) <= {"Permission denied", "Read-only file system", "Operation not permitted", "Operation not supported", "Invalid cross-device link"}
    assert pristine() == before


# ---- a trap of this very design: the nodes of /dev are the host's own inodes ----


def test_a4_device_nodes_of_the_host_cannot_be_changed(look):
    paths = [f"/dev/{name}" for name in expected.DEVICES]
    before = {path: os.stat(path) for path in paths if os.path.exists(path)}
    report = look.probe("touch", *paths)
    for path in paths:
        wanted = dict(expected.TOUCH_NODE)
        if path == "/dev/tty":  # opens only with a controlling terminal
            wanted["touch open"] = {"ENXIO", "EROFS"}
            wanted["lease"] = {"ENXIO", *wanted["lease"]}
        if path == "/dev/full":
            wanted["touch open"] = {"EROFS"}
        assert differences(report[path], wanted) == [], path
    for path, old in before.items():
        new = os.stat(path)
        assert (new.st_mode, new.st_uid, new.st_gid) == (old.st_mode, old.st_uid, old.st_gid), path
        assert new.st_mtime != 1000 or old.st_mtime == 1000, path


def test_a4_device_nodes_look_as_nobodys(boxes):
    owners = boxes().shell("stat -c '%u %a' " + " ".join(f"/dev/{name}" for name in expected.DEVICES)).split("\n")
    assert all(owner.split()[0] not in ("1000", "999") for owner in owners if owner)


def test_digest_of_the_runner_is_the_one_that_was_built(boxes):
    """The files that the pristine fixture looks at are the real ones."""
    seen = digests(boxes())
    assert len(seen) == len(SOME_IMAGE_FILES)
    assert all(len(digest) == 64 and digest != hashlib.sha256(b"").hexdigest() for digest in seen.values())
