#!/usr/bin/env python3
"""Builds a template: a read-only root file system that sandboxes start from.

    python3 templates/build.py NAME [--force] [--quiet]    build it, or do nothing if it is there
    python3 templates/build.py NAME --print-key            say which image the inputs ask for
    python3 templates/build.py NAME --lock                 pin the newest wheels

Everything that goes in is named by the inputs: the folder templates/NAME (what to install, which
wheels by hash), templates/skeleton (files of /etc) and BUILDER below. Their hash is the key, and
the key is the folder of the image in the cache:

    $SANDGLASS_CACHE (default ~/.cache/sandglass)
        <key>/image.erofs       the root, lz4
        <key>/template.json     what the daemon reads, written last
        <key>/manifest.json     the exact Debian packages and wheels inside
        <NAME> -> <key>         what NAME means now
        <NAME>.log              what the tools said during the last build

Debian's packages are whatever the suite holds on the day: their versions are recorded, not chosen,
and so not part of the key. --force builds again for the same key, with the fixes that came since.

A finished entry is never changed, only replaced as a whole: a daemon that has the old image mounted
keeps it. All work happens in one folder inside the cache, with mounts only in namespaces that end
with the command, so a build that is killed leaves at most that folder, and the next one removes it.

Only the standard library is used. What runs the target's programs does so offline in a chroot and without
capabilities. Code of wheels and of placed files is not trusted: it runs as the sandbox's user in a tree that is
read-only, or not at all, since whoever writes to the tree decides what the steps after it meet there.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import sys
import time
import tomllib
from pathlib import Path

# Part of every key: count up when a change below alters what comes out.
BUILDER = 1

TEMPLATES = Path(__file__).resolve().parent
PYTHONS = {"bookworm": "3.11"}  # Debian's own Python of each suite that was tried
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
IMAGE_DATE = 1735689600  # of every file: 2025-01-01, so that equal trees give equal images
SPACE_NEEDED = 2 << 30
SPACE_KEPT = 256 << 20  # for the others on that disk: packages may unpack to any size
HOST_PACKAGES = "apt-get install mmdebstrap erofs-utils python3-pip"

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


class BuildError(Exception):
    """What failed, and what the reader can do about it."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


# ---- Inputs ----

SCHEMA = {
    "description": str, "suite": str, "aliases": list, "languages": list, "preload": list,
    "debian": {"packages": list},
    "wheels": {"wanted": list},
    "prune": {"folders": list, "suffixes": list, "paths": list},
    "edit": [{"path": str, "find": str, "replace": str}],
    "check": {"imports": list, "commands": list, "glyphs": str},
}  # fmt: skip
OPTIONAL = {"check.glyphs", "edit"}


class Template:
    """A template as its folder describes it; nothing is built yet."""

    fetched = None  # folder with all wheels of the lock, where they are there already
    filled = frozenset()  # mount points that it puts files into

    def __init__(self, name, templates=TEMPLATES, machine=None):
        folders = sorted(path.parent.name for path in templates.glob("*/template.toml"))
        if name not in folders:
            known = ", ".join(folders) or "none"
            raise BuildError(f"there is no template '{name}'", f"templates that exist: {known}")
        machine = machine or os.uname().machine
        if machine not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise BuildError(f"cannot build for '{machine}'", f"machines that are known: {known}")
        self.name = name
        self.folder = templates / name
        self.skeleton = templates / "skeleton"
        self.machine = machine
        self.arch = ARCHITECTURES[machine]
        self.spec = read_spec(self.folder / "template.toml")
        self.suite = self.spec["suite"]
        self.python = PYTHONS[self.suite]
        self.lock = self.folder / f"wheels.cp{self.python.replace('.', '')}-{self.arch}.txt"

    def key(self):
        """Changes with whatever may change the image."""
        digest = hashlib.sha256(f"{BUILDER} {self.suite} {self.arch}\n".encode())
        locks_of_others = set(self.folder.glob("wheels.*.txt")) - {self.lock}
        for root in (self.folder, self.skeleton):
            for path in sorted(root.rglob("*")):
                if path.is_file() and path not in locks_of_others:
                    content = path.read_bytes()
                    mode = "x" if os.access(path, os.X_OK) else "-"
                    name = path.relative_to(root.parent if root == self.skeleton else root)
                    digest.update(f"{name} {mode} {len(content)}\n".encode() + content)
        return digest.hexdigest()[:24]

    def place_files(self, root):
        """Puts what is neither a package nor a wheel into the finished tree."""

    def described(self):
        """What template.json says beside what all of them say."""
        return {}

    def pinned(self):
        """The lock file as {name: {version, sha256}}."""
        if not self.lock.exists():
            raise BuildError(
                f"template '{self.name}' has no '{self.lock.name}'",
                f"python{self.python} templates/build.py {self.name} --lock",
            )
        wheels = {}
        for number, line in enumerate(self.lock.read_text().splitlines(), 1):
            if not line or line.startswith("#"):
                continue
            match = re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+) --hash=sha256:([0-9a-f]{64})", line)
            if not match:
                raise BuildError(
                    f"{self.lock.name}, line {number}: '{line}' is not 'name==version --hash=sha256:…'",
                    f"python{self.python} templates/build.py {self.name} --lock",
                )
            wheels[match[1]] = {"version": match[2], "sha256": match[3]}
        return wheels


