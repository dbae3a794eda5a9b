#!/usr/bin/env python3
"""Builds a template that was asked for over the API: a built-in one with further packages, wheels and files.

    over_api.py build < REQUEST      into the cache $SANDGLASS_CACHE, as build.py does
    over_api.py clear                removes what a killed build has left there

The daemon's keeper starts it, with a request that the api has made of a Dockerfile (src/api/build_request.c): one
line of JSON, then the files of the context, one after the other. This program runs as root and the api does not, so
nothing in the request is believed: every name is looked at again, files are put into the tree without following a
link, and none of it comes near a shell.

What it prints is the build's log. The line that begins with "error: " is what the API tells as the reason.
"""

import contextlib
import copy
import hashlib
import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from builder import BuildError  # noqa: E402
from builder.cache import cache_folder, point, publish, work_folder  # noqa: E402
from builder.fetch import Download, write_lock  # noqa: E402
from builder.files import remove  # noqa: E402
from builder.image import build  # noqa: E402
from builder.inputs import Template  # noqa: E402
from builder.running import Runner, check_host  # noqa: E402

HEAD_LIMIT = 4 << 20
FILES_LIMIT = 64 << 20
TEMPLATES_LIMIT = 16  # as the api has it
BASES = ("base", "code-interpreter")
PLACES = ("workspace", "home/user", "opt", "srv", "app", "data", "usr/local")
ENVIRONMENT = "usr/share/sandglass/environment"
SHAPES = {
    "name": r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
    "debian": r"[a-z0-9][a-z0-9+.-]{0,98}[a-z0-9+]",
    "wheels": r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?"
    r"([<>=!~]{1,3}[A-Za-z0-9.*+!_-]+(,[<>=!~]{1,3}[A-Za-z0-9.*+!_-]+)*)?",
    "env": r"[A-Za-z_][A-Za-z0-9_]{0,99}",
    "labels": r"[A-Za-z0-9._/-]{1,100}",
    "to": rf"/({'|'.join(PLACES)})/[^\x00-\x1f\x7f]+",
}
MOST = {"debian": 256, "wheels": 256, "env": 64, "labels": 64, "copy": 4096, "files": 2048}


# ---- The request ----


def refuse(what):
    raise BuildError(f"the request is not well formed: {what}")


def check_text(kind, value, most=4096):
    if not isinstance(value, str) or len(value) > most or not re.fullmatch(SHAPES[kind], value):
        refuse(f"{kind}: {str(value)[:80]!r}")
    return value


def check_list(request, field, kind=list):
    value = request.get(field)
    if not isinstance(value, kind) or len(value) > MOST[field]:
        refuse(field)
    return value


def is_count(value, most):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def check_pairs(request, field):
    for name, value in check_list(request, field, dict).items():
        check_text(field, name)
        if not isinstance(value, str) or len(value) > 4096 or re.search(r"[\r\n\0]", value):
            refuse(f"the value of {name}")


def check_copy(entry, files):
    if not isinstance(entry, dict) or set(entry) != {"file", "to"} or not is_count(entry["file"], files - 1):
        refuse("copy")
    parts = check_text("to", entry["to"], 600).split("/")[1:]
    if any(part in ("", ".", "..") or len(os.fsencode(part)) > 255 for part in parts):
        refuse("copy")


def check_request(request):
    fields = {"format", "name", "size_mb", "base", "from", "debian", "wheels", "copy", "env", "labels", "files"}
    if not isinstance(request, dict) or set(request) != fields or request["format"] != 1:
        refuse("its fields")
    check_text("name", request["name"])
    if request["base"] not in BASES or not isinstance(request["from"], str) or len(request["from"]) > 60:
        refuse("base")
    if not is_count(request["size_mb"], 16384):
        refuse("size_mb")
    for field in ("debian", "wheels"):
        for value in check_list(request, field):
            check_text(field, value, 200)
    sizes = check_list(request, "files")
    if not all(is_count(size, FILES_LIMIT) for size in sizes) or sum(sizes) > FILES_LIMIT:
        refuse("files")
    for entry in check_list(request, "copy"):
        check_copy(entry, len(sizes))
    check_pairs(request, "env")
    check_pairs(request, "labels")
    return request


def read_request(stream):
    """The checked request and the files' contents."""
    head = stream.readline(HEAD_LIMIT)
    try:
        request = check_request(json.loads(head))
    except (ValueError, RecursionError):
        refuse("its first line")
    contents = [stream.read(size) for size in request["files"]]
    if [len(content) for content in contents] != request["files"] or stream.read(1):
        refuse("its files")
    return request, contents


# ---- The template ----


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def project(requirement):
    return canonical(re.match(r"[A-Za-z0-9._-]+", requirement)[0])


