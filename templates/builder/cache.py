"""The cache of images: which entry is whole, what a name means, and the folder in which a build happens."""

import contextlib
import json
import os
import time
from pathlib import Path

from builder.files import remove


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