def read_spec(path):
    try:
        spec = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BuildError(f"{path}: {error}", "correct the file; its syntax is TOML") from error
    check_table(path, spec, SCHEMA, "")
    if spec["suite"] not in PYTHONS:
        known = ", ".join(PYTHONS)
        raise BuildError(f"{path}: suite '{spec['suite']}' is not known", f"suites that are known: {known}")
    return spec


def check_table(path, table, schema, prefix):
    words = {str: "a text", list: "a list of texts", dict: "a table"}
    for field in table:
        if field not in schema:
            known = ", ".join(prefix + name for name in schema)
            raise BuildError(f"{path}: field '{prefix}{field}' is not known", f"fields here: {known}")
    for field, wanted in schema.items():
        full = prefix + field
        of_tables = isinstance(wanted, list)
        kind = list if of_tables else dict if isinstance(wanted, dict) else wanted
        item = dict if of_tables else str
        word = "a list of tables" if of_tables else words[kind]
        if field not in table:
            if full in OPTIONAL:
                continue
            raise BuildError(f"{path}: field '{full}' is missing", f"it is {word}")
        value = table[field]
        if not isinstance(value, kind) or (kind is list and not all(isinstance(one, item) for one in value)):
            raise BuildError(f"{path}: field '{full}' is not {word}", f"it is {value!r} now")
        if kind is dict:
            check_table(path, value, wanted, full + ".")
        if of_tables:
            for one in value:
                check_table(path, one, wanted[0], full + ".")


# ---- The cache ----


def cache_folder():
    return Path(os.environ.get("SANDGLASS_CACHE") or Path.home() / ".cache/sandglass").expanduser().absolute()


def is_complete(entry):
    """template.json is written last and the folder gets its name after that: a look at both is enough."""
    try:
        described = json.loads((entry / "template.json").read_text())
        return (
            described["key"] == entry.name
            and (entry / described["image"]).stat().st_size == described["size_bytes"]
            and (entry / "manifest.json").exists()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def point(cache, name, key):
    """Lets the name mean this entry, for readers at any moment."""
    link = cache / name
    if link.is_symlink() and os.readlink(link) == key:
        return
    new = cache / f".link-{name}-{os.getpid()}"
    new.symlink_to(key)
    os.replace(new, link)


def publish(built, entry):
    """Gives the built folder its name. An older build of the same key trades places with it, since no
    moment may pass without an entry; the old one then goes with the work folder."""
    if not entry.exists():
        os.rename(built, entry)
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    at_cwd, exchange = -100, 2
    if libc.renameat2(at_cwd, os.fsencode(built), at_cwd, os.fsencode(entry), exchange) != 0:
        # The file system cannot: a short gap is what is left.
        aside = built.with_name("replaced")
        os.rename(entry, aside)
        os.rename(built, entry)


@contextlib.contextmanager
def work_folder(cache, say):
    """The one folder in which a build happens, held alone, gone afterwards however it ends."""
    import fcntl
    import signal
    import tempfile

    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)

        def leave(number, _frame):
            raise SystemExit(128 + number)

        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, leave)
        for left in [*cache.glob(".build-*"), *cache.glob(".link-*")]:
            remove_work(left)
        work = Path(tempfile.mkdtemp(prefix=".build-", dir=cache))
        work.chmod(0o755)
        try:
            yield work
        finally:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            remove_work(work)


def remove_work(work):
    """What was killed in it may go on writing for a moment."""
    for _ in range(100):
        remove(work)
        if not work.exists():
            break
        time.sleep(0.05)


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# ---- Running things ----

