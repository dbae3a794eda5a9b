"""What goes into a template: its folder, looked at and checked, and the key that it all amounts to."""

import hashlib
import os
import re
import tomllib
from pathlib import Path

from builder import BuildError

# Part of every key: count up when a change of the builder alters what comes out.
BUILDER = 1

TEMPLATES = Path(__file__).resolve().parent.parent
PYTHONS = {"bookworm": "3.11"}  # Debian's own Python of each suite that was tried
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

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
