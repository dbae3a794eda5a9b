"""All steps of a build in their order, and the entry that comes of it: the image and what is said of it."""

import datetime
import shutil

from builder.checks import check_inside, check_tree
from builder.debian import debian_packages, make_base
from builder.fetch import fetching
from builder.files import sha256_of, write_json
from builder.inputs import BUILDER
from builder.tree import compile_python, configure, install_wheels, make_mount_points, prune, take_powers_away

IMAGE_DATE = 1735689600  # of every file: 2025-01-01, so that equal trees give equal images


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
        write_image(runner, root, image, key)
        manifest = {
            "key": key, "builder": BUILDER, "suite": template.suite, "arch": template.arch, "files": files,
            "debian": debian_packages(root), "wheels": pinned,
            "measured": measured, "seconds": runner.seconds,
        }  # fmt: skip
        write_json(entry / "manifest.json", manifest)
        write_json(entry / "template.json", description_of(template, image, key, measured))


def write_image(runner, root, image, key):
    # No attribute is in the tree; -x-1 makes sure of it. The id is the key's, so equal trees stay equal.
    uuid = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:24]}{'0' * 8}"
    options = ["--quiet", "-zlz4", f"-T{IMAGE_DATE}", "-x-1", "--all-root", f"-U{uuid}"]
    runner.run(["mkfs.erofs", *options, image, root], "mkfs.erofs")


def description_of(template, image, key, measured):
    """What the daemon reads."""
    return {
        "format": 1, "name": template.name, "key": key, "image": image.name, "sha256": sha256_of(image),
        "suite": template.suite, "arch": template.arch,
        "python": "/usr/bin/python3", "python_version": measured["python_version"],
        "languages": template.spec["languages"], "aliases": template.spec["aliases"],
        "preload": template.spec["preload"], "description": template.spec["description"],
        "size_bytes": image.stat().st_size,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        **template.described(),
    }  # fmt: skip