# Gives the target what it needs to run: /proc, a few devices, memory for temporary files. The mounts are
# in a namespace that dies with the command. $1 is the root, $2 "ro" or "rw", $3 a folder for /run/wheels.
IN_ROOT = """
set -e
root=$1 mode=$2 wheels=$3
shift 3
mount --bind "$root" "$root"
test "$mode" = rw || mount -o remount,bind,ro "$root"
mount -t proc -o ro,nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o mode=755,size=64m tmpfs "$root/dev"
for device in null zero full random urandom; do
	: >"$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
	mount -o remount,bind,ro "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=1g,nosuid,nodev tmpfs "$root/tmp"
if test -n "$wheels"; then
	mount -t tmpfs tmpfs "$root/run"
	mkdir "$root/run/wheels"
	mount --bind "$wheels" "$root/run/wheels"
fi
exec "$@"
"""
# Even SIGKILL to the builder ends what it started: a leftover would write into a folder the next build removes.
UNTIL_WE_DIE = ["setpriv", "--pdeathsig", "KILL", "--"]
# With a pid namespace nothing outlives the command, however it ends.
ISOLATED = ["unshare", "--mount", "--propagation", "private", "--pid", "--ipc", "--fork", "--kill-child"]
# Root there is the host's: without capabilities it owns the tree and nothing else. By the full path, as all
# that is run there: PATH begins with /usr/local, which is where wheels and placed files go.
POWERLESS = ["/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
# pip fetches on the host, with its network: as nobody who owns anything there. The daemon gives an id of its own.
DOWNLOADER = os.environ.get("SANDGLASS_DOWNLOADER", "65534")
AS_DOWNLOADER = [*POWERLESS, f"--reuid={DOWNLOADER}", f"--regid={DOWNLOADER}", "--clear-groups"]
IN_DOWNLOAD = """
set -e
folder=$1
shift
mount -t tmpfs -o mode=755,size=64k,nosuid,nodev tmpfs /media
mkdir /media/download
mount --bind "$folder" /media/download
mount -o remount,bind,nosuid,nodev /media/download
cd /
exec "$@"
"""
# What packages are installed with: their scripts run as root of the host in a chroot, and mmdebstrap mounts for them what
# they need. No network to set up, no module, clock, device port, other process or kernel setting to reach.
PACKAGER_POWERS = "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap sys_chroot mknod setfcap sys_admin"
AS_PACKAGER = ["/usr/bin/setpriv", "--bounding-set=-all," + ",".join("+" + power for power in PACKAGER_POWERS.split())]
AS_PACKAGER += ["--inh-caps=-all", "--no-new-privs"]
USER = "1000"
USER_LIMITS = ["prlimit", "--fsize=67108864", "--nproc=4096", "--core=0"]
OUTPUT_LIMIT = 4 << 20


class Runner:
    """Runs the tools; what they say goes to the log, and is shown when one fails."""

    def __init__(self, log_path, quiet):
        self.log_path = log_path
        self.where = f"all of it: {log_path}"
        self.log = None  # opened by the first command: until then it may be another build's
        self.quiet = quiet
        self.seconds = {}

    @contextlib.contextmanager
    def step(self, text):
        self.say(f"{text} … ", end="")
        start = time.monotonic()
        try:
            yield
        except BaseException:
            self.say("failed")
            raise
        took = time.monotonic() - start
        self.seconds[text] = round(took, 1)
        self.say(f"{took:.1f} s")

    def say(self, text, end="\n"):
        if not self.quiet:
            print(text, end=end, file=sys.stderr, flush=True)

    def start(self, command, **options):
        import resource
        import subprocess

        self.log = self.log or open(self.log_path, "wb", buffering=0)
        words = ["(mounts)" if word in (IN_ROOT, IN_DOWNLOAD) else str(word) for word in command]
        self.log.write(f"\n$ {' '.join(words)}\n".encode())
        # Some tools close every descriptor they might have before each program they start.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
        options = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log} | options
        return subprocess.Popen([*UNTIL_WE_DIE, *map(str, command)], **options)

    def finish(self, process, what, hint=""):
        import subprocess

        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
                if process.poll() is None and shutil.disk_usage(self.log_path.parent).free < SPACE_KEPT:
                    raise BuildError(f"{what} was ended: the disk is nearly full", "ask for less, or make room there")
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode in (-9, 137):
            hint = "perhaps it took more memory than there is; a build over the API may have 2 GB"
        if process.returncode != 0:
            lines = self.log_path.read_text(errors="replace").splitlines()[-15:]
            said = "\n".join("  | " + line for line in lines)
            raise BuildError(f"{what} failed (exit {process.returncode})\n{said}", hint or self.where)

    def run(self, command, what, hint="", **options):
        self.finish(self.start(command, **options), what, hint)

    def as_owner(self, root, command, what, *, wheels=""):
        """A program of Debian's packages, by its full path, that writes to the tree and runs nothing else of it."""
        self.run(in_root(root, command, wheels=wheels), what)

    def as_user(self, root, command, what, *, hint="", **options):
        """Whatever the tree holds, as a sandbox would run it: nothing is written. Returns what it printed."""
        import tempfile

        with tempfile.TemporaryFile(dir=self.log_path.parent) as output:
            self.run(in_root(root, command, is_user=True), what, hint, stdout=output, **options)
            if output.seek(0, os.SEEK_END) > OUTPUT_LIMIT:
                raise BuildError(f"{what} printed more than {OUTPUT_LIMIT >> 20} MB", hint or self.where)
            output.seek(0)
            return output.read()


