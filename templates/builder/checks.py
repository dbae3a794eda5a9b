"""Whether the finished tree is as promised: looked at from outside, and used from inside as a sandbox would."""

import contextlib
import json
import os
import re

from builder import BuildError
from builder.inputs import TEMPLATES
from builder.tree import MOUNT_POINTS, walk


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
        raise BuildError(said, "correct templates/builder")
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