class Derived(Template):
    """A built-in template, and what the request adds. Its lock lies in the work folder, once it is made."""

    def __init__(self, request, contents):
        super().__init__(request["base"])
        self.base = request["base"]
        self.base_lock = self.lock
        self.name = request["name"]
        self.request = request
        self.contents = contents
        self.spec = copy.deepcopy(self.spec)
        self.spec["debian"]["packages"] += [p for p in request["debian"] if p not in self.spec["debian"]["packages"]]
        self.filled = frozenset(("workspace", "home/user"))
        self.base_key = super().key()

    def key(self):
        digest = hashlib.sha256(f"over the API: {self.base_key}\n".encode())
        digest.update(json.dumps(self.request, sort_keys=True).encode())
        for content in self.contents:
            digest.update(hashlib.sha256(content).digest())
        if self.lock != self.base_lock and self.lock.exists():
            digest.update(self.lock.read_bytes())  # newest wheels of the day
        return digest.hexdigest()[:24]

    def described(self):
        labels = self.request["labels"]
        wanted = labels.get("description") or labels.get("org.opencontainers.image.description")
        description = wanted or f"{self.base}, with what was added over the API"
        return {"description": description[:500], "aliases": [], "base": self.base, "labels": labels}

    def place_files(self, root):
        for entry in self.request["copy"]:
            put(root, entry["to"], self.contents[entry["file"]])
        if self.request["env"]:
            lines = "".join(f"{name}={value}\n" for name, value in self.request["env"].items())
            put(root, "/" + ENVIRONMENT, lines.encode())


def put(root, path, content):
    """Writes a file below the root. A link on the way is refused: it would lead out of the tree."""
    *folders, name = path.split("/")[1:]
    at = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o755, dir_fd=at)
            inner = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)
        # Clients send no modes: what names its interpreter, or is a program, is meant to be executed.
        mode = 0o755 if content.startswith((b"#!", b"\x7fELF")) else 0o644
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=at)
        with open(file, "wb") as stream:
            stream.write(content)
            os.fchmod(file, mode)
    except (NotADirectoryError, IsADirectoryError, OSError) as error:
        raise BuildError(f"'{path}' cannot be copied to: {error.strerror}", "choose another place") from error
    finally:
        os.close(at)


# ---- Building ----


class Log(Runner):
    """Says each step in lines of its own, and keeps what the tools say in the work folder."""

    def __init__(self, work):
        super().__init__(work / "tools.log", quiet=False)
        self.where = "the lines above are the last it said"

    @contextlib.contextmanager
    def step(self, text):
        self.say(text)
        start = time.monotonic()
        yield
        self.seconds[text] = round(time.monotonic() - start, 1)
        self.say(f"  {self.seconds[text]} s")

    def say(self, text, end="\n"):
        print(text, end=end, flush=True)


def resolve(runner, template, work):
    """Fetches the base's wheels and the wanted ones, as pip fits them together, and pins them."""
    wanted = template.request["wheels"]
    named = {project(requirement) for requirement in wanted}
    kept = [f"{name}=={pin['version']}" for name, pin in template.pinned().items() if canonical(name) not in named]
    folder = work / "resolved"
    folder.mkdir()
    download = Download(work / "resolving")
    command = download.command(template, *kept, *wanted, version=template.python)
    hint = "see whether the names and versions exist and fit together; only wheels are installed"
    with runner.step(f"fetch {len(wanted)} wanted wheels, with what they need"):
        runner.run(command, "pip", hint)
        download.collect(folder)
    template.lock = work / "wheels.txt"
    write_lock(template, folder)
    template.fetched = folder


def check_size(entry, size_mb):
    size = (entry / "image.erofs").stat().st_size
    if size > size_mb << 20:
        hint = f"ask for more with size_mb, or add less; at least {-(-size >> 20)} are needed"
        raise BuildError(f"the image has {-(-size >> 20)} MB, more than the {size_mb} of size_mb", hint)


def remove_former(cache, name, key):
    """A template has one image: what is mounted of a former one stays readable."""
    for description in cache.glob("*/template.json"):
        with contextlib.suppress(OSError, ValueError):
            entry = description.parent
            is_other = entry.name != key and not entry.is_symlink()
            if is_other and json.loads(description.read_text())["name"] == name:
                remove(entry)


def check_room(cache, name):
    """The api counts too; but the disk is not its to fill."""
    names = {path.name for path in cache.iterdir() if path.is_symlink() and not path.name.startswith(".")}
    if len(names - {name}) >= TEMPLATES_LIMIT:
        raise BuildError(f"there are {len(names)} templates that were built over the API", "delete one that is not needed")


def build_request(stream):
    request, contents = read_request(stream)
    cache = cache_folder()
    check_host(cache)
    check_room(cache, request["name"])
    template = Derived(request, contents)
    if sys.version_info[:2] != tuple(map(int, template.python.split("."))):
        # pip decides about conditional dependencies by the Python it runs on.
        raise BuildError(f"python3 of this host is not {template.python}", f"install python{template.python}")
    with work_folder(cache, print) as work:
        runner = Log(work)
        runner.say(f"FROM {request['from']}: {template.base}")
        if request["wheels"]:
            resolve(runner, template, work)
        build(template, work, runner)
        check_size(work / "entry", request["size_mb"])
        key = template.key()
        publish(work / "entry", cache / key)
        point(cache, template.name, key)
        remove_former(cache, template.name, key)
        runner.say(f"built {(cache / key / 'image.erofs').stat().st_size / 1e6:.0f} MB")


def fail(error):
    """The tools' own lines first, then what failed in one line."""
    first, _, rest = str(error).partition("\n")
    if rest:
        print(rest)
    print("error: " + " ".join(first.split()) + (f" ({error.hint})" if error.hint else ""), flush=True)
    return 1


def main(arguments):
    os.umask(0o022)
    if arguments == ["clear"]:
        with work_folder(cache_folder(), print):
            return 0  # taking it removes what was left
    if arguments != ["build"]:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        build_request(sys.stdin.buffer)
        return 0
    except BuildError as error:
        return fail(error)
    except OSError as error:
        return fail(BuildError(f"{error.strerror}: {error.filename or ''}".rstrip(": ")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