def in_root(root, command, *, wheels="", is_user=False):
    environment = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
    environment += ["HOME=/tmp", "PYTHONHASHSEED=0", "OPENBLAS_NUM_THREADS=1"]
    powerless = [*POWERLESS, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if is_user else POWERLESS
    chroot = [*(USER_LIMITS if is_user else []), "chroot", "--groups=", root]
    mounts = [IN_ROOT, "sh", root, "ro" if is_user else "rw", wheels]
    return [*ISOLATED, "--net", "sh", "-c", *mounts, *chroot, *powerless, "/usr/bin/env", "-i", *environment, *command]


def find_pip(version=None):
    """Any pip will do that the downloader can run: it only downloads what the lock names. Of a version of Python where it
    decides what else is needed."""
    import subprocess

    show = "import sys, pip; print('%d.%d' % sys.version_info[:2])"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        probe = subprocess.run([*AS_DOWNLOADER, python, "-c", show], capture_output=True, text=True, cwd="/")
        if probe.returncode == 0 and probe.stdout.strip() in (version or probe.stdout.strip(),):
            return [python, "-m", "pip"]
    which = f"Python {version}" if version else "Python"
    raise BuildError(f"no {which} of this host has a pip that all can run", "apt-get install python3-pip")


def check_host(cache):
    if os.geteuid() != 0:
        hint = "run it with sudo, and SANDGLASS_CACHE set if the daemon is not root"
        raise BuildError("building a template needs root", hint)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [tool for tool in ("mmdebstrap", "mkfs.erofs", "unshare", "setpriv", "prlimit", "chroot") if not shutil.which(tool)]
    if missing:
        raise BuildError(f"this host lacks {', '.join(missing)}", HOST_PACKAGES)
    if not list(Path("/usr/share/keyrings").glob("debian-archive-keyring.*")):
        raise BuildError("this host lacks Debian's signing keys", "apt-get install debian-archive-keyring")
    free = shutil.disk_usage(cache).free
    if free < SPACE_NEEDED:
        raise BuildError(
            f"{cache} has {free >> 20} MB left, a build needs {SPACE_NEEDED >> 20}",
            f"remove images that are no longer used (see the links in {cache}), or set SANDGLASS_CACHE",
        )


# ---- Steps ----


def host_sources(suite, apt=Path("/etc/apt")):
    """What the host's own sources say about the suite, as text and suffix; so a build uses the mirror that
    works here. None if the host is of another release: then mmdebstrap knows where Debian is."""
    suites = {suite, f"{suite}-updates", f"{suite}-security"}
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        stanzas = []
        for stanza in re.split(r"\n\s*\n", path.read_text(errors="replace")):
            fields = dict(re.findall(r"(?im)^(suites|components|types|enabled):[ \t]*(.*)$", stanza))
            fields = {name.lower(): value.split() for name, value in fields.items()}
            usable = "main" in fields.get("components", []) and "deb" in fields.get("types", [])
            if usable and set(fields.get("suites", [])) <= suites and fields.get("enabled") != ["no"]:
                stanzas.append(stanza.strip("\n"))
        if any(re.search(rf"(?im)^suites:.*\b{suite}(\s|$)", stanza) for stanza in stanzas):
            return "\n\n".join(stanzas) + "\n", ".sources"
    for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]:
        text = path.read_text(errors="replace") if path.exists() else ""
        entries = re.findall(r"(?m)^deb\s+(?:\[[^]]*\]\s+)?\S+\s+(\S+)\s+main\b.*$", text)
        if suite in entries:
            lines = [line for line in text.splitlines() if re.match(r"deb\s", line)]
            wanted = [line for line in lines if suites & set(line.split()) and "main" in line.split()]
            return "\n".join(wanted) + "\n", ".list"
    return None


