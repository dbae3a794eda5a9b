"""How the builder runs its tools, and what each may do: in namespaces that end with it, with few capabilities or none.

The rules that decide it are the constants here; what a tool says and how it ends is the Runner's.
"""

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path

from builder import BuildError

SPACE_NEEDED = 2 << 30
SPACE_KEPT = 256 << 20  # for the others on that disk: packages may unpack to any size
HOST_PACKAGES = "apt-get install mmdebstrap erofs-utils python3-pip"

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
