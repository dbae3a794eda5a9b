"""From Debian's tree to the one of the image: wheels in, settings, what nobody reads out, compiled, no rights left."""

import os
import re
import shutil

from builder import BuildError
from builder.files import remove

# The image is read-only and the sandbox's mounts come on top: their places have to be there.
MOUNT_POINTS = {
    "proc": 0o555, "sys": 0o555, "dev": 0o755, "run": 0o755, "tmp": 0o1777, "var/tmp": 0o1777,
    "workspace": 0o755, "home/user": 0o755, "mnt/data": 0o755, "usr/lib/sandglass": 0o755,
}  # fmt: skip

# State of a running or package-managed system, which a sandbox is not. dpkg's database stays: it
# says what is installed, and the copyright files stay because the image may be passed on.
PRUNED = [
    "etc/apt", "etc/*.dpkg-*", "etc/dpkg/dpkg.cfg.d/*", "etc/passwd-", "etc/group-", "etc/shadow*", "etc/gshadow*",
    "etc/subuid-", "etc/subgid-", "etc/cron.daily", "etc/init.d", "etc/rc*.d", "etc/update-motd.d", "etc/motd",
    "boot", "media", "srv", "root/.[!.]*", "run/*", "tmp/*", "var/tmp/*", "dev/*",
    "usr/share/info", "usr/share/lintian", "usr/share/bug",
    "var/cache/*", "var/log/*", "var/lib/apt", "var/lib/dpkg/*-old", "var/lib/systemd", "var/backups", "var/mail",
    "usr/lib/python3.*/EXTERNALLY-MANAGED",  # pip install then goes to ~/.local, as users expect
]  # fmt: skip


def install_wheels(runner, template, root, wheels):
    """By the target's Python, so that scripts name it and land under its prefix; pip runs from its own wheel."""
    shutil.copy(template.lock, wheels / "lock.txt")
    pip = next((path.name for path in wheels.glob("pip-*.whl")), None)
    if not pip:
        raise BuildError(f"{template.lock.name} does not name pip", "add pip to wheels.wanted and make the lock again")
    command = ["/usr/bin/python3", f"/run/wheels/{pip}/pip", "install", "--quiet", "--break-system-packages"]
    command += ["--root-user-action=ignore", "--no-index", "--find-links=/run/wheels", "--no-deps", "--no-compile"]
    command += ["--require-hashes", "--requirement=/run/wheels/lock.txt"]
    runner.as_owner(root, command, "installing the wheels", wheels=wheels)


def configure(runner, template, root):
    shutil.copytree(template.skeleton, root, dirs_exist_ok=True)
    for path in template.skeleton.rglob("*"):
        if path.is_file():
            (root / path.relative_to(template.skeleton)).chmod(0o644)
    (root / "etc/localtime").unlink(missing_ok=True)
    if (root / "usr/share/zoneinfo/Etc/UTC").exists():  # without tzdata the C library means UTC anyway
        (root / "etc/localtime").symlink_to("/usr/share/zoneinfo/Etc/UTC")
    for link, target in (("etc/mtab", "../proc/self/mounts"), ("usr/bin/python", "python3")):
        (root / link).unlink(missing_ok=True)
        (root / link).symlink_to(target)
    for edit in template.spec.get("edit", []):
        edit_files(root, **edit)
    if (root / f"usr/local/lib/python{template.python}/dist-packages/matplotlib").exists():
        # matplotlib writes its list of fonts into whichever folder it is told, 0.3 s of work. A process
        # that is warmed from this image copies it, since matplotlib takes no folder it cannot write to.
        command = ["MPLCONFIGDIR=/tmp/matplotlib", "/usr/bin/python3", "-c", LIST_FONTS]
        keep_fonts(root, runner.as_user(root, command, "listing the fonts for matplotlib"))


LIST_FONTS = """
import pathlib, sys
sys.stdout = sys.stderr
import matplotlib.font_manager
for path in pathlib.Path("/tmp/matplotlib").glob("fontlist-*.json"):
    sys.__stdout__.write(f"{path.name}\\n{path.read_text()}")
"""


def keep_fonts(root, said):
    """The list of fonts as matplotlib wrote it: its name, and the rest."""
    name, _, content = said.partition(b"\n")
    if not re.fullmatch(rb"fontlist-v[0-9.]{1,20}\.json", name):
        raise BuildError("matplotlib has made no list of fonts")
    folder = root / "usr/share/sandglass/matplotlib"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name.decode()).write_bytes(content)


def edit_files(root, path, find, replace):
    """Replaces a text in every file that matches the path and has it. None is an error: what was to be
    edited has changed, and somebody has to look."""
    found = False
    for file in root.glob(path):
        text = file.read_text()
        if find in text:
            file.write_text(text.replace(find, replace))
            found = True
    if not found:
        raise BuildError(f"no file '{path}' contains '{find}'", "correct that [[edit]] in template.toml")


def prune(template, root):
    """Removes what no running program reads."""
    spec = template.spec["prune"]
    for pattern in [*PRUNED, *spec["paths"]]:
        for path in root.glob(pattern):
            remove(path)
    installed = root / f"usr/local/lib/python{template.python}/dist-packages"
    for folder, folders, files in os.walk(installed):
        for name in [name for name in folders if name in spec["folders"]]:
            shutil.rmtree(os.path.join(folder, name))
            folders.remove(name)
        for name in files:
            if name.endswith(tuple(spec["suffixes"])):
                os.unlink(os.path.join(folder, name))


def make_mount_points(root):
    for name, mode in MOUNT_POINTS.items():
        path = root / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)


# Without site and the working folder: what is installed below /usr/local has no say (.pth, sitecustomize).
COMPILER = ["/usr/bin/python3", "-S", "-P"]


def compile_python(runner, template, root):
    """The image flattens the dates of all files, so a cache that trusts dates would be stale and each import
    would compile again. -f, for Debian brings such caches with it."""
    libraries = ["/usr/lib/python3", f"/usr/lib/python{template.python}", "/usr/share/python3"]
    libraries.append(f"/usr/local/lib/python{template.python}/dist-packages")
    command = [*COMPILER, "-m", "compileall", "-f", "-q", "-j0", "--invalidation-mode=unchecked-hash"]
    there = [path for path in libraries if (root / path[1:]).is_dir()]
    runner.as_owner(root, [*command, *there], "compiling the Python libraries")


def walk(root):
    """Every path below the root, and the root, with its lstat."""
    yield str(root), os.lstat(root)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            yield path, os.lstat(path)


def take_powers_away(root):
    """No program of the image gives its caller rights, no attribute is kept, nothing is writable for all."""
    import stat

    for path, status in walk(root):
        if stat.S_ISLNK(status.st_mode):
            continue
        for attribute in os.listxattr(path):
            os.removexattr(path, attribute)
        keep = 0o1777 if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX else 0o755
        if stat.S_IMODE(status.st_mode) & ~keep:
            os.chmod(path, stat.S_IMODE(status.st_mode) & keep)