def make_base(runner, template, root, work):
    options = ["--mode=root", "--variant=essential", f"--architectures={template.arch}"]
    options += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Retries "3"']
    for excluded in ("doc", "man", "locale"):
        options.append(f"--dpkgopt=path-exclude=/usr/share/{excluded}/*")
    options.append("--dpkgopt=path-include=/usr/share/doc/*/copyright")
    options.append("--include=" + ",".join(template.spec["debian"]["packages"]))
    command = ["mmdebstrap", *options, template.suite, root]
    sources = host_sources(template.suite)
    if sources:
        path = work / ("debian" + sources[1])
        path.write_text(sources[0])
        command.append(path)
    hint = f"see whether `apt-get update` works on this host; {runner.where}"
    environment = os.environ | {"TMPDIR": str(work), "LC_ALL": "C.UTF-8"}
    runner.run([*ISOLATED, "--mount-proc", *AS_PACKAGER, *command], "mmdebstrap", hint, env=environment)


def wheel_platforms(template):
    """The tags that the suite's C library runs, newest first."""
    tags = [f"manylinux_2_{minor}_{template.machine}" for minor in range(36, 4, -1)]
    tags += [f"{old}_{template.machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1")]
    return [f"--platform={tag}" for tag in tags]


# It reads archives of strangers on the host; some KB of one may unpack to any size.
PIP_LIMITS = ["prlimit", f"--as={4 << 30}", "--core=0"]
WHEEL = r"[A-Za-z0-9][A-Za-z0-9._+!-]{1,250}\.whl"


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
                if not re.fullmatch(WHEEL, name) or not stat.S_ISREG(os.fstat(file).st_mode):
                    raise BuildError(f"pip has fetched '{name[:80]}', which is no wheel")
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


def check_tree(root, filled=frozenset()):
    """Looks again, at the finished tree; returns how many files it has. Of the mount points only those named
    may have files."""
    import stat

    wrong = []
    count = 0
    for path, status in walk(root):
        count += 1
        mode, name = status.st_mode, path[len(str(root)) :] or "/"
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            wrong.append(f"{name} is neither file, folder nor link")
        if stat.S_ISLNK(mode):
            continue
        if mode & (stat.S_ISUID | stat.S_ISGID):
            wrong.append(f"{name} is setuid or setgid")
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            wrong.append(f"{name} is writable for all")
        if os.listxattr(path):
            wrong.append(f"{name} has extended attributes")
        if name.endswith(".pyc"):
            with open(path, "rb") as file:
                if file.read(8)[4:] != b"\1\0\0\0":
                    wrong.append(f"{name} is not an unchecked-hash pyc")
    for name in MOUNT_POINTS:
        if name not in filled and list((root / name).iterdir()):
            wrong.append(f"/{name} is not empty")
    if wrong:
        more = f"\n  … and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        said = "\n  ".join(["the finished tree is not as promised:", *wrong[:20]]) + more
        raise BuildError(said, "correct templates/build.py")
    return count


def check_inside(runner, template, root):
    """Uses the finished tree as a sandbox would; returns what selfcheck.py measured."""
    request = json.dumps(template.spec["check"] | {"mount_points": sorted(MOUNT_POINTS)})
    with open(TEMPLATES / "selfcheck.py", "rb") as script:
        output = runner.as_user(
            root, ["/usr/bin/python3", "-", request], "the check of the finished image",
            hint=f"correct the template's files; {runner.where}", stdin=script,
        )  # fmt: skip
    return read_measured(output)


def read_measured(output):
    """It was printed among what wheels may print, and goes into template.json: looked at before."""
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        said = json.loads(output)
        seconds = {str(name)[:100]: round(float(value), 3) for name, value in said["import_seconds"].items()}
        if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}[a-z0-9+]{0,8}", said["python_version"]):
            return {"python_version": said["python_version"], "import_seconds": seconds}
    raise BuildError("the check of the finished image said something else than what it measured")


