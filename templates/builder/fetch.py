"""The wheels: fetched by pip as somebody without rights, looked at, and pinned by hash.

Nothing here puts one into the tree (that is tree.py).
"""

import contextlib
import os
import re
import shutil
import sys
from pathlib import Path

from builder import BuildError
from builder.files import remove, sha256_of
from builder.running import AS_DOWNLOADER, DOWNLOADER, IN_DOWNLOAD, ISOLATED, SPACE_KEPT

# It reads archives of strangers on the host; some KB of one may unpack to any size.
PIP_LIMITS = ["prlimit", f"--as={4 << 30}", "--core=0"]
WHEEL = r"[A-Za-z0-9][A-Za-z0-9._+!-]{1,250}\.whl"


def find_pip(version=None):
    """Any pip will do that the downloader can run: it only downloads what the lock names. Of a version of Python where it
    decides what else is needed."""
    import subprocess

    show = "import sys, pip; print('%d.%d' % sys.version_info[:2])"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        # By way of env, as pip is run: setpriv itself still has the power to go through a closed folder.
        probe = subprocess.run([*AS_DOWNLOADER, "/usr/bin/env", python, "-c", show], capture_output=True, text=True, cwd="/")
        if probe.returncode == 0 and probe.stdout.strip() in (version or probe.stdout.strip(),):
            return [python, "-m", "pip"]
    which = f"Python {version}" if version else "Python"
    raise BuildError(f"no {which} of this host has a pip that all can run", "apt-get install python3-pip")


def wheel_platforms(template):
    """The tags that the suite's C library runs, newest first."""
    tags = [f"manylinux_2_{minor}_{template.machine}" for minor in range(36, 4, -1)]
    tags += [f"{old}_{template.machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1")]
    return [f"--platform={tag}" for tag in tags]


class Download:
    """A folder in which pip fetches, as somebody who can read what all can and write here alone. It is seen at PLACE,
    since the way to the folder itself may be closed to all but root."""

    PLACE = "/media/download"

    def __init__(self, folder):
        self.folder = folder
        for path in (folder, folder / "wheels", folder / "tmp"):
            path.mkdir()
        for name in ("wheels", "tmp"):
            os.chown(folder / name, int(DOWNLOADER), int(DOWNLOADER))

    def give(self, path, name):
        """Returns where pip can read a copy."""
        shutil.copyfile(path, self.folder / name)
        (self.folder / name).chmod(0o644)
        return f"{self.PLACE}/{name}"

    def command(self, template, *words, version=None):
        environment = [f"HOME={self.PLACE}/tmp", f"TMPDIR={self.PLACE}/tmp"]
        configuration = users_configuration()
        if configuration:
            environment.append(f"PIP_CONFIG_FILE={self.give(configuration, 'pip.conf')}")
        pip = download_command(template, f"{self.PLACE}/wheels", version)
        inside = ["sh", "-c", IN_DOWNLOAD, "sh", self.folder, *AS_DOWNLOADER]
        return [*ISOLATED, *inside, "/usr/bin/env", *environment, *pip, *words]

    def collect(self, into):
        """Takes the wheels out of its hands, and looks at each: anything may have been put in its place."""
        import stat

        for name in sorted(os.listdir(self.folder / "wheels")):
            file = os.open(self.folder / "wheels" / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(file, "rb") as source:
                status = os.fstat(file)
                if not re.fullmatch(WHEEL, name) or not stat.S_ISREG(status.st_mode):
                    raise BuildError(f"pip has fetched '{name[:80]}', which is no wheel")
                if shutil.disk_usage(into).free - status.st_size < SPACE_KEPT:  # a file of holes takes none until it is copied
                    raise BuildError(f"there is no room for '{name[:80]}'", "ask for less, or make room there")
                with open(into / name, "xb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        remove(self.folder)


def users_configuration():
    """pip's, of who builds: the downloader's home is another."""
    named = os.environ.get("PIP_CONFIG_FILE")
    places = [Path(named)] if named else [Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"]
    return next((path for path in places if path.is_file()), None)


def download_command(template, folder, version=None):
    digits = template.python.replace(".", "")
    command = [*PIP_LIMITS, *find_pip(version), "download", "--quiet", "--disable-pip-version-check", "--dest", folder]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={template.python}"]
    command += [f"--abi=cp{digits}", "--abi=abi3", "--abi=none", *wheel_platforms(template)]
    return command


@contextlib.contextmanager
def fetching(runner, template, work, wheels):
    """The wheels of the lock come while other things are done; what it gives waits for them."""
    if template.fetched:
        yield lambda: shutil.copytree(template.fetched, wheels, dirs_exist_ok=True)
        return
    download = Download(work / "download")
    lock = download.give(template.lock, "lock.txt")
    process = runner.start(download.command(template, "--no-deps", "--require-hashes", f"--requirement={lock}"))

    def fetched():
        hint = f"see whether `pip download numpy` works on this host; {runner.where}"
        runner.finish(process, "fetching the wheels", hint)
        download.collect(wheels)

    try:
        yield fetched
    finally:
        process.kill()
        process.wait()


def make_lock(template, work, runner):
    """Pins what the package index has today for the wanted wheels and all they need."""
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if running != template.python:
        # pip decides about conditional dependencies by the Python it runs on.
        message = f"a lock for Python {template.python} cannot be made by {running}"
        raise BuildError(message, f"run this with python{template.python}")
    wheels = work / "wheels"
    wheels.mkdir()
    with runner.step("fetch the newest wheels"):
        download = Download(work / "download")
        command = download.command(template, *template.spec["wheels"]["wanted"], version=template.python)
        environment = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
        runner.run(command, "fetching the wheels", env=environment)
        download.collect(wheels)
    write_lock(template, wheels)


def write_lock(template, wheels):
    """Pins what lies in the folder."""
    lines = ["# Written by build.py --lock from template.toml: every wheel of the image, by hash."]
    for wheel in sorted(wheels.glob("*.whl"), key=lambda path: path.name.lower()):
        name, version = wheel.name.split("-")[:2]
        lines.append(f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{sha256_of(wheel)}")
    template.lock.write_text("\n".join(lines) + "\n")