def debian_packages(root):
    """{name: version} by dpkg's own record."""
    stanzas = (root / "var/lib/dpkg/status").read_text().split("\n\n")
    records = [dict(re.findall(r"(?m)^(Package|Version|Status): (.*)$", stanza)) for stanza in stanzas if stanza.strip()]
    return {record["Package"]: record["Version"] for record in records if record["Status"].endswith(" installed")}


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def build(template, work, runner):
    """Makes the entry in work/entry, complete."""
    root, wheels, entry = work / "root", work / "wheels", work / "entry"
    wheels.mkdir()
    entry.mkdir()
    key, pinned = template.key(), template.pinned()
    with fetching(runner, template, work, wheels) as fetched:
        with runner.step(f"Debian {template.suite} with {len(template.spec['debian']['packages'])} packages"):
            make_base(runner, template, root, work)
        with runner.step(f"wait for {len(pinned)} wheels, fetched meanwhile"):
            fetched()
    with runner.step("install the wheels"):
        install_wheels(runner, template, root, wheels)
        shutil.rmtree(wheels)
    with runner.step("configure"):
        configure(runner, template, root)
    with runner.step("prune"):
        prune(template, root)
        make_mount_points(root)
        template.place_files(root)
    with runner.step("compile Python"):
        compile_python(runner, template, root)
    with runner.step("take setuid bits and attributes away"):
        take_powers_away(root)
        files = check_tree(root, template.filled)
    with runner.step("check: imports, commands, fonts"):
        measured = check_inside(runner, template, root)
    with runner.step("write the image"):
        image = entry / "image.erofs"
        # No attribute is in the tree; -x-1 makes sure of it. The id is the key's, so equal trees stay equal.
        uuid = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:24]}{'0' * 8}"
        options = ["--quiet", "-zlz4", f"-T{IMAGE_DATE}", "-x-1", "--all-root", f"-U{uuid}"]
        runner.run(["mkfs.erofs", *options, image, root], "mkfs.erofs")
        manifest = {
            "key": key, "builder": BUILDER, "suite": template.suite, "arch": template.arch, "files": files,
            "debian": debian_packages(root), "wheels": pinned,
            "measured": measured, "seconds": runner.seconds,
        }  # fmt: skip
        description = {
            "format": 1, "name": template.name, "key": key, "image": image.name, "sha256": sha256_of(image),
            "suite": template.suite, "arch": template.arch,
            "python": "/usr/bin/python3", "python_version": measured["python_version"],
            "languages": template.spec["languages"], "aliases": template.spec["aliases"],
            "preload": template.spec["preload"], "description": template.spec["description"],
            "size_bytes": image.stat().st_size,
            "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            **template.described(),
        }  # fmt: skip
        write_json(entry / "manifest.json", manifest)
        write_json(entry / "template.json", description)


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


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


# ---- The command ----


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="build.py", description="Build a template into the image cache.")
    parser.add_argument("name", metavar="NAME", help="a folder beside this program")
    parser.add_argument("--force", action="store_true", help="build again though the image is there")
    parser.add_argument("--quiet", action="store_true", help="no progress, only errors and the result")
    parser.add_argument("--print-key", action="store_true", help="only print the key of the image")
    parser.add_argument("--lock", action="store_true", help="write the lock file of the wheels anew, build nothing")
    options = parser.parse_args(arguments)
    os.umask(0o022)
    try:
        return run(options)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        if error.hint:
            print(f"  -> {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def run(options):
    template = Template(options.name)
    key = template.key()
    if options.print_key:
        print(key)
        return 0
    cache = cache_folder()
    entry = cache / key
    if not (options.force or options.lock) and is_complete(entry):
        point(cache, template.name, key)
        print(entry)
        return 0
    if not options.lock:
        template.pinned()  # an unreadable lock is said before anything is fetched
    cache.mkdir(parents=True, exist_ok=True)
    if not options.lock:
        check_host(cache)
    start = time.monotonic()
    runner = Runner(cache / f"{template.name}.log", options.quiet)
    with work_folder(cache, runner.say) as work:
        if options.lock:
            make_lock(template, work, runner)
            print(template.lock)
            return 0
        if options.force or not is_complete(entry):  # another build may have made it meanwhile
            build(template, work, runner)
            publish(work / "entry", entry)
            size = (entry / "image.erofs").stat().st_size / 1e6
            runner.say(f"{template.name}: {size:.0f} MB in {time.monotonic() - start:.0f} s")
        point(cache, template.name, key)
    print(entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
